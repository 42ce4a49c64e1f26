# cpu_exclusive only forbids overlapping siblings: tasks of the root still run there.
cd /sys/fs/cgroup/cpuset
mkdir set other
write set/cpuset.cpus 3
write set/cpuset.mems 0
write set/cpuset.cpu_exclusive 1
want 0-3 "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)" "cpus of a process in the root"
need_fail sh -c 'echo 2-3 >other/cpuset.cpus'
want "sh: write error: Invalid argument" "$said"
write other/cpuset.cpus 2
