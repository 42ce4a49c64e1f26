# The kernel manages the affinity of the interrupts of a virtio disk's queues.
[ -b /dev/vda ] || skip "this guest has no disk"
irq=$(irqs_of req.0 | head -n 1)
[ -n "$irq" ] || fail "the disk has no interrupt called req.0"
need_fail sh -c "echo 1 >/proc/irq/$irq/smp_affinity"
# EPERM since 6.12, EIO before.
if kernel_at_least 6 12; then
    want "sh: write error: Operation not permitted" "$said"
else
    want "sh: write error: Input/output error" "$said"
fi
