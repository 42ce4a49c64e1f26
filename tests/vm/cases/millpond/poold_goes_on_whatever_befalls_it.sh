# limit_s: 400
# leaves: nothing
. /words.sh

# Its own disk, which will be full.
mkdir small
mount -t tmpfs -o size=256k,mode=755 tmpfs small
export MILLPOND_STATE=$PWD/small
state before
web_of 2
spin 3
need poolbind -p web $spinners
poold -l INFO 2>poold.said &
daemon=$!
gets webset 2 "at first"

# Somebody changes the configuration under it.
need poolcfg -d -c 'modify pset webset ( uint pset.max = 3 )'
gets webset 3 "with another maximum"
hears 'changed externally'
need poolcfg -d -c 'transfer 2 from pset webset to pset_default'
gets webset 3 "when somebody took processors away"

# Processors go and come back, by our command and by others: the highest of the set, for processor 0 may have to stay.
off=$(psrset | tr ' ' '\n' | grep -E '^[0-9]+$' | sort -n | tail -n 1)
need psradm -f $off
gets webset 3 "with one of its processors off-line"
need psradm -n $off
# What of its interrupts had no other processor is anywhere afterwards: that is between the other and the kernel, and put back here.
grep -H '' /proc/irq/[0-9]*/smp_affinity >masks
write /sys/devices/system/cpu/cpu$off/online 0
sleep 2
write /sys/devices/system/cpu/cpu$off/online 1
while IFS=: read -r file mask; do
    [ "$(cat "$file")" = "$mask" ] || write "$file" "$mask"
done <masks
gets webset 3 "when another's processor is back"
need psradm -n $off

# The disk is full: nothing moves, and it says so; then there is room again. What was being replaced while it was filled leaves room behind it, so it
# is filled again.
fill() {
    while dd if=/dev/zero bs=4096 count=1 >>small/full 2>/dev/null; do :; done
}
fill
kill $spinners
# So many that the others are too few for them.
spin $((cpus < 8 ? 6 : cpus - 2))
sleep 3
kill -0 $daemon || fail "poold does not survive a full disk: $(cat poold.said)"
fill
says "No space left on device" poolcfg -d -c 'transfer 1 from pset webset to pset_default'
want 1 $status "status of a change on a full disk"
rm small/full
gets webset 1 "when the only processes of the pool have ended and others compute"

# Pools end under it, and are there again.
kill $spinners
need pooladm -d
hears 'pools were disabled; waiting for them'
need pooladm -e
sleep 3
kill -0 $daemon || fail "poold does not survive the end of pools: $(cat poold.said)"
kill $daemon
wait $daemon || want 0 $? "status of poold when it is asked to stop"
need pooladm -d
in_order
state after
same before after "after all that and without pools again"
unset MILLPOND_STATE
umount small
