# limit_s: 120
# leaves: nothing
. /words.sh
[ "$nics" -ge 2 ] || skip "this guest has no two network cards"
write /sys/class/net/lo/queues/rx-0/rps_cpus f
nics_apart
irqs="$(irqs_of virtio1-input) $(irqs_of virtio2-input)"
first=${irqs%% *}
last=${irqs##* }
[ -n "$first" ] && [ -n "$last" ] || skip "the cards have no interrupts called input"
write /proc/irq/$first/smp_affinity_list 2
write /proc/irq/$last/smp_affinity_list 3
need in_a ping -c 3 -q 10.77.0.2
state before
need psrset -c 2-3
need psrset -f 1
echo "psrset -f: $said"
notes=$said
# Interrupts that go to a member, by their mask and in fact, must have been named.
for dir in /proc/irq/[0-9]*; do
    irq=${dir##*/}
    mask=$(cat "$dir/smp_affinity")
    in_fact=$(cat "$dir/effective_affinity")
    if [ $((0x${mask##*,} & 0x${in_fact##*,} & 12)) != 0 ] && grep -q "^ *$irq:" /proc/interrupts; then
        case $notes in *"interrupt $irq ("*) ;; *) fail "interrupt $irq stays at $mask without a note: $notes" ;; esac
    fi
done
for file in /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask /sys/class/net/lo/queues/rx-0/rps_cpus; do
    mask=$(cat $file)
    want 0 $((0x${mask##*,} & 12)) "the members in $file, which reads $mask"
done
counts() {
    for irq in $first $last; do for cpu in 2 3; do irq_count "$irq" $cpu; done; done
}
# Interrupts in flight still went to the old CPU.
need in_a ping -c 3 -q 10.77.0.2
there=$(counts)
total=$(awk -v a="$first:" -v b="$last:" '$1 == a || $1 == b { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i } END { print n }' /proc/interrupts)
need in_a ping -c 30 -i 0.01 -q 10.77.0.2
want "$there" "$(counts)" "interrupts of the cards on members"
more=$(awk -v a="$first:" -v b="$last:" '$1 == a || $1 == b { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i } END { print n }' /proc/interrupts)
echo "$((more - total)) interrupts, none on a member"
[ $((more - total)) -ge 30 ] || fail "only $((more - total)) interrupts came at all"
# Interrupts that stay were reported, and are not reported again when one more CPU is shielded, which may have further ones.
# doctor always reports them.
need psradm -i 1
for irq in $(echo "$notes" | sed -n 's/.*interrupt \([0-9]*\) (.*/\1/p'); do
    case $said in *"interrupt $irq ("*) fail "interrupt $irq is reported again: $said" ;; esac
done
[ -z "$(echo "$notes" | grep "interrupt .* cannot be moved\|interrupt .* stays on")" ] || says "interrupt " doctor
need psradm -n 1
need psrset -n 1
need psrset -d 1
state again
same before again "after psrset -n and -d"
write /proc/irq/$first/smp_affinity_list 0-$((cpus - 1))
write /proc/irq/$last/smp_affinity_list 0-$((cpus - 1))
write /sys/class/net/lo/queues/rx-0/rps_cpus 0
