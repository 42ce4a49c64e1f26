# leaves: nothing
. /words.sh
state before
need psrset -c 2-3
state made
write $root/mpset1/cpuset.cpus.partition member
says "breach: the kernel does not keep others out: its partition is switched off" doctor
want 1 $status "status of doctor"
says "/mpset1/cpuset.cpus.partition" doctor
# Any command that makes a change also repairs it.
need psradm -n 0
state now
same made now "after the next command"
write $root/mpset1/cpuset.cpus.partition member
write $root/mpset1/cpuset.cpus 3-4
says "breach: its CPUs are \`3-4\` instead of \`2-3\`" doctor
need doctor --repair
state now
same made now "after doctor --repair"
need psrset -d 1
state again
same before again "after psrset -d"
