# A new mask can be read back at once. The interrupt only moves when it occurs again, unless interrupts are remapped.
[ "$nics" -ge 1 ] || skip "this guest has no network card"
irq=$(irqs_of virtio1-config | head -n 1)
[ -n "$irq" ] || fail "the first card has no interrupt called config"
before=$(cat /proc/irq/$irq/effective_affinity_list)
to=$(((before + 1) % cpus))
write /proc/irq/$irq/smp_affinity_list $to
want_file /proc/irq/$irq/smp_affinity_list $to
if irqs_are_remapped; then
    want_file /proc/irq/$irq/effective_affinity_list $to
else
    want_file /proc/irq/$irq/effective_affinity_list "$before"
fi
