# Words for the cases about millpond's commands, which say `. /words.sh`. Programs of the image: millpond under its names, live-laws.
#
#   state FILE [PID...]     all that a command may change, as text: the cpuset tree, weights and quotas of CPU time, masks of interrupts and of kernel work,
#                           settings of CPUs, who is on-line, kernel threads that may not run everywhere (with version 1 only where kernel_threads=yes: they lose
#                           their masks there when a CPU goes off-line meanwhile), where these processes are and may run, and the sets and processors as the
#                           commands show them (but not since when)
#   same FILE FILE WHEN     both must be equal, byte for byte
#   refused STATUS COMMAND...   the command must end with that status and say exactly what stands on the standard input
#   says TEXT COMMAND...    what the command says (whatever its status) must contain the text
#   silent TEXT COMMAND...  and here must not
#   spin N                  N processes that do nothing but compute; their numbers are in $spinners
#   running_on              a line `PID CPU` for each thread of a user that computes at the moment
#   set_of PID              the number of the set whose cgroup the process is in; 0 for none
#   in_order                doctor must find nothing
#   splits CPU              the hint that a set of this processor alone gets, on a line; none where cores have one strand
#   web_of MAX              pools from now on, and one of them, web, with a set, webset, of one to MAX processors: of processor 1
#   size_of SET             how many processors a set of the pools has
#   gets SET N [WHEN]       the set must have so many before long; what stands in poold.said is told if it does not
#   hears TEXT              poold must say that before long
#   latstat_measures NAME [OPTION...]   latstat measures on processor 2; its number is in $latstat, that of its thread of that name in $probe
#   latstat_begins [OPTION...]   the same by its own thread, in a set of its own without interrupts
#   irqs_of_cards CARD...   numbers of the interrupts of network cards; a card has them all only once it was up
#   counts_of IRQ... -- CPU...   how often these processors took these interrupts, all together
#
#   group NAME...           cgroups of these names for CPU time, and for sets where that is another tree; ungroup NAME... removes them again
#   into NAME PID...        these processes are in that group
#   weighs NAME SHARES      the kernel's weight of the group is that of so many shares; 0 is an idle group, - one of which nothing was said
#   capped NAME PERCENT     the kernel's quota of the group is that percentage of a CPU; - for none
#
# $root is the top of the cpuset tree, $shares that of the tree of CPU time.

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
        # Those that may run on all that no partition has are as the kernel left them: it lets one or the other run everywhere when a CPU comes on-line.
        [ "$cgroup" != v2 ] && [ "${kernel_threads-no}" = no ] || _confined_kernel_threads | grep -v " $(cat $root/cpuset.cpus.effective 2>/dev/null || echo none)\$" || true
        for _pid in "$@"; do
            grep -H -e cpuset -e cpu, -e '^0:' "/proc/$_pid/cgroup"
            grep -H Cpus_allowed_list "/proc/$_pid/task/"*/status
        done
        psrset -i -v
        psrinfo | awk '{ print $1, $2 }'
    } >"$_file" 2>"$_file.said" || fail "cannot tell the state: $(cat "$_file.said")"
    [ ! -s "$_file.said" ] || fail "while the state was told: $(cat "$_file.said")"
}

# Those that the kernel lets be moved: flag 0x200000, and not 0x4000000. That of an interrupt follows its interrupt, some time later.
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

# A thread of the kernel has flag 0x200000; a name in parentheses may have spaces. Who was the kernel's at the first look is not looked
# at again. Without a single new process: where all processors compute, each would wait for its turn on an emulated machine.
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
        # An idle group has no weight of its own: reads differ between kernels.
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

# Looking takes its time, too: a look each second leaves some for the others.
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

# The process that measures, once it is in its class; its parent is ours.
_probe() {
    for _stat in /proc/[0-9]*/stat; do
        { read -r _line <"$_stat"; } 2>/dev/null || continue
        case $_line in *"($_name)"*) ;; *) continue ;; esac
        set -- ${_line##*) }
        # Fields 40 and 41 of the file: its priority in real time, and its policy.
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

# Of a virtio card it is the parent that stands on the bus.
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
