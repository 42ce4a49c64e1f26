# leaves: nothing
. /words.sh
# Hardware counters: the emulator has none, and nobody claims zeros.
refused 1 cpustat -c pic0=Cycle_cnt,pic1=Instr_cnt 1 1 <<'END'
cpustat: cannot count events: this machine has no hardware counters
hint: a virtual machine has them only where its hypervisor hands them on; what the kernel itself counts is in the listing of cpustat -h
END
refused 1 cputrack -c cycles true <<'END'
cputrack: cannot count events: this machine has no hardware counters
hint: a virtual machine has them only where its hypervisor hands them on; what the kernel itself counts is in the listing of cpustat -h
END
# Each clock of a processor goes as fast as the time, whichever place it has in its set.
need cpustat -nc cpu-clock,page-faults,context-switches 1 1
echo "$said" | awk '$3 == "tick" && ($4 < 900000000 || $4 > 30000000000) { bad = 1 } END { exit bad }' || fail "a clock is wrong: $said"
want "$cpus" "$(echo "$said" | grep -c tick)" "processors"
# A program with a child, which becomes another program.
need cputrack -fe -T 0 -c page-faults sh -c 'busybox true & wait; exec busybox true'
for event in fork exec exit; do
    echo "$said" | grep -q " $event " || fail "no $event: $said"
done
want 2 "$(echo "$said" | grep -c ' exit ')" "ends of processes"
# A process that is followed for a while goes on as if nothing had been.
sleep 1000 &
pid=$!
need cputrack -T 0.2 -N 2 -c context-switches -p $pid
want 2 "$(echo "$said" | grep -c tick)" "ticks"
grep -q '^TracerPid:	0$' /proc/$pid/status || fail "it is still followed"
kill -0 $pid || fail "it is gone"
kill $pid
# A processor that goes off-line meanwhile is told, and counted no more.
cpustat -nc context-switches 1 8 >/tmp/lines 2>/tmp/told &
counter=$!
until grep -q tick /tmp/lines; do usleep 50000; done
need psradm -f $((cpus - 1))
status=0
wait $counter || status=$?
want 1 "$status" "status of cpustat"
want "cpustat: processor $((cpus - 1)): it went off-line; it is counted no more" "$(cat /tmp/told)" "what it told"
want $((cpus - 1)) "$(grep tick /tmp/lines | tail -n $((cpus - 1)) | awk '{ print $2 }' | sort -u | wc -l)" "processors that are left"
need psradm -n $((cpus - 1))
