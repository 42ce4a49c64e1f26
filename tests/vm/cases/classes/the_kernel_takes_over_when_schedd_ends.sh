# limit_s: 300
# leaves: nothing
. /classes.sh
spin 1
for how in TERM KILL; do
    starts_schedd --whole
    want 1 "$(cat /sys/kernel/sched_ext/switch_all)" "the whole machine"
    # Only one can run at a time.
    status=0
    said=$(millpond schedd --state-dir other 2>&1) || status=$?
    want 1 $status "status of a second one"
    case $said in *"the scheduler millpond is loaded"*"millpond schedd runs already"*) ;; *) fail "a second one: $said" ;; esac
    kill -$how $schedd
    status=0
    wait $schedd 2>/dev/null || status=$?
    [ $how = KILL ] || want 0 $status "status after SIGTERM"
    within 30 is_disabled
done

# A stopped schedd keeps scheduling, because no decision depends on its process.
starts_schedd
want 0 "$(cat /sys/kernel/sched_ext/switch_all)" "threads in classes alone"
kill -STOP $schedd
set -- $spinners
need priocntl -s -c FX -m 3 -p 3 $1
case $(priocntl -d $1 | tail -n 1 | tr -s ' ') in " $1 3 3 "*) ;; *) fail "not in FX: $(priocntl -d $1)" ;; esac
want 7 "$(policy_of $1)" "its policy"
kill -CONT $schedd
stops_schedd
no_complaints
