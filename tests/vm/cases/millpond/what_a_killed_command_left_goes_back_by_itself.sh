# limit_s: 120
# leaves: nothing
# While fences are watched, what a killed command left goes back without a further command.
. /words.sh
state before
millpond fence --watch 2>watch.said &
watcher=$!
within 30 test -e /run/millpond/fences.lock
status=0
MILLPOND_KILL_AT=step-2 psrset -c 2 3 >/dev/null 2>&1 || status=$?
want 137 $status "status of the killed command"
# Neither the set nor the warning that a change is not finished.
within 30 sh -c '! psrset -i 2>&1 | grep -q .'
kill -TERM $watcher
status=0
wait $watcher || status=$?
want 0 $status "status of the watcher: $(cat watch.said)"
state after
same before after "after a killed command"
