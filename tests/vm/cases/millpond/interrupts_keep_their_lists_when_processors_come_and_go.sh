# limit_s: 200
# leaves: nothing
# When a CPU stops, the kernel moves its interrupts; some interrupts apply a new list only when they next occur; drivers of
# network cards redistribute theirs whenever a CPU comes or goes. Afterwards every list is unchanged.
. /words.sh
cards=$(cd /sys/class/net && echo eth*)
[ -d "/sys/class/net/${cards%% *}" ] || skip "this guest has no network card"
for card in $cards; do ip link set "$card" up; done
irqs=$(irqs_of_cards $cards)
[ -n "$irqs" ] || skip "the network cards of this guest have no interrupts of their own"
lists() { grep -H '' /proc/irq/[0-9]*/smp_affinity_list; }
lists >untouched
n=0
for irq in $irqs; do
    n=$((n + 1))
    echo $((n % cpus)) >/proc/irq/$irq/smp_affinity_list
done
for card in $cards; do ip link set "$card" down; done
# A dry run shows lists that would change, and on request also those that are only recorded.
need psradm --dry-run -f 2 3
echo "$said" | awk '$3 == "->" && $2 == $4 { exit 1 }' || fail "the dry run shows what would not change: $said"
says "(to be remembered)" psradm --dry-run -v -f 2 3
for round in 1 2 3; do
    lists >before
    need psradm -f 2 3
    need psradm -n 2 3
    lists >after
    same before after "the lists in round $round"
    in_order
done
while IFS=: read -r file list; do
    [ "$(cat "$file")" = "$list" ] || write "$file" "$list"
done <untouched
