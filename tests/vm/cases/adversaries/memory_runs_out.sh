# limit_s: 300
# leaves: nothing
. /classes.sh
grep -qw memory $root/cgroup.controllers || skip "no controller of memory"
starts_schedd --whole
spin 4
grep -qw memory $root/cgroup.subtree_control || { echo +memory >$root/cgroup.subtree_control; touch was_off; }
mkdir $root/eater
echo 64M >$root/eater/memory.max
turn=0
while [ $turn -lt 5 ]; do
    status=0
    sh -c "echo \$\$ >$root/eater/cgroup.procs; exec awk 'BEGIN { s = \"0123456789abcdef\"; while (1) s = s s }'" || status=$?
    want 137 $status "status of a process without memory"
    turn=$((turn + 1))
done
rmdir $root/eater
[ ! -e was_off ] || echo -memory >$root/cgroup.subtree_control
want enabled "$(cat /sys/kernel/sched_ext/state)" "after memory ran out: $(cat schedd.said)"
stops_schedd
