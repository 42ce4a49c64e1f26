# limit_s: 90
# leaves: nothing
. /words.sh
state before
# A process that locks the top of the tree, which every user can open, does not block writers.
flock -F $root sleep 1000 &
other=$!
within 10 sh -c "! flock -n $root true"
need psrset -c 2
need psrset -d 1
kill $other
wait $other || true
# One process holds the writer lock forever. The other gives up after a while, and reading still works.
lock=/run/millpond/writer.lock
flock -F $lock sleep 1000 &
holder=$!
within 10 sh -c "! flock -n $lock true"
need psrinfo
need psrset
refused 1 psrset -c 2 <<END
psrset: cannot change machine real: another change is under way (process $holder)
hint: wait for it; if process $holder hangs, end it: what it began is put back
END
state now
same before now "after the refusal"
kill $holder
wait $holder || true
# Several at once: each creates its set, or reports that others are at work and retries. None damages the set of another.
for n in 2 3; do
    (
        until psrset -c $n >out.$n 2>&1; do
            [ "$(head -n 1 out.$n)" = "psrset: cannot change machine real: another change is under way" ] || exit 1
        done
    ) &
    writers="${writers:-} $!"
done
for writer in $writers; do wait "$writer" || fail "a writer was refused: $(cat out.*)"; done
want 2 "$(psrset | wc -l)" "sets"
in_order
need psrset -d $(psrset | awk '{ sub(":", "", $4); print $4 }')
state again
same before again "at the end"
