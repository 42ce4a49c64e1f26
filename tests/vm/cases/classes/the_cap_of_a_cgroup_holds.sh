# limit_s: 600
# leaves: nothing
. /classes.sh
# cpu.max of a cgroup, and of one around it, holds for threads that schedd runs, in each class, after changes and while CPUs go.
starts_schedd --whole
spin 4
set -- $spinners
group outer
controlled=$(cat $shares/cgroup.subtree_control)
write $shares/cgroup.subtree_control +cpu
write $shares/outer/cgroup.subtree_control +cpu
mkdir $shares/outer/inner
for pid in $1 $2 $3 $4; do write $shares/outer/inner/cgroup.procs $pid; done
need priocntl -s -c FX -m 30 -p 30 $1
need priocntl -s -c IA $2
in_group="$1 $2 $3 $4"

write $shares/outer/cpu.max '20000 100000'
uses_about 20 $in_group
write $shares/outer/inner/cpu.max '50000 100000'
uses_about 20 $in_group
write $shares/outer/inner/cpu.max '10000 100000'
uses_about 10 $in_group
# Another period, and time of one period that may be used later.
write $shares/outer/inner/cpu.max 'max 100000'
write $shares/outer/cpu.max '6000 20000'
uses_about 30 $in_group
if [ "$cpus" -gt 1 ]; then
    for cpu in 1 2 3; do write /sys/devices/system/cpu/cpu$cpu/online 0; done
    uses_about 30 $in_group
    for cpu in 1 2 3; do write /sys/devices/system/cpu/cpu$cpu/online 1; done
    want enabled "$(cat /sys/kernel/sched_ext/state)" "after CPUs went and came"
fi
uses_about 30 $in_group
# One whose threads wait is asked to end, and ends.
kill $3
within 20 _is_gone $3
# What moves out has no cap any more, nor has a group whose cap was taken away.
write $shares/cgroup.procs $4
uses $4
[ $used -gt 20 ] || fail "one that moved out uses $used percent of a CPU"
write $shares/outer/cpu.max 'max 20000'
uses $1 $2
[ $used -gt 35 ] || fail "without a cap they use $used percent of a CPU"
kill $1 $2 $4
for pid in $1 $2 $4; do within 20 _is_gone $pid; done
within 20 rmdir $shares/outer/inner
ungroup outer
case " $controlled " in *" cpu "*) ;; *) write $shares/cgroup.subtree_control -cpu ;; esac
no_complaints
stops_schedd
