#!/bin/busybox sh
# Process 1 of the guest. Sets up the machine as described in /vm/config, runs the cases of /vm/cases in order, and powers off. It
# sends results to the host as frames (src/frames.rs) over the port named millpond.results. No failure may end this process early.

# Search order: our own programs, other programs of the image, busybox.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox
export HOME=/root LC_ALL=C TERM=dumb RUST_BACKTRACE=1
/bin/busybox --install -s /busybox

power_off() {
    poweroff -f
    # poweroff may return before the machine is off.
    while :; do sleep 60; done
}

# Before the port is open, a failure can only be reported on the console.
give_up() {
    echo "millpond-vm: $*" >/dev/console
    power_off
}

frame() { # kind name file
    printf 'MPVM %s %s %s\n' "$1" "$2" "$(wc -c <"$3")" >&7
    cat "$3" >&7
}

refuse() {
    echo "$*" >/.vm/refused
    frame refused - /.vm/refused
    power_off
}

# --- set-up ---------------------------------------------------------------------------------------------------------

mount_all() {
    mkdir -p /proc /sys /dev /run /tmp /root /var/log /etc /.vm
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs dev /dev
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t tmpfs run /run
    mount -t tmpfs tmp /tmp
    ln -sf /proc/self/fd /dev/fd
    mount -t tracefs tracefs /sys/kernel/tracing
    mount -t debugfs debugfs /sys/kernel/debug
    mount -t bpf bpf /sys/fs/bpf
}

load_modules() {
    while read -r file; do
        insmod "$file" || echo "millpond-vm: cannot load $file" >/dev/console
    done </vm/modules
}

open_port() {
    tries=0
    while [ $tries -lt 500 ]; do
        for port in /sys/class/virtio-ports/*; do
            if [ -e "$port/name" ] && [ "$(cat "$port/name")" = millpond.results ] && [ -e "/dev/${port##*/}" ]; then
                exec 7>"/dev/${port##*/}"
                return
            fi
        done
        tries=$((tries + 1))
        usleep 20000
    done
    give_up "no port to tell results by"
}

mount_cgroups() {
    root=/sys/fs/cgroup
    case $cgroup in
    none) ;;
    v2) mount -t cgroup2 cgroup2 $root || refuse "this kernel mounts no cgroup v2" ;;
    v1-hybrid)
        mount -t tmpfs -o mode=755 tmpfs $root
        for set in cpuset cpu,cpuacct memory pids freezer name=systemd; do
            dir=$root/${set#name=}
            options=$set
            [ "$set" != name=systemd ] || options=none,$set
            mkdir -p "$dir"
            mount -t cgroup -o "$options" cgroup "$dir" 2>/.vm/why && continue
            rmdir "$dir"
            # Only these two are required on a hybrid machine.
            case $set in cpuset | cpu,cpuacct) refuse "this kernel mounts no cgroup v1 $set" ;; esac
        done
        ln -s cpu,cpuacct $root/cpu
        ln -s cpu,cpuacct $root/cpuacct
        mkdir -p $root/unified
        mount -t cgroup2 cgroup2 $root/unified || refuse "this kernel mounts no cgroup v2 beside v1"
        ;;
    *) refuse "there is no cgroup layout $cgroup" ;;
    esac
}

check_machine() {
    # Not the CPUs that this process may use: some may be isolated.
    running=$(grep -c '^processor' /proc/cpuinfo)
    [ "$running" = "$cpus" ] || refuse "the kernel runs $running of $cpus cpus"
    count=0
    for nic in /sys/class/net/eth*; do [ ! -e "$nic" ] || count=$((count + 1)); done
    [ "$count" = "$nics" ] || refuse "the kernel sees $count of $nics network cards"
}

# --- restoring the machine ---------------------------------------------------------------------------------------------
# Under emulation starting a process takes about ten milliseconds, so the checks after each case use few processes.

# Kernel files that a case may change. Their values are recorded at boot.
knobs() {
    for file in /proc/irq/default_smp_affinity /proc/irq/[0-9]*/smp_affinity /sys/devices/virtual/workqueue/cpumask \
        /sys/devices/virtual/workqueue/*/cpumask /sys/class/net/*/queues/*/rps_cpus /sys/class/net/*/queues/*/xps_cpus \
        /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us /sys/fs/cgroup/cpuset/cpuset.sched_load_balance; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# Writes the current state, as lines `file value`, `pid/thread mask`, `link` and `device directory`, to files with this suffix.
snapshot() { # ending
    xargs grep -s -H '' </.vm/knob_files | sed 's/:/ /' >/.vm/knobs.$1
    kernel_threads >/.vm/threads.$1
    ls /sys/class/net >/.vm/links.$1
    awk '{ print $2, $1 }' /proc/mounts >/.vm/mounts.$1
}

# A line for each kernel thread whose CPUs a case may change. Excluded are threads of workqueues (flag 0x20: workers, and
# rescuers, which take the CPUs of the workers that they help), which the kernel manages, and threads of interrupts, which follow
# their interrupts. Also excluded are the memory daemons of a node and RCU's workers for each sixteen CPUs: the kernel gives them
# all CPUs when a partition ends (until 6.19).
kernel_threads() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk '
        { pid = $1; sub(/^.*\) /, ""); if (int($7 / 2097152) % 2 == 1 && int($7 / 32) % 2 == 0) print pid }' >/.vm/kernel_threads
    grep -s -E '^(Name|Cpus_allowed):' /proc/[0-9]*/status | awk '
        NR == FNR { kernel[$1] = 1; next }
        { split($1, part, ":"); split(part[1], dir, "/"); pid = dir[3] }
        part[2] == "Name" { name[pid] = $2 }
        part[2] == "Cpus_allowed" { mask[pid] = $2 }
        END { for (pid in mask) if (pid in kernel && name[pid] !~ /^irq/ && name[pid] !~ /^(kswapd|kcompactd|rcu_exp_par_gp)/) print pid "/" name[pid], mask[pid] }' /.vm/kernel_threads -
}

# Lines `key now was` for differences between two snapshots of one kind; `gone` for missing entries.
changed() { # kind
    awk 'NR == FNR { was[$1] = $2; next }
        $1 in was { if (was[$1] != $2) print $1, $2, was[$1]; delete was[$1] }
        END { for (key in was) print key, "gone", was[key] }' /.vm/$1.boot /.vm/$1.now
}

# Lines that are only in the second snapshot.
added() { # kind
    awk 'NR == FNR { had[$0] = 1; next } !($0 in had)' /.vm/$1.boot /.vm/$1.now
}

remember() {
    knobs >/.vm/knob_files
    snapshot boot
}

left() {
    echo "$*" >>/.vm/left
}

# Kills everything except this process. Killed processes may still be exiting.
kill_all() {
    kill -9 -1 2>/dev/null
    wait
}

remove_cgroup() {
    tries=0
    until rmdir "$1" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { left "cgroup $1 (cannot be removed)"; return; }
        kill_all
        usleep 20000
    done
}

put_back_cgroups() { # root of a hierarchy
    # Not a pipe, because kill_all would kill its other end.
    find "$1" -mindepth 1 -depth -type d >/.vm/directories
    while read -r dir; do
        left "cgroup $dir"
        remove_cgroup "$dir"
    done </.vm/directories
    controllers=
    [ ! -e "$1/cgroup.subtree_control" ] || read -r controllers <"$1/cgroup.subtree_control"
    for controller in $controllers; do
        left "controller $controller in $1"
        echo "-$controller" >"$1/cgroup.subtree_control"
    done
}

# Network cards return after their namespace has ended, shortly after its last process.
await_cards() {
    for link in $(cat /.vm/links.boot); do
        tries=0
        until [ -e "/sys/class/net/$link" ]; do
            tries=$((tries + 1))
            [ $tries -lt 500 ] || { left "link $link is away"; return; }
            usleep 20000
        done
    done
}

put_back() {
    kill_all
    online=
    read -r online </sys/devices/system/cpu/online
    if [ "$online" != "$all_online" ]; then
        for file in /sys/devices/system/cpu/cpu[0-9]*/online; do
            read -r state <"$file"
            [ "$state" = 1 ] && continue
            cpu=${file#/sys/devices/system/cpu/cpu}
            left "cpu ${cpu%/online} off-line"
            echo 1 >"$file" || left "cpu ${cpu%/online} cannot be brought back"
        done
    fi
    case $cgroup in
    v2) put_back_cgroups /sys/fs/cgroup ;;
    v1-hybrid)
        for root in /sys/fs/cgroup/*; do
            [ -L "$root" ] || [ ! -e "$root/cgroup.procs" ] || put_back_cgroups "$root"
        done
        ;;
    esac
    await_cards
    snapshot now
    added links >/.vm/links
    while read -r link; do
        left "link $link"
        ip link del "$link" 2>/dev/null
    done </.vm/links
    changed knobs >/.vm/knobs
    while read -r file now was; do
        left "$file $now, was $was"
        [ "$now" = gone ] || echo "$was" 2>/dev/null >"$file"
    done </.vm/knobs
    changed threads >/.vm/threads
    while read -r thread now was; do
        [ "$now" != gone ] || continue
        left "thread $thread $now, was $was"
        taskset -p "$was" "${thread%%/*}" >/dev/null 2>&1
    done </.vm/threads
    added mounts | tac >/.vm/mounts
    while read -r dir device; do
        left "mount $dir"
        umount -l "$dir"
    done </.vm/mounts
    rm -rf /run/* /tmp/* /dev/shm/*
}

# --- cases ----------------------------------------------------------------------------------------------------------

now_ms() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}0"
}

run_case() { # directory
    read -r name <"$1/name"
    read -r limit_s <"$1/limit_s"
    rm -rf /case /out
    mkdir /case /out
    : >/.vm/verdict
    : >/.vm/left
    echo "<4>millpond-vm: begin $name" >/dev/kmsg
    echo "MPVM begin $name 0" >&7
    from=$(now_ms)
    (
        cd /case
        export OUT=/out VERDICT=/.vm/verdict CASE="$name"
        exec timeout -k 5 "$limit_s" setsid sh -eu /vm/case.sh "$1/script" 7>&- </dev/null >/.vm/stdout 2>/.vm/stderr
    )
    status=$?
    took=$(($(now_ms) - from))
    [ "$took" -lt $((limit_s * 1000)) ] || [ "$status" -lt 128 ] || echo timed-out >/.vm/verdict
    put_back 2>/.vm/put_back
    while read -r line; do left "trouble: $line"; done </.vm/put_back
    for kind in stdout stderr left verdict; do
        [ ! -s /.vm/$kind ] || frame $kind "$name" /.vm/$kind
    done
    if [ -n "$(ls -A /out)" ]; then
        (cd /out && find . | cpio -o -H newc >/.vm/files 2>/dev/null)
        frame files "$name" /.vm/files
    fi
    printf 'status %s\nguest_ms %s\n' "$status" "$took" >/.vm/end
    frame end "$name" /.vm/end
}

mount_all 2>/.vm-mount
set -a
. /vm/config
set +a
load_modules
open_port
[ ! -s /.vm-mount ] || refuse "mounting: $(cat /.vm-mount)"
mount_cgroups
hostname guest
ip link set lo up
check_machine
remember
read -r all_online </sys/devices/system/cpu/online
cat /proc/uptime >/.vm/ready
frame ready - /.vm/ready
for dir in /vm/cases/*; do
    [ ! -d "$dir" ] || run_case "$dir"
done
dmesg >/.vm/dmesg
frame dmesg - /.vm/dmesg
echo "MPVM done - 0" >&7
power_off
