# leaves: nothing
. /words.sh
state before
need psrset -c 2-3
need psrset -c 1
rmdir $root/mpset1
# A set is its cgroup. Without the cgroup there is no set, and its CPUs are in the default set.
need psrset
want "user processor set 2: processor 1" "$said"
refused 1 psrset -a 1 2 <<'END'
psrset: cannot assign to processor set 1: there is no such processor set
hint: psrset -i lists the sets that exist
END
# Since Linux 7.0 kernel threads keep the masks that the set gave them. doctor may only report these.
millpond doctor >told || { ! grep 'not as the sets want it: ' told | grep -v ' kthread:' || fail "$(cat told)"; need doctor --repair; }
in_order
rmdir $root/mpset2
says "not as the sets want it: " doctor
need doctor --repair
in_order
state again
same before again "after the repair"
