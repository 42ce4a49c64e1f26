# limit_s: 600
. /systemd-words.sh
kernel_at_least 6 7 || skip 'this kernel has no remote partitions'
service one
at=$root/system.slice/one.service
is_whole() { # cpus
    want_file $at/cpuset.cpus.partition root
    want_file $at/cpuset.cpus.effective "$1"
    want "$1" "$(cpus_of $pid)" 'where the service may run'
}

need psrset -c 2
need psrset -b -z one.service 1
is_whole 2
want active "$(systemctl is-active mpset1.slice)" mpset1.slice
need systemctl daemon-reload
is_whole 2
first=$pid
service other
pid=$first
is_whole 2
need systemctl set-property --runtime one.service CPUWeight=50
need systemctl set-property --runtime system.slice CPUWeight=50
is_whole 2
need psrset -a 1 3
is_whole 2-3
need psrset -b -z one.service 0
want_file $root/cpuset.cpus.effective 0-1,4-7
want '' "$(systemctl show -P AllowedCPUs one.service)" 'its property'
need psrset -d 1
want 0-7 "$(cpus_of $pid)" 'where the service may run'
need systemctl stop one.service other.service
rm -f /run/systemd/system.control/*/50-CPUWeight.conf
rmdir /run/systemd/system.control/* || true
want_nothing_left
