# In a guest, counts scheduler ticks from the command that creates a set until the last foreign thread ran there, and until
# the last device interrupt there. Prints one line per round, in ticks:
# THREADS INTERRUPTS MADE STILL NAME, where MADE is the end of `psrset -c`, STILL the end of `psrset -f`, and NAME
# the last foreign thread.
# The caller sets ROUNDS.
set -u
jiffies() { awk '/^timestamp/ { print $2; exit }' /proc/schedstat; }
uptime_cs() { awk '{ print $1 * 100 }' /proc/uptime; }

# Eight threads for four CPUs, and interrupts of two cards on one wire.
for n in 1 2 3 4 5 6 7 8; do
    sh -c 'while :; do :; done' &
done
for card in eth0 eth1; do ip link set $card up 2>/dev/null || true; done
ip addr add 192.0.2.1/24 dev eth0 2>/dev/null && ping -i 0.01 -I eth0 224.0.0.1 >/dev/null 2>&1 &

# Length of a tick in microseconds.
from=$(jiffies) since=$(uptime_cs)
sleep 2
tick_us=$(( ($(uptime_cs) - since) * 10000 / ($(jiffies) - from) ))

cd /sys/kernel/tracing
echo 4096 >buffer_size_kb
round=0
while [ $round -lt "$ROUNDS" ]; do
    round=$((round + 1))
    for list in /proc/irq/*/smp_affinity_list; do echo 2-3 2>/dev/null >$list || true; done
    echo 1 >events/sched/sched_switch/enable
    echo 1 >events/irq/irq_handler_entry/enable
    sleep 1
    echo >trace
    echo begin >trace_marker
    psrset -c 2 3 >/dev/null
    echo made >trace_marker
    psrset -f 1 >/dev/null
    echo still >trace_marker
    sleep 1
    echo 0 >events/sched/sched_switch/enable
    echo 0 >events/irq/irq_handler_entry/enable
    # Per-CPU kernel threads (named NAME/N) and the idle thread do not count as foreign.
    awk -v tick="$tick_us" '
        /^#/ { next }
        { at = 0; for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9]+:$/) { at = $i + 0; break } }
        /tracing_mark_write:/ { if (!($NF in mark)) mark[$NF] = at; next }
        !/ \[00[23]\] / { next }
        /sched_switch:/ {
            match($0, /next_comm=.* next_pid=/); name = substr($0, RSTART + 10, RLENGTH - 20)
            if (name !~ /\/[0-9]+(:|-|$)/) { threads = at; last = name }
        }
        /irq_handler_entry:/ { interrupts = at }
        function ticks(at) { at = (at - mark["begin"]) * 1e6 / tick; return at < 0 ? 0 : at }
        END {
            if (!("begin" in mark) || !("made" in mark) || !("still" in mark)) { print "the marks were lost" >"/dev/stderr"; exit 1 }
            gsub(" ", "_", last)
            printf "%.2f %.2f %.2f %.2f %s\n", ticks(threads), ticks(interrupts), ticks(mark["made"]), ticks(mark["still"]), last
        }' trace || exit 1
    psrset -n 1 >/dev/null
    psrset -d 1 >/dev/null
done
kill $(jobs -p) 2>/dev/null || true
