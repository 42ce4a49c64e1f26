# Shell functions for cases about millpond's commands (`. /words.sh`). The image has millpond under its command names, and live-laws.
#
#   state FILE [PID...]     write everything that a command may change, as text: the cpuset tree, CPU weights and quotas, masks of interrupts and
#                           workqueues, settings of CPUs, on-line CPUs, kernel threads that are restricted to some CPUs (with version 1 only if
#                           kernel_threads=yes: there they lose their masks when a CPU goes off-line meanwhile), cgroups and masks of these
#                           processes, and the output of the commands about sets and CPUs (without times)
#   same FILE FILE WHEN     both must be equal, byte for byte
#   refused STATUS COMMAND...   the command must end with this status, and its output must equal the standard input
#   says TEXT COMMAND...    the output of the command must contain the text, with any status
#   silent TEXT COMMAND...  the output of the command must not contain the text
#   spin N                  start N processes that only compute; their ids are in $spinners
#   running_on              print a line `PID CPU` for each user thread that is computing
#   set_of PID              print the set whose cgroup the process is in; 0 for none
#   in_order                doctor must find nothing
#   splits CPU              print the hint for a set of only this CPU, as a line; nothing where cores have one strand
#   web_of MAX              enable pools and create the pool web with a set, webset, of one to MAX CPUs; it gets CPU 1
#   size_of SET             print the number of CPUs of a set of the pools
#   gets SET N [WHEN]       the set must soon have N CPUs; otherwise fail with the contents of poold.said
#   hears TEXT              poold must soon write this text
#   latstat_measures NAME [OPTION...]   start latstat on CPU 2; its process id is in $latstat, that of its thread NAME in $probe
#   latstat_begins [OPTION...]   the same with latstat's own thread, in a set of its own without interrupts
#   irqs_of_cards CARD...   print the interrupts of network cards; a card has all of them only after it was up
#   counts_of IRQ... -- CPU...   print how often these CPUs took these interrupts, in total
#
#   group NAME...           create cgroups for CPU time, and for sets if that is another tree; ungroup NAME... removes them
#   into NAME PID...        move these processes into that cgroup
#   weighs NAME SHARES      the kernel's weight of the cgroup must be that of these shares; 0 is an idle cgroup, - an unchanged one
#   capped NAME PERCENT     the kernel's quota of the cgroup must be this percentage of a CPU; - for none
#
# $root is the top of the cpuset tree, $shares that of the CPU controller's tree.

root=/sys/fs/cgroup
shares=$root
[ "$cgroup" = v2 ] || root=/sys/fs/cgroup/cpuset shares=/sys/fs/cgroup/cpu

state() {
    _file=$1
    shift
    {
        find $root -type d | sort
        find $root \( -name cpuset.cpus -o -name cpuset.mems -o -name 'cpuset.cpus.*' -o -name cpuset.effective_cpus \
            -o -name cgroup.subtree_control \) -type f | sort | xargs grep -sH ''
        find $shares/ -type d | sort
        find $shares/ \( -name cpu.weight -o -name cpu.max -o -name cpu.idle -o -name cpu.shares -o -name cpu.cfs_quota_us \
            -o -name cpu.cfs_period_us \) -type f | sort | xargs -r grep -sH ''
        grep -sH '' /proc/irq/default_smp_affinity /proc/irq/[0-9]*/smp_affinity /sys/devices/virtual/workqueue/cpumask \
            /sys/devices/virtual/workqueue/*/cpumask /sys/class/net/*/queues/*/rps_cpus /sys/devices/system/cpu/online || true
        grep -sH '' /proc/sys/kernel/watchdog_cpumask /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us \
            /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor /sys/kernel/debug/sched/fair_server/cpu[0-9]*/runtime \
            /proc/sys/kernel/numa_balancing /proc/sys/kernel/timer_migration /proc/sys/vm/stat_interval || true
        # Threads that may run on all CPUs outside partitions are unchanged. Others: the kernel may let them run everywhere when a
        # CPU comes on-line.
        [ "$cgroup" != v2 ] && [ "${kernel_threads-no}" = no ] || _confined_kernel_threads | grep -v " $(cat $root/cpuset.cpus.effective 2>/dev/null || echo none)\$" || true
        for _pid in "$@"; do
            grep -H -e cpuset -e cpu, -e '^0:' "/proc/$_pid/cgroup"
            grep -H Cpus_allowed_list "/proc/$_pid/task/"*/status
        done
        psrset -i -v
        psrinfo | awk '{ print $1, $2 }'
    } >"$_file" 2>"$_file.said" || fail "cannot write the state: $(cat "$_file.said")"
    [ ! -s "$_file.said" ] || fail "messages while the state was written: $(cat "$_file.said")"
}

# Movable kernel threads: with flag 0x200000 and without 0x4000000. A thread of an interrupt follows its interrupt, some time
# later.
_confined_kernel_threads() {
    grep -s '^Cpus_allowed_list:' /proc/[0-9]*/status | grep -v ":.0-$((cpus - 1))\$" | while IFS=: read -r _file _key _list; do
        { read -r _line <"${_file%status}stat"; } 2>/dev/null || continue
        case $_line in *"(irq/"*) continue ;; esac
        set -- ${_line##*) }
        [ $(($7 / 2097152 % 2)) = 1 ] && [ $(($7 / 67108864 % 2)) = 0 ] || continue
        echo "${_file%/status} ${_list#?}"
    done
}

same() {
    cmp -s "$1" "$2" || fail "$3: $(diff "$1" "$2" | head -n 40)"
}

refused() {
    _status=$1
    shift
    _want=$(cat)
    need_fail "$@"
    want "$_want" "$said" "\`$*\`"
    want "$_status" "$status" "status of \`$*\`"
}

says() {
    _text=$1
    shift
    status=0
    said=$("$@" 2>&1) || status=$?
    case $said in
    *"$_text"*) ;;
    *) fail "\`$*\` should say \`$_text\`, but says: $said" ;;
    esac
}

silent() {
    _text=$1
    shift
    status=0
    said=$("$@" 2>&1) || status=$?
    case $said in
    *"$_text"*) fail "\`$*\` says: $said" ;;
    esac
}

spin() {
    spinners=
    _n=0
    while [ $_n -lt "$1" ]; do
        sh -c 'while :; do :; done' &
        spinners="$spinners $!"
        _n=$((_n + 1))
    done
}

# Kernel threads have flag 0x200000. A name in parentheses may have spaces. Kernel threads found by the first call are skipped
# later. Starts no process: where all CPUs are busy, each would wait for its turn on an emulated machine.
running_on() {
    [ -n "${_kernels:-}" ] || _kernels=$(cat /proc/[0-9]*/stat 2>/dev/null | awk '
        { pid = $1; sub(/^.*\) /, ""); if (int($7 / 2097152) % 2 == 1) printf " %s", pid } END { print " " }')
    for _dir in /proc/[0-9]*; do
        case $_kernels in *" ${_dir#/proc/} "*) continue ;; esac
        for _stat in "$_dir"/task/[0-9]*/stat; do
            { read -r _line <"$_stat"; } 2>/dev/null || continue
            case ${_line##*) } in R*) ;; *) continue ;; esac
            _thread=${_line%% *}
            set -- ${_line##*) }
            [ $(($7 / 2097152 % 2)) = 1 ] || echo "$_thread ${37}"
        done
    done
}

set_of() {
    _at=$(sed -n -e 's/^[0-9]*:cpuset:\/mpset\([0-9]*\).*/\1/p' -e 's/^0::\/mpset\([0-9]*\).*/\1/p' "/proc/$1/cgroup")
    echo "${_at:-0}"
}

in_order() {
    need doctor
    case $said in
    *"all is in order"*) ;;
    *) fail "doctor says: $said" ;;
    esac
}

group() {
    for _name in "$@"; do
        mkdir "$shares/$_name"
        [ $shares != $root ] || continue
        mkdir "$root/$_name"
        cat "$root/cpuset.cpus" >"$root/$_name/cpuset.cpus"
        cat "$root/cpuset.mems" >"$root/$_name/cpuset.mems"
    done
}

ungroup() {
    for _name in "$@"; do
        within 20 rmdir "$shares/$_name"
        [ $shares = $root ] || within 20 rmdir "$root/$_name"
    done
}

into() {
    _name=$1
    shift
    for _pid in "$@"; do
        write "$shares/$_name/cgroup.procs" "$_pid"
        [ $shares = $root ] || write "$root/$_name/cgroup.procs" "$_pid"
    done
}

weighs() {
    _idle=0
    [ "$2" != 0 ] || _idle=1
    _count=$2
    [ $_idle = 0 ] && [ "$2" != - ] || _count=1
    if [ "$cgroup" = v2 ]; then
        # An idle cgroup has no weight of its own: the values read differ between kernels.
        [ $_idle = 1 ] || want_file "$shares/$1/cpu.weight" $((_count * 100))
    else
        [ $_idle = 1 ] || want_file "$shares/$1/cpu.shares" $((_count * 1024))
    fi
    want_file "$shares/$1/cpu.idle" $_idle
}

capped() {
    if [ "$2" = - ]; then
        [ "$cgroup" = v2 ] && want_file "$shares/$1/cpu.max" 'max 100000' || want_file "$shares/$1/cpu.cfs_quota_us" -1
    elif [ "$cgroup" = v2 ]; then
        want_file "$shares/$1/cpu.max" "$(($2 * 1000)) 100000"
    else
        want_file "$shares/$1/cpu.cfs_quota_us" $(($2 * 1000))
        want_file "$shares/$1/cpu.cfs_period_us" 100000
    fi
}

splits() {
    _others=$(sed "s/[,-]/\n/g" "/sys/devices/system/cpu/cpu$1/topology/thread_siblings_list" | grep -vx "$1" || true)
    [ -z "$_others" ] || echo "hint: CPU $1 shares its core with $_others, outside the set; --whole-cores takes whole cores"
}

web_of() {
    need pooladm -e
    need poolcfg -d -c "
        create pset webset ( uint pset.max = $1 ; uint pset.min = 1 )
        create pool web
        associate pool web ( pset webset )
        transfer to pset webset ( cpu 1 )"
}

size_of() {
    poolstat -r pset -o rset,size | awk -v set="$1" '$1 == set { print $2 }'
}

# Each check takes time, too. One per second leaves CPU time for the others.
gets() {
    _tries=0
    until [ "$(size_of "$1")" = "$2" ]; do
        _tries=$((_tries + 1))
        [ $_tries -lt 90 ] || fail "${3:-at last}: $1 has $(size_of "$1") and not $2; poold says: $(cat poold.said)"
        sleep 1
    done
}

hears() {
    _tries=0
    until grep -q "$1" poold.said; do
        _tries=$((_tries + 1))
        [ $_tries -lt 60 ] || fail "poold does not say '$1', but: $(cat poold.said)"
        sleep 1
    done
}

# The measuring process, once it is in its class. Its parent is our child.
_probe() {
    for _stat in /proc/[0-9]*/stat; do
        { read -r _line <"$_stat"; } 2>/dev/null || continue
        case $_line in *"($_name)"*) ;; *) continue ;; esac
        set -- ${_line##*) }
        # Fields 40 and 41 of the file: real-time priority and policy.
        [ "$2 ${38} ${39}" = "$latstat 31 1" ] && echo "${_line%% *}"
    done
}

latstat_measures() {
    _name=$1
    shift
    latstat --cpu 2 "$@" >latstat.out 2>latstat.err &
    latstat=$!
    _tries=0
    until [ -n "$(_probe)" ]; do
        _tries=$((_tries + 1))
        [ $_tries -lt 60 ] || fail "latstat does not measure: $(cat latstat.err)"
        sleep 1
    done
    probe=$(_probe)
}

latstat_begins() {
    latstat_measures latstat-probe "$@"
    want 1 "$(set_of "$probe")" "the set of the thread that measures"
    says no-intr psrinfo 2
}

doctor() {
    millpond doctor "$@"
}

# For a virtio card, the interrupts belong to its parent on the bus.
irqs_of_cards() {
    for _card in "$@"; do
        for _dir in /sys/class/net/$_card/device/msi_irqs /sys/class/net/$_card/device/../msi_irqs; do
            [ ! -d "$_dir" ] || ls "$_dir"
        done
    done | sort -n
}

counts_of() {
    awk -v words="$*" '
        BEGIN {
            n = split(words, word, " ")
            for (i = 1; i <= n; i++) if (word[i] == "--") behind = 1; else if (behind) cpu["CPU" word[i]] = 1; else irq[word[i] ":"] = 1
        }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i in cpu) column[i + 1] = 1 }
        $1 in irq { for (i in column) sum += $i }
        END { print sum + 0 }' /proc/interrupts
}
