# limit_s: 600
# The memory nodes of a set are a property of its slice, which systemd keeps across reloads. The kernel has the same value.
. /systemd-words.sh
set=$root/mpset1.slice
[ -d /sys/devices/system/node/node1 ] || fail "this guest should have two nodes"
near=$(cat /sys/devices/system/node/node1/cpulist)
mems_of() { # pid
    awk '/^Mems_allowed_list/ { print $2 }' "/proc/$1/status"
}
is_near() { # when
    want 1 "$(systemctl show -P AllowedMemoryNodes mpset1.slice)" "the property $1"
    want_file $set/cpuset.mems 1
    want_file $set/cpuset.mems.effective 1
    want_file $set/cpuset.cpus.partition root
    want 1 "$(mems_of $sleeper)" "where the process has its memory $1"
}

need psrset -c $near
sleep 100000 &
sleeper=$!
need psrset -b 1 $sleeper
want 0-1 "$(mems_of $sleeper)" 'where the process has its memory'
need psrset --mems local 1
want 'processor set 1: memory was all, now local' "$said" 'what is said'
is_near 'once it is set'
need systemctl daemon-reload
is_near 'after a reload'
need systemctl set-property --runtime mpset1.slice CPUWeight=50
is_near 'after another property'
need systemctl daemon-reexec
is_near 'after another start of systemd'
service other
want 0-1 "$(mems_of $pid)" 'memory of another process'
need psrset -e 1 grep Mems_allowed_list /proc/self/status
want 1 "${said##*[!0-9-]}" 'memory of a process that is started in the set'
# A foreign write to the file is reverted permanently.
write $set/cpuset.mems 0
need psrset -r 7
is_near 'after a write by another program'
# With a CPU of the other node, that node's memory is local, too.
need psrset -a 1 3
want '0 1' "$(systemctl show -P AllowedMemoryNodes mpset1.slice | tr '-' ' ')" 'the property with a processor of each node'
want 0-1 "$(mems_of $sleeper)" 'where the process has its memory with a processor of each node'
need psrset -r 3
is_near 'with processors of one node again'
need psrset --mems all 1
want 0-1 "$(mems_of $sleeper)" 'where the process has its memory again'
need systemctl daemon-reload
want 0-1 "$(mems_of $sleeper)" 'where the process has its memory after a reload'
need psrset -u $sleeper
need psrset -d 1
want 0-1 "$(mems_of $sleeper)" 'where the process has its memory without a set'
need systemctl stop other.service
rm -f /run/systemd/system.control/*/50-CPUWeight.conf
rmdir /run/systemd/system.control/* || true
want_nothing_left
kill $sleeper
