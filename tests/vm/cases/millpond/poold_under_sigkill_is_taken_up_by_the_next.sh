# limit_s: 400
# leaves: nothing
. /words.sh

state before
web_of 3
spin 4
need poolbind -p web $spinners
moments="intended step-2 applied"
[ ! -e /thorough ] || moments="begin intended step-1 step-2 step-3 step-4 step-5 step-6 step-8 step-10 applied committed"
deaths=0
for at in $moments; do
    rest=$(($(size_of webset) - 1))
    [ $rest = 0 ] || need poolcfg -d -c "transfer $rest from pset webset to pset_default"
    want 1 "$(size_of webset)" "the size to begin with"
    status=0
    MILLPOND_KILL_AT=$at timeout 40 poold -l INFO 2>poold.said || status=$?
    [ $status != 137 ] || deaths=$((deaths + 1))
    # A command that reads reports what it left, and the next writer repairs it.
    case $status-$at in
    137-begin | 137-committed) ;;
    137-*) says "begun and not finished: " doctor ;;
    esac
    poold -l INFO 2>poold.said &
    daemon=$!
    gets webset 3 "after a death at $at"
    kill $daemon
    wait $daemon || want 0 $? "status of poold when it is asked to stop"
    in_order
done
echo "$deaths deaths"
[ $deaths -ge 3 ] || fail "only $deaths deaths at $moments"
kill $spinners
need pooladm -d
in_order
state after
same before after "with all these and without pools again"
