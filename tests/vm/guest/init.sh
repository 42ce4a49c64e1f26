#!/bin/busybox sh
# The guest's first process. Sets the machine up as /vm/config says, runs the cases of /vm/cases in order, and powers off.
# It tells the host by frames (src/frames.rs) on the port named millpond.results. Nothing here may end this process but the power.

# Our own programs come first, then what the image holds, then busybox.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox
export HOME=/root LC_ALL=C TERM=dumb RUST_BACKTRACE=1
/bin/busybox --install -s /busybox

power_off() {
    poweroff -f
    # The kernel may return from this before the machine is gone.
    while :; do sleep 60; done
}

# A failure before there is a port can only be told on the console.
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
            # Only these two are what a hybrid machine is about.
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
    [ "$(nproc)" = "$cpus" ] || refuse "the kernel runs $(nproc) of $cpus cpus"
    count=0
    for nic in /sys/class/net/eth*; do [ ! -e "$nic" ] || count=$((count + 1)); done
    [ "$count" = "$nics" ] || refuse "the kernel sees $count of $nics network cards"
}

# --- putting back ---------------------------------------------------------------------------------------------------

# Kernel files that a case may change, one per line; each is remembered at boot.
knobs() {
    for file in /proc/irq/default_smp_affinity /proc/irq/[0-9]*/smp_affinity /sys/devices/virtual/workqueue/cpumask \
        /sys/devices/virtual/workqueue/*/cpumask /sys/class/net/*/queues/*/rps_cpus /sys/class/net/*/queues/*/xps_cpus \
        /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us /sys/fs/cgroup/cpuset/cpuset.sched_load_balance; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# A line `pid/name mask` for each kernel thread whose CPUs a case may change. Workers are the kernel's own business, and the threads
# of interrupts follow these.
kernel_threads() {
    grep -s -E '^(Name|Kthread|VmSize|Cpus_allowed):' /proc/[0-9]*/status | awk '
        { split($1, part, ":"); split(part[1], dir, "/"); pid = dir[3] }
        part[2] == "Name" { name[pid] = $2 }
        part[2] == "VmSize" { user[pid] = 1 }
        part[2] == "Cpus_allowed" { mask[pid] = $2 }
        END { for (pid in mask) if (pid > 1 && !user[pid] && name[pid] !~ /^(kworker|irq)\//) print pid "/" name[pid], mask[pid] }' | sort
}

remember() {
    knobs | while read -r file; do
        value=
        read -r value 2>/dev/null <"$file" && echo "$file $value"
    done >/.vm/knobs
    kernel_threads >/.vm/threads
    ls /sys/class/net >/.vm/links
    cat /proc/mounts >/.vm/mounts
}

left() {
    echo "$*" >>/.vm/left
}

# Kills everything but this process; those that were killed last may still be on their way out.
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

put_back() {
    : >/.vm/left
    kill_all
    for file in /sys/devices/system/cpu/cpu[0-9]*/online; do
        state=1
        [ ! -e "$file" ] || read -r state <"$file"
        [ "$state" = 1 ] && continue
        cpu=${file#/sys/devices/system/cpu/cpu}
        left "cpu ${cpu%/online} off-line"
        echo 1 >"$file" || left "cpu ${cpu%/online} cannot be brought back"
    done
    for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
        [ -e "$root/cgroup.procs" ] && [ ! -e "$root/cgroup.type" ] || continue
        case $cgroup$root in
        v2/sys/fs/cgroup | v1-hybrid/sys/fs/cgroup/*) ;;
        *) continue ;;
        esac
        [ ! -L "$root" ] || continue
        # Not a pipe: kill_all would end the other side of it.
        find "$root" -mindepth 1 -depth -type d >/.vm/directories
        while read -r dir; do
            left "cgroup $dir"
            remove_cgroup "$dir"
        done </.vm/directories
        [ -e "$root/cgroup.subtree_control" ] || continue
        for controller in $(cat "$root/cgroup.subtree_control"); do
            left "controller $controller in $root"
            echo "-$controller" >"$root/cgroup.subtree_control"
        done
    done
    # Cards come home when their namespace is gone.
    tries=0
    while [ $tries -lt 200 ]; do
        away=
        while read -r link; do [ -e "/sys/class/net/$link" ] || away=$link; done </.vm/links
        [ -n "$away" ] || break
        tries=$((tries + 1))
        usleep 20000
    done
    [ -z "${away:-}" ] || left "link $away is away"
    for link in $(ls /sys/class/net); do
        grep -qx "$link" /.vm/links && continue
        left "link $link"
        ip link del "$link" 2>/dev/null
    done
    while read -r file was; do
        now=
        [ ! -e "$file" ] || read -r now 2>/dev/null <"$file" || continue
        [ "$now" = "$was" ] && continue
        left "$file ${now:-gone}, was $was"
        echo "$was" 2>/dev/null >"$file"
    done </.vm/knobs
    kernel_threads >/.vm/threads.now
    while read -r thread was; do
        now=$(grep -F "$thread " /.vm/threads.now) || continue
        now=${now##* }
        [ "$now" = "$was" ] && continue
        left "thread $thread $now, was $was"
        taskset -p "$was" "${thread%%/*}" >/dev/null 2>&1
    done </.vm/threads
    tac /proc/mounts >/.vm/mounts.now
    while read -r dev dir rest; do
        grep -qF "$dev $dir " /.vm/mounts && continue
        left "mount $dir"
        umount -l "$dir"
    done </.vm/mounts.now
    rm -rf /run/* /tmp/* /dev/shm/*
}

# --- cases ----------------------------------------------------------------------------------------------------------

now_ms() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}0"
}

run_case() { # directory
    name=$(cat "$1/name")
    limit_s=$(cat "$1/limit_s")
    rm -rf /case /out
    mkdir -p /case /out
    : >/.vm/verdict
    : >/.vm/nothing
    echo "<4>millpond-vm: begin $name" >/dev/kmsg
    frame begin "$name" /.vm/nothing
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
    frame stdout "$name" /.vm/stdout
    frame stderr "$name" /.vm/stderr
    frame left "$name" /.vm/left
    if [ -n "$(ls -A /out)" ]; then
        (cd /out && find . | cpio -o -H newc >/.vm/files 2>/dev/null)
        frame files "$name" /.vm/files
    fi
    frame verdict "$name" /.vm/verdict
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
cat /proc/uptime >/.vm/ready
frame ready - /.vm/ready
for dir in /vm/cases/*; do
    [ ! -d "$dir" ] || run_case "$dir"
done
dmesg >/.vm/dmesg
frame dmesg - /.vm/dmesg
frame done - /.vm/nothing
power_off
