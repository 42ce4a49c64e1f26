# limit_s: 400
# leaves: nothing
. /words.sh

# A small disk, which will be full.
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

# Another program changes the configuration meanwhile.
need poolcfg -d -c 'modify pset webset ( uint pset.max = 3 )'
gets webset 3 "with another maximum"
hears 'changed externally'
need poolcfg -d -c 'transfer 2 from pset webset to pset_default'
gets webset 3 "after another program took processors away"

# CPUs go off-line and come back, by our command and by others: the highest of the set, because CPU 0 may be fixed.
off=$(psrset | tr ' ' '\n' | grep -E '^[0-9]+$' | sort -n | tail -n 1)
need psradm -f $off
gets webset 3 "with one of its processors off-line"
need psradm -n $off
# Interrupts without another CPU have arbitrary masks afterwards. This is not Millpond's doing, and restored here.
grep -H '' /proc/irq/[0-9]*/smp_affinity >masks
write /sys/devices/system/cpu/cpu$off/online 0
sleep 2
write /sys/devices/system/cpu/cpu$off/online 1
while IFS=: read -r file mask; do
    [ "$(cat "$file")" = "$mask" ] || write "$file" "$mask"
done <masks
gets webset 3 "when another's processor is back"
need psradm -n $off

# With a full disk nothing moves, and poold logs it; then there is room again. A file that was being replaced while the disk was
# filled frees space afterwards, so fill it again.
fill() {
    while dd if=/dev/zero bs=4096 count=1 >>small/full 2>/dev/null; do :; done
}
fill
kill $spinners
# Enough load that the other CPUs are too few.
spin $((cpus < 8 ? 6 : cpus - 2))
sleep 3
kill -0 $daemon || fail "poold does not survive a full disk: $(cat poold.said)"
fill
says "No space left on device" poolcfg -d -c 'transfer 1 from pset webset to pset_default'
want 1 $status "status of a change on a full disk"
rm small/full
gets webset 1 "when the only processes of the pool have ended and others compute"

# Pools are disabled and enabled meanwhile.
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
