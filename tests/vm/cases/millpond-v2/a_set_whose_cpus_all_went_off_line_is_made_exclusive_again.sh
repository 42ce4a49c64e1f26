# limit_s: 180
# leaves: nothing
# A kernel can let others into a partition whose CPUs all went off-line and came back (docs/explanation/kernel-defects.md): commands say so, and repair it.
. /words.sh
online() { echo "$2" >"/sys/devices/system/cpu/cpu$1/online"; }
# A program outside of the set is let onto its CPU.
intrudes() { taskset -c 3 true 2>/dev/null; }
hotplug() {
    online 3 0
    # Linux 6.12 keeps the last CPU of a partition on-line.
    if online 2 0 2>/dev/null; then online 2 1; fi
    online 3 1
}
state before
need psrset -c 2 3
sleep 100000 &
member=$!
need psrset -b 1 $member
in_order
! intrudes || fail "the set is not exclusive"
hotplug
if intrudes; then
    echo "figure: the kernel lets others onto CPU 3"
    breach="the kernel lets others run on CPU 3 as well (cpuset.cpus.effective of the root group)"
    says "$breach" psrset -i -v
    says "breach: $breach" doctor
    want 1 $status "status of doctor"
    says "brought to what the sets want" doctor --repair
    want 0 $status "status of the repair: $said"
fi
! intrudes || fail "the set is still not exclusive"
silent "as well" psrset -i -v
# Before 7.0 threads of a node may run on all of it again when a CPU of it comes on-line.
need doctor --repair
in_order
# So does whatever keeps the machine as its sets want it.
millpond fence --watch 2>watch.said &
watcher=$!
within 30 test -e /run/millpond/fences.lock
hotplug
within 30 sh -c '! taskset -c 3 true 2>/dev/null'
kill -TERM $watcher
wait $watcher || fail "the watcher: $(cat watch.said)"
need psrset -d 1
kill $member
wait $member 2>/dev/null || true
state after
same before after "at the end"
