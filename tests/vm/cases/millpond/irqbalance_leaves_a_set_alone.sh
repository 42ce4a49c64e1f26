# limit_s: 150
# The real daemon: it distributes interrupts over all CPUs, and after our request over all except those of a set.
. /words.sh
command -v irqbalance >/dev/null || skip "there is no irqbalance for this guest"
[ "$nics" -ge 2 ] || skip "this guest has no two network cards"
cards=$(cd /sys/class/net && echo eth*)
for card in $cards; do ip link set "$card" up; done
irqs=$(irqs_of_cards $cards)
mkdir -p /run/irqbalance
start() {
    irqbalance --foreground --interval 1 >daemon.$1 2>&1 &
    daemon=$!
    within 20 test -S /run/irqbalance/irqbalance$daemon.sock
}
bits() {
    _mask=$(cat "/proc/irq/$1/smp_affinity")
    echo $((0x${_mask##*,}))
}
# Interrupts of the cards that may go to CPU 2 or 3.
on_members() {
    for irq in $irqs; do
        [ $(($(bits "$irq") & 12)) = 0 ] || echo "$irq"
    done
}
# Whether the daemon placed one of them there: initially each allows all CPUs.
some_were_put_there() {
    for irq in $(on_members); do
        [ "$(bits "$irq")" = $(((1 << cpus) - 1)) ] || return 0
    done
    return 1
}
# Enough of its rounds to move them back.
some_rounds() { sleep 4; }
lives() {
    kill -0 $daemon 2>/dev/null && return 0
    status=0
    wait $daemon || status=$?
    fail "the daemon ended with status $status: $(cat daemon.*)"
}
start 1
within 20 some_were_put_there
need psrset -c 2-3
need psrset -f 1
lives
case $said in *"cannot be told"*) fail "$said" ;; esac
some_rounds
want "" "$(on_members)" "interrupts on members after some rounds"
lives
in_order
lives
# After a restart it has lost our list and moves them back, until the next change or doctor sends the list.
kill $daemon
wait $daemon || true
start 2
within 20 some_were_put_there
says "not as the sets want it: irqbalance:banned: absent -> 2-3" doctor
need doctor --repair
some_rounds
want "" "$(on_members)" "interrupts on members after the daemon was started again"
lives
in_order
lives
# While it is stopped it gets no request, and is reported. It survives this.
kill -STOP $daemon
says "irqbalance (process $daemon) cannot be told which CPUs to leave alone: it is stopped" psradm -i 1
kill -CONT $daemon
need psradm -n 1
lives
need psrset -n 1
need psrset -d 1
lives
in_order
lives
silent "irqbalance" doctor
kill $daemon
wait $daemon || true
for card in $cards; do ip link set "$card" down; done
