# Measures the same under the kernel's scheduler, and under schedd with the standard and with the extended table. Prints one line for each:
# SCHEDULER NAME JSON. The caller sets ROUNDS; COMPILER is yes if there is a compiler, with /unit.i to compile.
set -u
mount -t bpf bpf /sys/fs/bpf 2>/dev/null || true
state() { cat /sys/kernel/sched_ext/state; }
WAKING_BY=
measure() {
    by=$1 name=$2
    shift 2
    # A failed measurement is left out; its error output is shown.
    if said=$($WAKING_BY millpond-benches guest "$@"); then echo "$by $name $said"; fi
}
wakes() {
    by=$1 slice_us=$2
    shift 2
    for busy in "$@"; do measure "$by" "wakes-$busy" wakes "$busy" "$ROUNDS" "$slice_us"; done
}
# The same for a foreground thread of IA; compute-bound threads stay in TS.
wakes_of_ia() {
    WAKING_BY='millpond priocntl -e -c IA -t 1'
    measure ia wakes-0 wakes 0 "$ROUNDS" 0
    for busy in "$@"; do
        millpond load spin --threads "$busy" --seconds 9000 >/dev/null &
        measure ia "wakes-$busy" wakes 0 "$ROUNDS" 0
        kill -9 $!
    done
    WAKING_BY=
}
# The same beside programs that pass messages for as long.
wakes_beside_messages() {
    millpond load hackbench --groups 1 --loops 1000000 >/dev/null &
    measure "$1" wakes-messages wakes 0 "$ROUNDS" 0
    kill -9 $!
}
# More threads than CPUs, which have work for nine tenths of the time.
service() {
    all=
    for seed in $(seq "$ROUNDS"); do
        said=$(millpond load service --threads 16 --rate 450 --work 2 --seed "$seed" --settle 1 --seconds 4 --json) || return 0
        all=$all${all:+,}$said
    done
    echo "$1 service [$all]"
}
costs() {
    measure "$1" exchange exchange "$ROUNDS"
    for busy in 0 4; do measure "$1" "start-$busy" together $busy "$ROUNDS" 1 true; done
    # Three seconds and more: in a shorter one the update of a second comes or not.
    measure "$1" hackbench together 0 "$ROUNDS" 1 millpond load hackbench --groups 1 --loops 800
    if [ "$COMPILER" = yes ]; then measure "$1" build together 0 "$ROUNDS" 8 cc1 -fpreprocessed -quiet -O2 /unit.i -o /dev/null; fi
    service "$1"
}
begin() {
    millpond schedd --whole "$@" &
    schedd=$!
    while [ "$(state)" != enabled ]; do
        [ -d /proc/$schedd ] || exit 1
        sleep 1
    done
}
end() {
    [ "$(state)" = enabled ] || exit 1
    kill $schedd
    wait $schedd
}
wakes eevdf 0 0 1 4 16 300
wakes_beside_messages eevdf
wakes slice 100 0 1 4 16 300
costs eevdf
begin
wakes schedd 0 0 1 4 16 300
wakes_beside_messages schedd
wakes_of_ia 1 4 16 300
costs schedd
# Machine dc3 has the extended table.
millpond dispadmin -c TS -g >standard.txt
millpond dispadmin --machine dc3 -c TS -g >extended.txt
if millpond dispadmin -c TS -s extended.txt; then
    wakes extended 0 4 16 300
    costs extended
    millpond dispadmin -c TS -s standard.txt
fi
end
begin --no-parent-pays
costs spared
end
begin --parity 0
wakes exact 0 4
wakes_beside_messages exact
costs exact
end
