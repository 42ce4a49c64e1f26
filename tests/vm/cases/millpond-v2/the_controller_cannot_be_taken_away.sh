# leaves: nothing
. /words.sh
state before
need psrset -c 2-3
state made
! { echo -cpuset >$root/cgroup.subtree_control; } 2>/dev/null || fail "the kernel gave the controller away"
state now
same made now "after the attempt"
in_order
need psrset -d 1
state again
same before again "after psrset -d"
