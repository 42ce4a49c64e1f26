# limit_s: 120
# leaves: nothing
# Eight writers at once: each gets its turns, and none is refused. Nothing else computes: if all CPUs of an emulated machine are
# busy, a single change takes as long as ten here, because the kernel waits for each CPU several times.
. /words.sh
state before
n=0
writers=
while [ $n -lt 8 ]; do
    (
        psrset -c --keep-others >out.$n 2>&1 || exit 1
        set=$(sed -n 's/^created processor set //p' out.$n)
        psrset -d "$set" >out.$n 2>&1 || exit 1
    ) &
    writers="$writers $!"
    n=$((n + 1))
done
for writer in $writers; do wait "$writer" || fail "a writer was refused: $(cat out.*)"; done
in_order
state now
same before now "at the end"
