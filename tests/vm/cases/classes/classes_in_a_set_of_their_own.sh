# limit_s: 300
# leaves: nothing
. /classes.sh
starts_schedd
id=$(psrset -c 2 3 | sed -n 's/^created processor set \([0-9]*\)$/\1/p')
spin 6
set -- $spinners
for pid in "$@"; do
    psrset -b "$id" $pid >/dev/null
done
need priocntl -s -c FX -m 20 -p 20 $1 $2
need priocntl -s -c FX -m 10 -p 10 $3 $4 $5 $6
want 7 "$(policy_of $1)" "its policy"
is_alone() {
    running_on | awk -v a=$1 -v b=$2 '{ at[$1] = $2 } END { exit !(at[a] + at[b] == 5 && at[a] != at[b]) }'
}
# The two threads with better levels occupy the two CPUs of the set.
within 30 is_alone $1 $2
# A thread with a lower level is overdue and runs, too.
runs $3
# With one CPU less they share it, in slices.
need psrset -r "$id" 3
sleep 3
want enabled "$(cat /sys/kernel/sched_ext/state)" "after a CPU left the set"
runs $1 $2
stops_schedd
psrset -d "$id" >/dev/null
