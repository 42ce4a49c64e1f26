# Measures one method to reserve CPUs 4 to 7 of 8 for four jobs that only compute (JOBS=computing) or wake each millisecond (sleeping), while a load runs
# anywhere. The caller sets METHOD, JOBS, ROUNDS and WINDOW_S. /peers is a Debian with the programs of others. Prints the kernel's counters before the first
# window and after each, then the output of the osnoise tracer, if the kernel has it.
# Failures are reported where they matter.
set +e -u
for dir in proc sys dev; do
    mkdir -p /peers/$dir
    mount -o rbind /$dir /peers/$dir
done
mkdir -p /peers/tmp /peers/run /peers/var/log /peers/root
peer() { chroot /peers "$@"; }
echo 1 >/proc/sys/kernel/sched_schedstats

# The load begins before the reservation, as on a machine in use.
load() { while :; do "$@" >/dev/null 2>&1; done; }
load millpond load hackbench --groups 1 --loops 100 &
load millpond load build --jobs 2 --seconds 3600 &
load millpond load stream --nic eth0,eth1 --seconds 3600 &
sleep 4
# The measuring shell must not disturb the reserved CPUs.
taskset -p f $$ >/dev/null

busy='while :; do :; done'
[ $JOBS = computing ] || busy='exec cyclictest --quiet --interval=1000 --policy=other >/dev/null'
jobs() {
    pids=
    for cpu in 4 5 6 7; do
        $1 taskset "$(printf %x $((1 << cpu)))" sh -c "$busy" &
        pids="$pids${pids:+ }$!"
    done
}
case $METHOD in
nothing)
    pids=
    for cpu in 4 5 6 7; do
        taskset ff sh -c "$busy" &
        pids="$pids${pids:+ }$!"
    done
    ;;
taskset | boot | boot_nohz) jobs '' ;;
cset)
    pids=
    peer cset shield --cpu=4-7 --kthread=on || exit 1
    # This shell is now in the set of the other CPUs, from where it cannot set an affinity to the shield.
    for cpu in 4 5 6 7; do
        sh -c "$busy" &
        pids="$pids${pids:+ }$!"
    done
    peer cset shield --shield --pid="$(echo $pids | tr ' ' ,)" || exit 1
    cpu=4
    for pid in $pids; do
        taskset -p "$(printf %x $((1 << cpu)))" $pid >/dev/null || exit 1
        cpu=$((cpu + 1))
    done
    ;;
tuna)
    peer tuna --cpus=4-7 --isolate || exit 1
    peer tuna --irqs='*' --cpus=0-3 --move
    jobs ''
    ;;
tuned)
    echo isolated_cores=4-7 >/peers/etc/tuned/cpu-partitioning-variables.conf
    mkdir -p /peers/run/tuned
    peer tuned --no-dbus --profile cpu-partitioning >/tuned.out 2>&1 &
    tries=0
    until grep -q 'static tuning from profile .* applied' /tuned.out; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { cat /tuned.out; exit 1; } >&2
        sleep 1
    done
    jobs ''
    ;;
bare)
    echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/jobs
    echo 4-7 >/sys/fs/cgroup/jobs/cpuset.cpus
    echo isolated >/sys/fs/cgroup/jobs/cpuset.cpus.partition
    grep -qx isolated /sys/fs/cgroup/jobs/cpuset.cpus.partition || exit 1
    printf 'echo 0 >/sys/fs/cgroup/jobs/cgroup.procs\nexec "$@"\n' >/enter.sh
    jobs 'sh /enter.sh'
    ;;
fence | fence_nohz)
    millpond fence --name jobs 4-7 >&2 || exit 1
    jobs 'psrset -e 1'
    ;;
*) echo "there is no way $METHOD" >&2 && exit 1 ;;
esac
sleep 8

look() {
    echo "== $1 $(cut -d ' ' -f 1 /proc/uptime)"
    cat /proc/interrupts
    grep SCHED: /proc/softirqs
    grep '^cpu' /proc/schedstat
}
spent() { cut -d ' ' -f 14 $(printf '/proc/%s/stat ' $pids) | tr '\n' ' '; }
before=$(spent)
look begin
for n in $(seq "$ROUNDS"); do
    sleep "$WINDOW_S"
    look window
done
echo "== end 0"
echo "jobs: ticks before $before, after $(spent)" >&2
echo "$METHOD: CPUs on which jobs ran last: $(cut -d ' ' -f 39 $(printf '/proc/%s/stat ' $pids) | tr '\n' ' ')" >&2

# The tracer's threads compute instead of the jobs.
cd /sys/kernel/tracing
if grep -q osnoise available_tracers; then
    kill $pids
    sleep 1
    echo 4-7 >osnoise/cpus
    echo osnoise >current_tracer
    sleep $((WINDOW_S * ROUNDS))
    echo 0 >tracing_on
    echo "== osnoise 0"
    grep -v '^#' trace
fi
exit 0
