# limit_s: 420
# leaves: nothing
. /killing.sh
[ -d /sys/devices/system/node/node1 ] || fail "this guest should have two nodes"
near=$(cat /sys/devices/system/node/node1/cpulist)
mkfifo pipe
exec 9<>pipe
# A process with 16 MB that waits forever, because its output is not read.
holder() {
    dd if=/dev/zero of=pipe bs=16M count=1 2>/dev/null 9>&- &
    holder=$!
    _tries=0
    until [ "$(pages 2 $holder)" -gt 16000 ]; do
        _tries=$((_tries + 1))
        [ $_tries -lt 60 ] || fail "it has no 16 MB: $(lgrpinfo --pages $holder)"
        sleep 1
    done
}
# A column of `lgrpinfo --pages`: 2 memory, 3 local, 4 remote, in KiB.
pages() {
    lgrpinfo --pages "$2" | awk -v column="$1" 'NR == 2 { kib = $column } END { print kib + 0 }'
}
# All CPUs of the second node. The memory of a process that starts now is in the first node.
need psrset -c $near
holder
first=$holder
need psrset -b 1 $first
before=$(pages 4 $first)
[ "$before" -gt 16000 ] || fail "its memory should be remote: $(lgrpinfo --pages $first; cat /proc/$first/numa_maps)"
# A kernel before 7.0 does not clear the list of a cgroup with processes. After the first time a list of all nodes remains, which
# is equivalent.
need psrset --mems local 1
need psrset --mems all 1
[ "$(pages 4 $first)" -lt 4000 ] || fail "its memory should be near: $(lgrpinfo --pages $first)"
watched=$first
killed_anywhere 'psrset --mems all 1' psrset --mems local 1
need psrset --mems local 1
want "processor set 1: memory was all, now local" "$said" "what is said"
want 1 "$(cat $root/mpset1/cpuset.mems)" "the nodes of the set"
after=$(pages 4 $first)
echo "remote memory of a process of 16 MB: $before KiB before, $after KiB after"
[ "$after" -lt 4000 ] || fail "its memory should be near: $(lgrpinfo --pages $first; cat /proc/$first/numa_maps)"
says "memory local (lgroup 2)" psrset -i -v
in_order
# A process that joins later brings its memory.
holder
need psrset -b 1 $holder
[ "$(pages 4 $holder)" -lt 4000 ] || fail "its memory should have come along: $(lgrpinfo --pages $holder)"
need psrset -d 1
kill $first $holder
wait
# Setting the home of a process moves its memory.
holder
need plgrp -H 1 $holder
need plgrp -H 2 $holder
says "1 => 2" echo "$said"
[ "$(lgrpinfo --pages --json $holder | sed 's/.*"2":\([0-9]*\).*/\1/')" -gt 15000 ] || fail "$(lgrpinfo --pages $holder)"
want "$near" "$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/$holder/status)" "where it may run"
need plgrp -A all/none $holder
want "0-$((cpus - 1))" "$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/$holder/status)" "where it may run again"
kill $holder
wait
rm pipe
exec 9>&-
in_order
