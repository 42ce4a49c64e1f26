# limit_s: 7200
# leaves: nothing
. /classes.sh
starts_schedd --whole --audit
# Sets come and go, CPUs go off-line and come back, tables change, beside processes that change at random.
live-classes --i-own-this-machine churn 1200 >said 2>&1 &
churn=$!
dispadmin -c TS -g >standard.txt
sed 's/^       200 /       400 /' standard.txt >slow.txt
turn=0
while [ -d /proc/$churn ] && kill -0 $churn 2>/dev/null; do
    turn=$((turn + 1))
    need dispadmin -c TS -s slow.txt
    # Where processes are bound to one of its CPUs at the moment, the set is refused.
    id=$(psrset -c 1 2 2>refusal | sed -n 's/^created processor set \([0-9]*\)$/\1/p')
    [ -n "$id" ] || grep -q 'bound to it' refusal || fail "psrset: $(cat refusal)"
    echo 0 >/sys/devices/system/cpu/cpu3/online
    [ -z "$id" ] || psrset -e "$id" sleep 0.2
    echo 1 >/sys/devices/system/cpu/cpu3/online
    [ -z "$id" ] || psrset -d "$id" >/dev/null
    need dispadmin -c TS -s standard.txt
    [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || [ -d /proc/$schedd ] || fail "schedd: $(cat schedd.said)"
done
status=0
wait $churn || status=$?
echo "$turn rounds; $(cat said)"
want 0 $status "status of the changes: $(cat said schedd.said)"
stops_schedd
no_complaints
