# limit_s: 90
# leaves: nothing
. /words.sh
state before
# One holds the lock for good: the other gives up after a while, and reading goes on.
flock $root sleep 1000 &
holder=$!
within 10 sh -c "! flock -n $root true"
need psrinfo
need psrset
refused 1 psrset -c 2 <<'END'
psrset: cannot change machine real: another change is under way
hint: wait for it, or look for a stopped millpond process
END
state now
same before now "after the refusal"
kill $holder $(pgrep -x sleep)
wait $holder || true
# Many at once: each makes its set or is refused, and nobody breaks another's.
n=2
while [ $n -lt "$cpus" ]; do
    psrset -c $n >out.$n 2>&1 &
    writers="${writers:-} $!"
    n=$((n + 1))
done
for writer in $writers; do wait "$writer" || fail "a writer was refused: $(cat out.*)"; done
want $((cpus - 2)) "$(psrset | wc -l)" "sets"
in_order
need psrset -d $(psrset | awk '{ sub(":", "", $4); print $4 }')
state again
same before again "at the end"
