# leaves: nothing
. /words.sh
# Hardware counters: the emulator has none, and zeros must not be reported instead.
refused 1 cpustat -c pic0=Cycle_cnt,pic1=Instr_cnt 1 1 <<'END'
cpustat: cannot count events: this machine has no hardware counters
hint: a virtual machine has them only where its hypervisor hands them on; what the kernel itself counts is in the listing of cpustat -h
END
refused 1 cputrack -c cycles true <<'END'
cputrack: cannot count events: this machine has no hardware counters
hint: a virtual machine has them only where its hypervisor hands them on; what the kernel itself counts is in the listing of cpustat -h
END
# Each cycle counter of a CPU advances with time, in every position of its set. No count is larger than the time between before
# and after. A count covers the interval that cpustat reports, plus or minus the time for which cpustat was prevented from
# running: a busy host can stop CPUs of the guest for any time. The total duration minus the interval shows this. If it is half of
# the interval nothing can be checked, and the case continues.
before=$(awk '{ print $1 }' /proc/uptime)
need cpustat --json -nc cpu-clock,page-faults,context-switches 2 1
after=$(awk '{ print $1 + 0.01 }' /proc/uptime)
verdict=$(echo "$said" | grep '"event":"tick"' | tr -d '{}' | tr ',' '\n' | awk -F: -v all="$(awk "BEGIN { print $after - $before }")" '
    $1 == "\"counts\":[\"count\"" || ($1 == "\"counts\"" && $2 == "[\"count\"") { clock[++n] = $3 / 1e9 }
    $1 == "\"elapsed_s\"" { look[n] = $2; if (!least || $2 < least) least = $2 }
    END {
        if (n == 0) { print "wrong: no clock"; exit }
        for (i = 1; i <= n; i++) if (clock[i] > all) { print "wrong: a clock counts " clock[i] " s of " all " s"; exit }
        slack = all - least
        if (slack > least / 2) { print "unknown: cpustat looked for " least " s of " all " s"; exit }
        for (i = 1; i <= n; i++) if (clock[i] < look[i] / 2 - slack) { print "wrong: a clock counts " clock[i] " s of " look[i] " s"; exit }
        print "right"
    }')
case $verdict in
right) ;;
unknown*) echo "clocks cannot be judged on so busy a host: $verdict" ;;
*) fail "a clock is $verdict: $said" ;;
esac
want "$cpus" "$(echo "$said" | grep -c '"event":"tick"')" "processors"
# A program with a child that calls exec.
need cputrack -fe -T 0 -c page-faults sh -c 'busybox true & wait; exec busybox true'
for event in fork exec exit; do
    echo "$said" | grep -q " $event " || fail "no $event: $said"
done
want 2 "$(echo "$said" | grep -c ' exit ')" "ends of processes"
# A process that was traced for a while continues unaffected.
sleep 1000 &
pid=$!
need cputrack -T 0.2 -N 2 -c context-switches -p $pid
want 2 "$(echo "$said" | grep -c tick)" "ticks"
grep -q '^TracerPid:	0$' /proc/$pid/status || fail "it is still followed"
kill -0 $pid || fail "it is gone"
kill $pid
# A CPU that goes off-line meanwhile is reported and no longer counted.
cpustat -nc context-switches 1 8 >/tmp/lines 2>/tmp/told &
counter=$!
until grep -q tick /tmp/lines; do usleep 50000; done
need psradm -f $((cpus - 1))
status=0
wait $counter || status=$?
want 1 "$status" "status of cpustat"
want "cpustat: CPU $((cpus - 1)): it went off-line; it is counted no more" "$(cat /tmp/told)" "its messages"
want $((cpus - 1)) "$(grep tick /tmp/lines | tail -n $((cpus - 1)) | awk '{ print $2 }' | sort -u | wc -l)" "processors that are left"
need psradm -n $((cpus - 1))
