# limit_s: 90
# leaves: nothing
# SCHED_DEADLINE threads have reserved bandwidth, and the kernel keeps all CPUs that are needed for it. Here the threads together
# reserve more than all CPUs but one can provide; without any one of them the rest fits.
. /words.sh
# 95 % of each CPU can be reserved, from 6.12 on 90 %: the rest is the fair server's. With many CPUs each thread must reserve
# almost all of that, otherwise all threads fit on the other CPUs.
share=84
if [ "$cpus" -gt 8 ]; then
    case $(uname -r) in
    [1-5].* | 6.[0-9].* | 6.1[01].*) share=94 ;;
    *) share=89 ;;
    esac
fi
promised() {
    chrt -d -T ${share}000000 -D 100000000 -P 100000000 0 "$@" &
    within 20 sh -c "chrt -p $! | grep -q SCHED_DEADLINE"
}
state before
# One computes, the others sleep.
promised sh -c 'while :; do :; done'
first=$!
sleepers=
n=1
while [ $n -lt "$cpus" ]; do
    promised sleep 1000
    sleepers="$sleepers $!"
    n=$((n + 1))
done
need_fail psradm -f 1
want 1 $status "status of psradm -f"
echo "$said"
case $said in
"psradm: cannot take processor 1 off-line: the kernel has promised its time to threads $first/$first (sh), "*" (SCHED_DEADLINE)
hint: end them; or give them another class while they compute, not while they sleep: chrt -o -p 0 $first") ;;
*) fail "psradm says: $said" ;;
esac
state now
same before now "after the refusal"
# Two CPUs are one change. The kernel refuses the first one, the change is undone, and then each CPU is tried alone.
need_fail psradm -f 1 2
want 1 $status "status of psradm -f 1 2"
case $said in
"psradm: cannot take processor 1 off-line: the kernel has promised its time to "*"
psradm: cannot take processor 2 off-line: the kernel has promised its time to "*) ;;
*) fail "psradm -f 1 2 says: $said" ;;
esac
state now
same before now "after both refusals"
# The hint works: another class for a thread that computes. Its reservation ends with its period.
need chrt -o -p 0 "$first"
within 20 psradm -f 1
need psradm -n 1
kill "$first"
wait "$first" || true
# So does the end of a thread that sleeps.
promised sleep 1000
last=$!
need_fail psradm -f 1
kill "$last"
wait "$last" || true
within 20 psradm -f 1
need psradm -n 1
for sleeper in $sleepers; do
    kill "$sleeper"
    wait "$sleeper" || true
done
state again
same before again "at the end"
