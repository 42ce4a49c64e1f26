# limit_s: 400
# leaves: nothing
. /classes.sh
starts_schedd --whole --audit
spin 8
set -- $spinners
pbind -b 1 $1 >/dev/null
pbind -b 2 $2 >/dev/null
turn=0
while [ $turn -lt 4 ]; do
    for cpu in 1 2 3; do
        echo 0 >/sys/devices/system/cpu/cpu$cpu/online
    done
    for cpu in 1 2 3; do
        echo 1 >/sys/devices/system/cpu/cpu$cpu/online
    done
    turn=$((turn + 1))
done
want enabled "$(cat /sys/kernel/sched_ext/state)" "after CPUs came and went"
# All threads still run.
runs $spinners
pbind -u $1 $2 >/dev/null
# Change sets at the same time.
turn=0
while [ $turn -lt 3 ]; do
    id=$(psrset -c 1 2 | sed -n 's/^created processor set \([0-9]*\)$/\1/p')
    psrset -b "$id" $1 >/dev/null
    psrset -d "$id" >/dev/null
    turn=$((turn + 1))
done
want enabled "$(cat /sys/kernel/sched_ext/state)" "after sets were made and removed"
stops_schedd
