# leaves: nothing
. /words.sh

# BPF programs are accepted, and each column has its source. Tracepoints for calls to other CPUs exist since 6.4.
need mpstat -v 1 2
explained=$said
for place in 'csw   counted in the kernel at sched_switch' 'syscl counted in the kernel at sys_enter' \
    'mjf   counted in the kernel at the event major-faults' 'minf  counted in the kernel at page_fault_user' \
    'intr  counted in the kernel at irq_handler_entry'; do
    case $explained in
    *"$place"*) ;;
    *) fail "mpstat -v should say '$place', but says: $explained" ;;
    esac
done
case $(uname -r) in
6.1.*) ;;
*) case $explained in
    *'xcal  counted in the kernel at ipi_send_cpu'*) ;;
    *) fail "mpstat -v does not say where xcal is counted: $explained" ;;
    esac ;;
esac

# They count: a process that only makes system calls is visible.
(while :; do dd if=/dev/zero of=/dev/null bs=1 count=100000 2>/dev/null; done) &
caller=$!
need mpstat 2 2
kill $caller
calls=$(echo "$said" | awk '/^CPU/ { report++; next } report == 2 && $12 > most { most = $12 } END { print most + 0 }')
[ "$calls" -gt 100 ] || fail "no system calls are counted: $said"

# A CPU without interrupts is counted like all others, because counts of BPF programs are read without interrupting it.
need psradm -i $((cpus - 1))
need mpstat 1 2
dashes=$(echo "$said" | awk -v cpu=$((cpus - 1)) '/^CPU/ { report++; next } report == 2 && $1 == cpu { for (i = 2; i <= NF; i++) if ($i == "-") n++; print n + 0 }')
want 0 "$dashes" "columns that a no-intr processor lacks in: $said"
need psradm -n $((cpus - 1))
in_order
