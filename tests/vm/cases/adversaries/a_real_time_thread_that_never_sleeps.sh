# limit_s: 300
# leaves: nothing
. /classes.sh
starts_schedd --whole --once --timeout 6s --rescue 2s
spin 1
set -- $spinners
beside=$1
pbind -b 1 $beside >/dev/null
chrt -f 10 sh -c 'while :; do :; done' &
hog=$!
pbind -b 1 $hog >/dev/null
ran() {
    cut -d ' ' -f 1 /proc/$beside/schedstat
}
is_ended() {
    ! [ -d /proc/$schedd ]
}
before=$(ran)
if kernel_at_least 7 0; then
    # The kernel reserves a part of each CPU for threads of the scheduler.
    sleep 20
    want enabled "$(cat /sys/kernel/sched_ext/state)" "beside a thread in RT: $(cat schedd.said)"
    [ $(($(ran) - before)) -gt 100000000 ] || fail "the other thread ran for $(($(ran) - before)) ns in 20 s"
    kill -KILL $hog
    stops_schedd
    ok
fi
# The kernel ends the scheduler, which reports this and the blocked thread.
within 60 is_ended
status=0
wait $schedd || status=$?
want 1 $status "status: $(cat schedd.said)"
is_disabled || fail "a scheduler is still loaded"
kill -KILL $hog
grep -q 'the kernel ended the scheduler: runnable task stall: .*failed to run for' schedd.said || fail "it says: $(cat schedd.said)"
grep -q 'called from 0x' schedd.said || fail "it names no place: $(cat schedd.said)"
