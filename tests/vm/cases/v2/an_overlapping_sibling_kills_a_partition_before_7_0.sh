# Another program adds one of a partition's CPUs to a sibling's list.
cd /sys/fs/cgroup
write cgroup.subtree_control +cpuset
mkdir set other
write set/cpuset.cpus 2-3
write set/cpuset.cpus.partition root
want_file set/cpuset.cpus.partition root
write other/cpuset.cpus 1-2
if kernel_at_least 7 0; then
    want_file set/cpuset.cpus.partition root
    want_file set/cpuset.cpus.effective 2-3
    want_file other/cpuset.cpus.effective 1
else
    case $(cat set/cpuset.cpus.partition) in
    "root invalid"*) ;;
    *) fail "the partition file reads $(cat set/cpuset.cpus.partition)" ;;
    esac
    want_file cpuset.cpus.effective 0-$((cpus - 1))
fi
