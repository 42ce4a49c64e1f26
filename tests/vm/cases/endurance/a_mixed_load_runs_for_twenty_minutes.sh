# limit_s: 7200
# leaves: nothing
. /classes.sh
# Duration of a fixed piece of work at the highest priority, in tenths of the shortest duration: the speed that the host gives the
# guest.
cat >pace.sh <<'END'
least=
while :; do
    read -r up _ </proc/uptime
    began=${up%.*}${up#*.}
    turn=0
    while [ $turn -lt 5000 ]; do turn=$((turn + 1)); done
    read -r up _ </proc/uptime
    took=$((${up%.*}${up#*.} - began + 1))
    [ -n "$least" ] && [ $least -le $took ] || least=$took
    echo "$((took * 10 / least)) at $up" >>paces
    sleep 2
done
END
chrt -f 50 sh pace.sh &
pace=$!
# The kernel ends a scheduler when a thread waits for 30 s. In a guest at a third of its speed this is not the scheduler's fault.
may_be_the_host() {
    dmesg | grep -q 'runnable task stall' || return 0
    slowest=$(sort -n paces | tail -n 1)
    kill $pace $churn 2>/dev/null || true
    [ "${slowest%% *}" -lt 30 ] ||
        skip "the host slowed the guest down to a third and less (${slowest%% *} tenths of the time ${slowest#* } s), and the kernel ended the scheduler" "run it on a quiet machine"
}
# Loads the dispatch table of TS from a file.
loads() {
    dispadmin -c TS -s "$1" 2>refusal || { may_be_the_host; fail "dispadmin: $(cat refusal)"; }
}
starts_schedd --whole --audit
# Create and remove sets, switch CPUs off and on, and change tables, together with processes that change at random.
live-classes --i-own-this-machine churn 1200 >said 2>&1 &
churn=$!
dispadmin -c TS -g >standard.txt
sed 's/^       200 /       400 /' standard.txt >slow.txt
turn=0
while [ -d /proc/$churn ] && kill -0 $churn 2>/dev/null; do
    turn=$((turn + 1))
    loads slow.txt
    # The set is refused while processes are bound to one of its CPUs.
    id=$(psrset -c 1 2 2>refusal | sed -n 's/^created processor set \([0-9]*\)$/\1/p')
    [ -n "$id" ] || grep -q 'bound to it' refusal || fail "psrset: $(cat refusal)"
    echo 0 >/sys/devices/system/cpu/cpu3/online
    [ -z "$id" ] || psrset -e "$id" sleep 0.2
    echo 1 >/sys/devices/system/cpu/cpu3/online
    [ -z "$id" ] || psrset -d "$id" >/dev/null
    loads standard.txt
    may_be_the_host
    [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || [ -d /proc/$schedd ] || fail "schedd: $(cat schedd.said)"
done
status=0
wait $churn || status=$?
kill $pace
echo "$turn rounds; $(cat said)"
want 0 $status "status of the changes: $(cat said schedd.said)"
stops_schedd
no_complaints
