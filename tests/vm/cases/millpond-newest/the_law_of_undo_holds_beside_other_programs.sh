# limit_s: 500
# leaves: nothing
# Other programs have cgroups, partitions, masks and interrupts of their own. After any sequence of commands and their undo, all
# of these are unchanged, byte for byte. This script reads them without Millpond.
rounds=4
[ ! -e /thorough ] || rounds=12
[ ! -e /brief ] || rounds=2

root=/sys/fs/cgroup
[ "$cgroup" = v2 ] || root=/sys/fs/cgroup/cpuset
others=

# A random number below $1 in $n, the same in each run.
seed=20261129
below() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    n=$((seed / 65536 % $1))
}

# Movable kernel threads: flag 0x200000 and not 0x4000000. Excludes workers and rescuers (0x20), whose masks the kernel changes
# itself, and threads of interrupts, of the memory of nodes and of RCU's workers for sixteen CPUs.
kernel_threads() {
    for _stat in /proc/[0-9]*/stat; do
        { read -r _line <"$_stat"; } 2>/dev/null || continue
        case $_line in *"(irq/"* | *"(kswapd"* | *"(kcompactd"* | *"(rcu_exp_par"*) continue ;; esac
        set -- ${_line##*) }
        [ $(($7 / 2097152 % 2)) = 1 ] && [ $(($7 / 67108864 % 2)) = 0 ] && [ $(($7 / 32 % 2)) = 0 ] || continue
        echo "${_stat%/stat}/status"
    done
}

# Everything that a command may change. A mask of all CPUs outside partitions counts as none: the kernel gives it to some threads
# and not to others.
observe() {
    {
        find $root -type d | sort
        find $root \( -name 'cpuset.*' -o -name cgroup.type -o -name cgroup.subtree_control \) -type f ! -name '*pressure*' |
            sort | xargs grep -sH ''
        grep -sH '' /proc/irq/default_smp_affinity /proc/irq/[0-9]*/smp_affinity_list /sys/devices/virtual/workqueue/cpumask \
            /sys/devices/virtual/workqueue/*/cpumask /sys/class/net/*/queues/*/rps_cpus /proc/sys/kernel/watchdog_cpumask \
            /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us /sys/devices/system/cpu/online || :
        _left=$(cat $root/cpuset.cpus.effective 2>/dev/null || cat $root/cpuset.cpus)
        kernel_threads | xargs grep -sH '^Cpus_allowed_list:' | grep -v -e "[[:space:]]0-$((cpus - 1))\$" -e "[[:space:]]$_left\$" || :
        for _pid in $others; do
            for _task in /proc/$_pid/task/[0-9]*; do
                grep -H -e cpuset -e '^0:' "$_task/cgroup"
                grep -H Cpus_allowed_list "$_task/status"
            done
        done
    } >"$1" 2>"$1.said" || fail "cannot observe: $(cat "$1.said")"
    [ ! -s "$1.said" ] || fail "while it was observed: $(cat "$1.said")"
}

sleeper() { # group
    sleep 100000 &
    others="$others $!"
    [ -z "${1:-}" ] || write "$root/$1/cgroup.procs" $!
}

# --- other programs ---
if [ "$cgroup" = v2 ]; then
    write $root/cgroup.subtree_control +cpuset
    mkdir $root/rt $root/web
    write $root/rt/cpuset.cpus $((cpus - 1))
    write $root/rt/cpuset.cpus.partition isolated
else
    mkdir $root/rt $root/web
    write $root/rt/cpuset.cpus $((cpus - 1))
    write $root/rt/cpuset.mems 0
    write $root/rt/cpuset.cpu_exclusive 1
    write $root/web/cpuset.mems 0
fi
write $root/web/cpuset.cpus 0-1
if [ "$cgroup" = v2 ]; then
    mkdir $root/web/one
    write $root/web/one/cgroup.type threaded
fi
sleeper rt
sleeper web
sleeper
sleeper
bound=$!
taskset -pc 0-1 $bound >taskset.said 2>&1 || fail "$(cat taskset.said)"
for _status in $(kernel_threads | head -n 40); do
    case $(cat "${_status%/status}/comm") in rcu_preempt | kdevtmpfs | kauditd)
        _pid=${_status%/status}
        taskset -pc 0-$((cpus - 2)) "${_pid#/proc/}" >taskset.said 2>&1 || :
        ;;
    esac
done
_irq=$(irqs_of virtio | head -n 1)
[ -z "$_irq" ] || echo 0-1 2>/dev/null >/proc/irq/$_irq/smp_affinity_list || :

# --- commands, some of which are refused ---
tried=0 done=0
try() {
    tried=$((tried + 1))
    if "$@" >said 2>&1; then
        done=$((done + 1))
        echo "$*" >>story
    else
        echo "$* (refused)" >>story
    fi
}

random_command() {
    below 9
    _kind=$n
    # The last CPU belongs to another program.
    below $((cpus - 1))
    _cpu=$((n + 1))
    below 2
    _set=$((n + 1))
    case $_kind in
    0 | 1) try psrset -c $_cpu ;;
    2) try psrset -a $_set $_cpu ;;
    3) try psrset -b $_set $bound ;;
    4) try pbind -b $_cpu $bound ;;
    5 | 6) try millpond fence --name f$_set $_cpu ;;
    7) try psradm -f $_cpu ;;
    8) try psradm -i $_cpu ;;
    esac
}

with_pools() {
    try pooladm -e
    below $((cpus - 2))
    try poolcfg -d -c "create pset s ( uint pset.min = 1 ; uint pset.max = 2 ) ; create pool p ; associate pool p ( pset s ) ; transfer to pset s ( cpu $((n + 1)) )"
    try poolbind -p p $bound
    below $((cpus - 2))
    try millpond fence --name f1 $((n + 1))
}

undo() {
    pbind -u $bound >said 2>&1 || :
    for _fence in f1 f2; do
        millpond fence --off $_fence >said 2>&1 || :
    done
    if pooladm >said 2>&1; then
        need pooladm -d
    fi
    for _id in $(psrset -i | sed -n 's/^user processor set \([0-9]*\):.*/\1/p'); do
        need psrset -d "$_id"
    done
    need psradm -n $(seq 0 $((cpus - 1)))
}

observe before
round=0
while [ $round -lt $rounds ]; do
    round=$((round + 1))
    : >story
    if [ $((round % 2)) = 0 ]; then
        with_pools
    fi
    for _ in 1 2 3 4 5; do
        random_command
    done
    undo
    observe after
    cmp -s before after || fail "round $round: $(diff before after | head -n 40); commands: $(cat story)"
done
[ $done -gt $rounds ] || fail "only $done of $tried commands were done"
echo "figure: $done of $tried commands were done, and undone, beside other programs"

# --- check that the comparison can fail: another program changes one file of each kind ---
was=$(cat $root/web/cpuset.cpus)
write $root/web/cpuset.cpus 0
observe after
! cmp -s before after || fail "a list of another group is not observed"
write $root/web/cpuset.cpus "$was"
taskset -pc 0 $bound >said 2>&1
observe after
! cmp -s before after || fail "a mask is not observed"

# --- the other programs end ---
for _pid in $others; do
    kill -9 "$_pid"
    wait "$_pid" || :
done
if [ "$cgroup" = v2 ]; then
    write $root/rt/cpuset.cpus.partition member
    rmdir $root/web/one
fi
within 20 rmdir $root/rt
within 20 rmdir $root/web
[ "$cgroup" != v2 ] || write $root/cgroup.subtree_control -cpuset
for _status in $(kernel_threads); do
    case $(cat "${_status%/status}/comm" 2>/dev/null) in rcu_preempt | kdevtmpfs | kauditd)
        _pid=${_status%/status}
        taskset -pc 0-$((cpus - 1)) "${_pid#/proc/}" >/dev/null 2>&1 || :
        ;;
    esac
done
[ -z "$_irq" ] || echo 0-$((cpus - 1)) 2>/dev/null >/proc/irq/$_irq/smp_affinity_list || :
# Since 6.9 a write sets both the effective and the requested mask of unbound workqueues, and they cannot be set separately. A
# mask that was restored during a foreign partition excludes its CPUs, also after the partition ends. While the partition exists
# the mask is unchanged, which is compared above.
_mask=$(sed 's/[0-9a-f]/f/g' /sys/devices/virtual/workqueue/cpumask)
write /sys/devices/virtual/workqueue/cpumask "$_mask"
