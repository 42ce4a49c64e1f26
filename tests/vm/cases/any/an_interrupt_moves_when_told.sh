# Frames between two cards in separate namespaces raise the receiving card's interrupt on the CPU of its mask.
[ "$nics" -ge 2 ] || skip "this guest has no two network cards"
nics_apart
irq=$(irqs_of virtio2-input | head -n 1)
[ -n "$irq" ] || skip "the second card has no interrupt called input"
for to in 1 $((cpus - 1)); do
    write /proc/irq/$irq/smp_affinity_list $to
    want_file /proc/irq/$irq/smp_affinity_list $to
    need in_a ping -c 2 -q 10.77.0.2
    there=$(irq_count $irq $to)
    elsewhere=$(($(irq_count $irq 0) + $(irq_count $irq 2)))
    need in_a ping -c 20 -i 0.01 -q 10.77.0.2
    came=$(($(irq_count $irq $to) - there))
    echo "irq $irq on cpu $to: $came for 20 pings"
    [ "$came" -ge 15 ] || fail "cpu $to took $came of at least 15 interrupts"
    want $elsewhere $(($(irq_count $irq 0) + $(irq_count $irq 2))) "interrupts on cpus 0 and 2"
    want_file /proc/irq/$irq/effective_affinity_list $to
done
