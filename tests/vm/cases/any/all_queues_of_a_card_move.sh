# vmxnet3 has an interrupt per queue. Many flows raise several of them, and all move to the CPUs of their masks.
[ "$nics" -ge 3 ] || skip "this guest has no card with many queues"
nics_apart
queues=$(irqs_of eth2-rxtx)
[ "$(echo "$queues" | wc -l)" -ge 4 ] || fail "the card has the interrupts $(echo $queues)"

# No program listens on these ports: each attempt is a separate flow with an answer.
flows() {
    for port in $(seq 5001 5024); do in_c nc -w 5 10.77.0.1 "$port" 2>/dev/null || true; done
}
moved_to() { # cpu
    flows
    for irq in $queues; do [ "$(cat /proc/irq/$irq/effective_affinity_list)" = "$1" ] || return 1; done
}
on_cpu() { # cpu: sum over all queues
    sum=0
    for irq in $queues; do sum=$((sum + $(irq_count "$irq" "$1"))); done
    echo $sum
}
# From here on the neighbours' addresses are known.
flows
busy=0
for irq in $queues; do
    [ "$(awk -v irq="$irq:" '$1 == irq { n = 0; for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i; print n }' /proc/interrupts)" = 0 ] || busy=$((busy + 1))
done
echo "$busy queues were busy"
[ $busy -ge 2 ] || fail "only $busy queues were busy"
for to in 1 $((cpus - 1)); do
    for irq in $queues; do write /proc/irq/$irq/smp_affinity_list $to; done
    # Without remapping each moves at its next interrupt, so some flows are needed first.
    within 50 moved_to $to
    there=$(on_cpu $to)
    elsewhere=$(($(on_cpu 0) + $(on_cpu 2)))
    flows
    came=$(($(on_cpu $to) - there))
    echo "cpu $to took $came interrupts"
    [ $came -ge 24 ] || fail "cpu $to took $came of at least 24 interrupts"
    want $elsewhere $(($(on_cpu 0) + $(on_cpu 2))) "interrupts on cpus 0 and 2"
done
