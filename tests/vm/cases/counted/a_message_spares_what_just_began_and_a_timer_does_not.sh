# limit_s: 1800
# leaves: nothing
. /classes.sh
# A program that sends a message to a thread of a better level goes on if it began within 0.3 ms. Timers are not delayed by that. With --parity 0 each such
# message is a switch. The clock of this guest counts instructions.
sum() {
    dispadmin --stats | sed -n "s/^CPUs:.* $1 \([0-9]*\).*/\1/p"
}
messages() {
    need millpond load hackbench --groups 1 --loops 400
    echo "figure: $1: $(echo "$said" | tail -n 1)"
}
# How late a thread wakes up each 5 ms, in us: 99 of 100 times at most $late.
timer() {
    [ -x "$(command -v cyclictest)" ] || return 0
    cyclictest -i 5000 -l 300 --policy=other -q -h 20000 >timer.out 2>&1
    late=$(awk '/^[0-9]/ { sub(/^0+/, "", $1); sub(/^0+/, "", $2); n[$1 + 0] = $2; all += $2 } END { for (us = 0; us < 20000; us++) { seen += n[us]; if (seen >= all * .99) break }; print us }' timer.out)
    echo "figure: $1: p99 of a timer of 5 ms is $late us"
}
messages EEVDF
spin 4
sleep 3
timer "EEVDF, beside four busy threads"
eevdf=${late-}
kill $spinners

starts_schedd --whole
messages schedd
spared=$(sum spared) preempting=$(sum preempting)
[ "$spared" -gt 100 ] || fail "$spared wake-ups were delayed"
spin 4
sleep 3
timer "schedd, beside four busy threads"
if [ -n "$eevdf" ]; then [ "$late" -lt "$eevdf" ] || fail "a timer is $late us late, $eevdf under EEVDF"; fi
kill $spinners
stops_schedd

starts_schedd --whole --parity 0
messages "schedd --parity 0"
want 0 "$(sum spared)" "wake-ups that were delayed by Solaris' rule"
exact=$(sum preempting)
[ "$exact" -gt $((4 * preempting)) ] || fail "$preempting wake-ups preempted, with --parity 0 $exact"
stops_schedd
