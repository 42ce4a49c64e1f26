# limit_s: 900
# leaves: nothing
. /classes.sh
starts_schedd --whole --audit
experiment churn 20
# With one CPU there is no concurrency: each thread that started to run was the one with the best level.
grep -q ' passed_over 0, overdue 0,' said || fail "a better thread waited: $(cat said)"
# A thread that waits for 5 seconds runs at the next second before all others. There are forty of them, and each runs for a clock
# tick.
wait=$(sed -n 's/.*longest wait \([0-9]*\) ms.*/\1/p' said)
[ "$wait" -le 7000 ] || fail "a thread waited for $wait ms"
stops_schedd
