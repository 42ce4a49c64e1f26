# limit_s: 60
# leaves: nothing
# A process with much memory takes time to exit. Meanwhile it cannot be moved, and the kernel keeps its cgroup. The removal of the
# set waits for it.
. /words.sh
state before
need psrset -c 2-3
# Read a block of 200 MB repeatedly.
dd if=/dev/zero of=/dev/null bs=200M count=1000000 2>/dev/null &
large=$!
need psrset -b 1 $large
_is_large() {
    [ "$(awk '/^VmRSS/ { print $2 }' /proc/$large/status)" -gt 200000 ]
}
within 30 _is_large
kill -KILL $large
need psrset -d 1
wait $large || true
state again
same before again "at the end"
