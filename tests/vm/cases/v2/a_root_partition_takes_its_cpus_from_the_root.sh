# A local partition by hand: valid, its CPUs gone from the root's effective list, and back when the directory goes.
cd /sys/fs/cgroup
last=$((cpus - 1))
write cgroup.subtree_control +cpuset
mkdir set
write set/cpuset.cpus $((last - 1))-$last
write set/cpuset.cpus.partition root
want_file set/cpuset.cpus.partition root
want_file set/cpuset.cpus.effective $((last - 1))-$last
want_file cpuset.cpus.effective 0-$((last - 2))

# Whoever was anywhere is kept out, whoever is moved in stays in.
want 0-$((last - 2)) "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)" "cpus of a process in the root"
sleep 1000 &
write set/cgroup.procs $!
want $((last - 1))-$last "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/$!/status)" "cpus of a process in the set"

# Resized in place while it lives.
write set/cpuset.cpus $last
want_file set/cpuset.cpus.partition root
want_file cpuset.cpus.effective 0-$((last - 1))
kill -9 $!
wait
within 10 rmdir set
want_file cpuset.cpus.effective 0-$last
