# The kernel removes it from the list, and does not restore it.
cd /sys/fs/cgroup/cpuset
mkdir set
write set/cpuset.cpus 2-3
write set/cpuset.mems 0
write /sys/devices/system/cpu/cpu3/online 0
within 10 sh -c '[ "$(cat set/cpuset.cpus)" = 2 ]'
write /sys/devices/system/cpu/cpu3/online 1
within 10 sh -c '[ "$(cat cpuset.cpus)" = 0-3 ]'
want_file set/cpuset.cpus 2
