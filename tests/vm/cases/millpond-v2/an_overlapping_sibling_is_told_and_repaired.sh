# leaves: nothing
. /words.sh
mkdir $root/other
need psrset -c 2-3
write $root/other/cpuset.cpus 1-2
if kernel_at_least 7 0; then
    # On these kernels the partition stays valid, and the sibling gets the remaining CPUs.
    want_file $root/mpset1/cpuset.cpus.partition root
    want_file $root/other/cpuset.cpus.effective 1
    in_order
else
    says "breach: the kernel does not keep others out: group /other lists CPU 2 as well" doctor
    want 1 $status "status of doctor"
    says "not as the sets want it: cg:/other/cpuset.cpus: 1-2 -> 1" doctor
    says "breach: the kernel does not keep others out" psrset -i -v
    says "brought to what the sets want: cg:/other/cpuset.cpus: 1-2 -> 1" doctor --repair
    want 0 $status "status of doctor --repair: $said"
    want_file $root/mpset1/cpuset.cpus.partition root
    want_file $root/mpset1/cpuset.cpus.effective 2-3
    want_file $root/other/cpuset.cpus 1
    in_order
fi
need psrset -d 1
want_file $root/other/cpuset.cpus 1-2
rmdir $root/other
# The controller was enabled for the sibling's list. Now no cgroup has one.
need doctor --repair
