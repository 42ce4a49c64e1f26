# limit_s: 200
# leaves: nothing
. /words.sh

state before
web_of 2
spin 3
need poolbind -p web $spinners
poold -l DEBUG --record 2>poold.said &
daemon=$!
gets webset 2
# The set has the CPUs before poold logs it.
within 60 grep -q 'Optimization INFO: moved ' poold.said
says "another one is running (process $daemon)" poold -l INFO
want 1 $status "status of a second poold"
# poold has no essential state: after a kill a new one continues.
kill -9 $daemon
wait $daemon || true
poold -l INFO 2>poold.again &
daemon=$!
within 30 grep -q 'configuration complete' poold.again
want 2 "$(size_of webset)" "the size after poold was killed and started again"
# A fork of a member stays in the pool. A process that was moved out of its leaf is in the set of its cgroup.
kill $spinners
kill $daemon
wait $daemon || want 0 $? "status of poold when it is asked to stop"
grep -q 'poold NOTICE: exiting' poold.again || fail "poold does not say that it ends: $(cat poold.again)"
need pooladm -d
in_order
state after
same before after "with poold and without it again"
