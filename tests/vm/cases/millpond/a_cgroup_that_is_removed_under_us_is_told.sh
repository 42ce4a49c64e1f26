# leaves: nothing
# Another process repeatedly removes the empty cgroup of a set while commands create and remove sets.
. /words.sh
state before
(while :; do rmdir $root/mpset1 2>/dev/null || usleep 3000; done) &
remover=$!
n=0
refused=0
while [ $n -lt 12 ]; do
    status=0
    said=$(psrset -c 2 2>&1) || status=$?
    if [ $status != 0 ]; then
        want 1 $status "status of psrset -c ($said)"
        case $said in "psrset: cannot create processor set: "*) ;; *) fail "psrset says: $said" ;; esac
        refused=$((refused + 1))
        [ $refused -gt 3 ] || echo "$said"
    fi
    psrset -d 1 >/dev/null 2>&1 || true
    n=$((n + 1))
done
kill $remover
wait $remover || true
echo "$refused of $n were refused"
need doctor --repair
psrset -d 1 >/dev/null 2>&1 || true
need doctor --repair
in_order
state now
same before now "at the end"
