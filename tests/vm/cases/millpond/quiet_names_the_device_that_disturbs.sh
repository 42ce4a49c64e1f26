# limit_s: 240
# leaves: nothing
. /words.sh
[ "$nics" -ge 2 ] || skip "this guest has no two network cards"
millpond quiet --cpu 2 --for 1s >first 2>first.said || fail "it cannot be watched: $(cat first.said)"
grep -q "by programs in the kernel" first || skip "no programs in this kernel: $(cat first.said)"
nics_apart
irqs="$(irqs_of virtio1-input)"
irq=${irqs%% *}
[ -n "$irq" ] || skip "the card has no interrupts called input"
before=$(cat /proc/irq/$irq/smp_affinity_list)
write /proc/irq/$irq/smp_affinity_list 2
need in_a ping -c 3 -q 10.77.0.2
(while :; do in_a ping -c 50 -i 0.01 -q 10.77.0.2; done) >/dev/null 2>&1 &
pings=$!
need millpond quiet --cpu 2 --for 3s
echo "$said"
echo "$said" | grep -q "^device  *virtio1-input" || fail "the card is not named: $said"
need intrstat -c 2 1 2
echo "$said"
echo "$said" | grep "virtio1-input" | tail -n 1 | awk '$3 > 0 { found = 1 } END { exit !found }' || fail "the card has no interrupts: $said"
need millpond quiet --cpu 2 --for 2s --by-counts
echo "$said" | grep -q "^device  *virtio1-input" || fail "the card is not named by counts: $said"
kill $pings
write /proc/irq/$irq/smp_affinity_list "$before"
