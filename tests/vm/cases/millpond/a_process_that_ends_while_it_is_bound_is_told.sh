# leaves: nothing
# Many processes end while one command binds all of them: each is bound or reported, and nothing is left half-done.
. /words.sh
state before
need psrset -c 2-3
for round in 1 2 3; do
    pids=
    n=0
    while [ $n -lt 30 ]; do
        sleep 1000 &
        pids="$pids $!"
        n=$((n + 1))
    done
    # In reverse order: the two loops meet in the middle.
    (for pid in $pids; do echo $pid; done | tac | while read -r pid; do kill $pid; usleep 30000; done) &
    killer=$!
    status=0
    psrset -b 1 $pids >out 2>err || status=$?
    wait $killer
    bound=$(grep -c ', now 1$' out) || true
    refused=$(wc -l <err)
    strange=$(grep -v -e ': there is no such process$' -e ': it exited meanwhile$' err) || true
    want "" "$strange" "reasons"
    want 30 $((bound + refused)) "those bound ($bound) and those refused"
    want $([ "$refused" = 0 ] && echo 0 || echo 1) $status "status, with $refused refused"
    echo "round $round: $bound bound, $refused gone"
    for pid in $pids; do wait $pid || true; done
    in_order
done
need psrset -d 1
state again
same before again "at the end"
