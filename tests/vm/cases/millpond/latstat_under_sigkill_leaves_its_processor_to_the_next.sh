# limit_s: 240
# leaves: nothing
. /words.sh
# A card that goes down while a list waits for the next interrupt: without remapping its interrupts show that list and silently
# use another one.
if [ -d /sys/class/net/eth2 ]; then
    ip link set eth2 up
    irqs_of_cards eth2 >irqs
    while read -r irq; do echo 2 >/proc/irq/$irq/smp_affinity_list; done <irqs
    ip link set eth2 down
fi
state before

# On SIGTERM it prints its results and restores everything.
latstat_begins --save run
sleep 1
kill -TERM $latstat
status=0
wait $latstat || status=$?
want 0 $status "status of latstat that was asked to stop: $(cat latstat.err)"
grep -q '^total ' latstat.out || fail "no row of the whole: $(cat latstat.out)"
state now
same before now "after latstat"
need latstat --merge run
# The stages exist where the kernel accepts the BPF program, and then in every row with the same number of samples.
echo "$said" | head -n 6

# After a kill it leaves a reserved CPU, which the next command releases.
latstat_begins
kill -KILL $latstat
wait $latstat 2>/dev/null || true
_tries=0
while [ -d "/proc/$probe" ]; do
    _tries=$((_tries + 1))
    [ $_tries -lt 60 ] || fail "the thread that measures outlives its parent"
    sleep 1
done
says "processor set 1" psrset -i
says "process $latstat was killed: CPU 2, which it had for itself, was put back" psradm -n 0
want 0 $status "status of the next command: $said"
state now
same before now "after the next command"
silent "was killed" psradm -n 0

# A number of samples, and a limit that is always exceeded.
status=0
said=$(latstat --cpu 2 --samples 50 --max 1ns 2>&1) || status=$?
want 1 $status "status over the limit: $said"
case $said in *"50 of 50 samples took longer than 1 ns, the longest "*) ;; *) fail "over the limit it says: $said" ;; esac

# When its CPU goes off-line, the measurement ends and its results are printed.
latstat_begins
if ! echo 0 2>/dev/null >/sys/devices/system/cpu/cpu2/online; then
    # Some kernels (6.12) keep the last CPU of a partition on-line. The attempt has moved the thread for a moment.
    kill -TERM $latstat 2>/dev/null || true
    status=0
    wait $latstat || status=$?
    [ "$status" = 0 ] || grep -q 'it was moved to another CPU' latstat.err || fail "it says: $(cat latstat.err)"
    state now
    same before now "after a processor that stayed"
    ok
fi
status=0
wait $latstat || status=$?
write /sys/devices/system/cpu/cpu2/online 1
want 1 $status "status of latstat whose processor went: $(cat latstat.err)"
grep -q 'latstat: cannot measure latency: its CPU went off-line\|it was moved to another CPU' latstat.err || fail "it says: $(cat latstat.err)"
silent "processor set" psrset -i
says on-line psrinfo 2
# A command that runs after the CPU is back determines where interrupts may go again.
need millpond doctor --repair
state now
same before now "after a processor that went off-line and came back, latstat having said: $(cat latstat.err); and doctor: $said"
