# Since 6.8 the cpumask of unbound workqueues excludes the CPUs of an isolated partition. The boot-time list never shows them.
[ -e /sys/fs/cgroup/cpuset.cpus.isolated ] || skip "this kernel has no cpuset.cpus.isolated"
cd /sys/fs/cgroup
write cgroup.subtree_control +cpuset
mkdir fence
write fence/cpuset.cpus 3
write fence/cpuset.cpus.partition isolated
want_file fence/cpuset.cpus.partition isolated
want_file cpuset.cpus.isolated 3
want_file /sys/devices/system/cpu/isolated ""
mask=$((0x$(tr -d , </sys/devices/virtual/workqueue/cpumask)))
want 0 $((mask & 8)) "cpu 3 in the workqueue mask"
