# The root cannot lose all CPUs: the write succeeds, and the file reads as invalid.
cd /sys/fs/cgroup
write cgroup.subtree_control +cpuset
mkdir set
write set/cpuset.cpus 0-$((cpus - 1))
write set/cpuset.cpus.partition root
case $(cat set/cpuset.cpus.partition) in
"root invalid"*) ;;
*) fail "the partition file reads $(cat set/cpuset.cpus.partition)" ;;
esac
want_file cpuset.cpus.effective 0-$((cpus - 1))
need_fail sh -c 'echo something >set/cpuset.cpus.partition'
want "sh: write error: Invalid argument" "$said"
