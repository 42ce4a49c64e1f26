# The hybrid layout: cpusets and CPU shares belong to v1, the v2 tree has no controllers.
for controller in $(cat /sys/fs/cgroup/unified/cgroup.controllers); do
    case $controller in cpuset | cpu) fail "v2 has the controller $controller" ;; esac
done
[ -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us ] || fail "the cpu hierarchy has no quota"
mkdir /sys/fs/cgroup/unified/group
write /sys/fs/cgroup/unified/group/cgroup.procs $$
want /group "$(sed -n 's/^0:://p' /proc/self/cgroup)"
