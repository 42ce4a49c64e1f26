# A manual local partition: it is valid, its CPUs leave the root's effective list, and return when the directory is removed.
cd /sys/fs/cgroup
last=$((cpus - 1))
write cgroup.subtree_control +cpuset
mkdir set
write set/cpuset.cpus $((last - 1))-$last
write set/cpuset.cpus.partition root
want_file set/cpuset.cpus.partition root
want_file set/cpuset.cpus.effective $((last - 1))-$last
want_file cpuset.cpus.effective 0-$((last - 2))

# Existing tasks are excluded, and tasks moved in are confined.
want 0-$((last - 2)) "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)" "cpus of a process in the root"
sleep 1000 &
write set/cgroup.procs $!
want $((last - 1))-$last "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/$!/status)" "cpus of a process in the set"

# Resize it while it exists.
write set/cpuset.cpus $last
want_file set/cpuset.cpus.partition root
want_file cpuset.cpus.effective 0-$((last - 1))
kill -9 $!
wait
within 10 rmdir set
want_file cpuset.cpus.effective 0-$last
