# limit_s: 600
. /systemd-words.sh
set=$root/mpset1.slice
is_whole() { # cpus
    want_file $set/cpuset.cpus "$1"
    want_file $set/cpuset.cpus.effective "$1"
    want_file $set/cpuset.cpus.partition root
    want "$1" "$(cpus_of $sleeper)" 'where the process may run'
    echo "$1 after $(cut -d' ' -f1 /proc/uptime) s"
}

need psrset -c 2 3
want active "$(systemctl is-active mpset1.slice)" mpset1.slice
want_file $set/cpuset.cpus.partition root
want_file $root/cpuset.cpus.effective 0-1,4-7
home=$(sed 's/^0:://' /proc/self/cgroup)
sleep 100000 &
sleeper=$!
need psrset -b 1 $sleeper
in_cgroup $sleeper /mpset1.slice/mpset1-$sleeper-1.scope
want active "$(systemctl is-active mpset1-$sleeper-1.scope)" 'its scope'
is_whole 2-3

need systemctl daemon-reload
is_whole 2-3
service other
is_whole 2-3
need systemctl set-property --runtime other.service CPUWeight=50
need systemctl set-property --runtime system.slice CPUWeight=50
is_whole 2-3
need psrset -a 1 4
is_whole 2-4
need systemctl daemon-reload
is_whole 2-4
need systemctl daemon-reexec
is_whole 2-4
need psrset -r 2
is_whole 3-4
need systemctl stop other.service
is_whole 3-4
need psrset -e 1 cat /proc/self/cgroup
case $said in 0::/mpset1.slice/mpset1-*-1.scope) ;; *) fail "what is started in the set is in $said" ;; esac
need psrset -i -v
echo "$said"

need psrset -u $sleeper
in_cgroup $sleeper "$home"
within 20 is_gone $set/mpset1-$sleeper-1.scope
need psrset -d 1
rm -f /run/systemd/system.control/*/50-CPUWeight.conf
rmdir /run/systemd/system.control/* || true
want_nothing_left
kill $sleeper
