#!/bin/busybox sh
# Runs the cases of /vm/cases in a service of a guest with systemd as process 1, then powers off. The frames are those of init.sh.
# Nothing is restored between cases; each case checks itself what it leaves behind.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox
export HOME=/root LC_ALL=C TERM=dumb RUST_BACKTRACE=1
mkdir -p /busybox /.vm /tmp /root
/bin/busybox --install -s /busybox

power_off() {
    poweroff -f
    while :; do sleep 60; done
}

frame() { # kind name file
    printf 'MPVM %s %s %s\n' "$1" "$2" "$(wc -c <"$3")" >&7
    cat "$3" >&7
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
    echo "millpond-vm: no port to tell results by" >/dev/console
    power_off
}

now_ms() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}0"
}

run_case() { # directory
    name=$(cat "$1/name")
    limit_s=$(cat "$1/limit_s")
    mkdir -p /case /out
    : >/.vm/verdict
    : >/.vm/nothing
    frame begin "$name" /.vm/nothing
    from=$(now_ms)
    (
        cd /case
        export OUT=/out VERDICT=/.vm/verdict CASE="$name"
        exec timeout -k 5 "$limit_s" sh -eu /vm/case.sh "$1/script" 7>&- </dev/null >/.vm/stdout 2>/.vm/stderr
    )
    status=$?
    took=$(($(now_ms) - from))
    [ "$took" -lt $((limit_s * 1000)) ] || [ "$status" -lt 128 ] || echo timed-out >/.vm/verdict
    frame stdout "$name" /.vm/stdout
    frame stderr "$name" /.vm/stderr
    frame left "$name" /.vm/nothing
    if [ -n "$(ls -A /out)" ]; then
        (cd /out && find . | cpio -o -H newc >/.vm/files 2>/dev/null)
        frame files "$name" /.vm/files
    fi
    frame verdict "$name" /.vm/verdict
    printf 'status %s\nguest_ms %s\n' "$status" "$took" >/.vm/end
    frame end "$name" /.vm/end
}

set -a
. /vm/config
set +a
while read -r file; do
    insmod "$file" || echo "millpond-vm: cannot load $file" >/dev/console
done </vm/modules
open_port
cat /proc/uptime >/.vm/ready
frame ready - /.vm/ready
for dir in /vm/cases/*; do
    [ ! -d "$dir" ] || run_case "$dir"
done
dmesg >/.vm/dmesg
frame dmesg - /.vm/dmesg
: >/.vm/nothing
frame done - /.vm/nothing
power_off
