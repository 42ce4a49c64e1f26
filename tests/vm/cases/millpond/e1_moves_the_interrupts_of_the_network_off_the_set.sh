# limit_s: 300
# leaves: nothing
# The published experiment, a few seconds per phase. Initially all interrupts of both cards go to the CPUs that will be in the
# set, so that each of them must move. Only counts are checked, because idle time and throughput are meaningless under emulation.
. /words.sh
[ "$nics" -ge 3 ] || skip "this guest has no card with many queues and another one on its wire"
near=eth2
far=eth0
ip link set $near up
ip link set $near down
set=$(seq 0 $((cpus / 2 - 1)))
others=$(seq $((cpus / 2)) $((cpus - 1)))
irqs=$(irqs_of_cards $near $far)
[ "$(echo $irqs | wc -w)" -ge 4 ] || fail "the cards have the interrupts $(echo $irqs)"
masks=
for irq in $irqs; do
    [ -d /proc/irq/$irq ] || continue
    masks="$masks $irq=$(cat /proc/irq/$irq/smp_affinity)"
    write /proc/irq/$irq/smp_affinity_list $((irq % (cpus / 2)))
done
state before
on_set=$(counts_of $irqs -- $set)
elsewhere=$(counts_of $irqs -- $others)
millpond experiment e1 --nics $near,$far --seconds 1 --json >$OUT/e1.json 2>$OUT/told || fail "$(cat $OUT/told)"
on_set=$(($(counts_of $irqs -- $set) - on_set))
elsewhere=$(($(counts_of $irqs -- $others) - elsewhere))
state after
same before after "after the experiment"
echo "interrupts of the cards in all: $on_set on the processors of the set, $elsewhere on others"
tr '{}' '\n' <$OUT/e1.json | grep '"in phase' | tr ',' '\n'
[ $on_set -ge 10 ] || fail "only $on_set interrupts of the cards came to the set before it was one"
[ $elsewhere -ge 20 ] || fail "only $elsewhere interrupts of the cards came to other processors"
for claim in "in phase 2 no device interrupts them" "in phase 2 devices that interrupted them interrupt others" \
    "in phase 3 no device interrupts them" "in phase 3 the network's CPU is outside the set" \
    "in phase 2 the stream runs outside the set" "in phase 3 it runs inside" \
    "afterwards all CPUs have the states that they had"; do
    grep -q "\"$claim\": *true" $OUT/e1.json || fail "it is not so: $claim"
done
in_order
for pair in $masks; do write /proc/irq/${pair%%=*}/smp_affinity ${pair#*=}; done
