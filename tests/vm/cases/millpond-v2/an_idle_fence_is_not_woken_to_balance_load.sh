# limit_s: 240
# leaves: nothing
# A CPU that is idle when a fence takes it is not woken to balance the load of other CPUs.
. /words.sh
# SCHED softirqs of CPUs 2 and 3 so far, the larger number.
balanced() { awk '$1 == "SCHED:" { print ($4 > $5 ? $4 : $5) }' /proc/softirqs; }
loads=
for cpu in 0 0 1 1; do
    taskset -c $cpu sh -c 'while :; do :; done' &
    loads="$loads $!"
done
# All other CPUs are idle, and these are the first of them.
for turn in 1 2 3; do
    sleep 1
    need taskset -c 0 millpond fence --name job 2-3
    sleep 1
    before=$(balanced)
    sleep 4
    count=$(($(balanced) - before))
    echo "figure: $count SCHED softirqs in 4 s on the worse of two fenced CPUs"
    [ $count -le 8 ] || fail "$count SCHED softirqs in 4 s"
    need millpond fence --off job
done
kill $loads
