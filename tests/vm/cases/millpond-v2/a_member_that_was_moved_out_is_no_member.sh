# leaves: nothing
. /words.sh
sleep 1000 &
pid=$!
state before $pid
need psrset -c 2-3
need psrset -b 1 $pid
want 1 "$(set_of $pid)" "set of the process"
write $root/cgroup.procs $pid
need psrset -q $pid
want "process id $pid: not bound" "$said"
in_order
need psrset -b 1 $pid
want 1 "$(set_of $pid)" "set of the process"
need psrset -d 1
state again $pid
same before again "after psrset -d"
kill $pid
