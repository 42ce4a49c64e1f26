# Measures the same things under the kernel's own scheduler and under schedd. One line for each: SCHEDULER NAME JSON.
# ROUNDS is set by the caller; PROGRAMS names what else can be measured: hackbench, build (a compiler and /unit.i).
set -u
mount -t bpf bpf /sys/fs/bpf 2>/dev/null || true
state() { cat /sys/kernel/sched_ext/state; }
measure() {
    by=$1 name=$2
    shift 2
    said=$(millpond-benches guest "$@") && echo "$by $name $said"
}
wakes() {
    for busy in 0 1 4 16 300; do measure "$1" "wakes-$busy" wakes $busy "$ROUNDS" "$2"; done
}
costs() {
    measure "$1" exchange exchange "$ROUNDS"
    for busy in 0 4; do measure "$1" "start-$busy" together $busy "$ROUNDS" 1 true; done
    for program in $PROGRAMS; do
        case $program in
        hackbench) measure "$1" hackbench together 0 "$ROUNDS" 1 hackbench -g 1 -l 100 ;;
        build) measure "$1" build together 0 "$ROUNDS" 8 cc1 -quiet -O2 /unit.i -o /dev/null ;;
        esac
    done
}
wakes eevdf 0
wakes slice 100
costs eevdf
millpond schedd --whole &
schedd=$!
while [ "$(state)" != enabled ]; do
    [ -d /proc/$schedd ] || exit 1
    sleep 1
done
wakes schedd 0
costs schedd
[ "$(state)" = enabled ] || exit 1
kill $schedd
wait $schedd
