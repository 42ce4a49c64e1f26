# Without both lists, ENOSPC. Then a process moved into the cpuset is confined.
cd /sys/fs/cgroup/cpuset
mkdir set
sleep 1000 &
need_fail sh -c "echo $! >set/tasks"
want "sh: write error: No space left on device" "$said"
write set/cpuset.cpus 2-3
need_fail sh -c "echo $! >set/tasks"
write set/cpuset.mems 0
write set/tasks $!
want 2-3 "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/$!/status)" "cpus of the process"
