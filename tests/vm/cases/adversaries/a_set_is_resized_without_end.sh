# limit_s: 400
# leaves: nothing
. /classes.sh
starts_schedd --whole --audit
id=$(psrset -c 1 2 3 | sed -n 's/^created processor set \([0-9]*\)$/\1/p')
spin 6
set -- $spinners
for pid in "$@"; do
    psrset -b "$id" $pid >/dev/null
done
need priocntl -s -c FX -m 20 -p 20 $1
need priocntl -s -c IA $2
# Write to the kernel's file what poold would write, without starting a program each time.
cpus=$root/mpset$id/cpuset.cpus
# An emulated machine makes about 80 changes per second.
times=0
while [ $times -lt 3000 ]; do
    for list in 2 2-3 1-2 1-3; do
        echo $list >"$cpus" || fail "cannot write $list"
        times=$((times + 1))
    done
done
want enabled "$(cat /sys/kernel/sched_ext/state)" "after the set was resized: $(cat schedd.said)"
runs $spinners
psrset -d "$id" >/dev/null
stops_schedd
no_complaints
