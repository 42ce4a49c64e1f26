# leaves: nothing
. /words.sh
state before
refused 1 psrset -c 0-$((cpus - 1)) <<END
psrset: cannot assign processor $((cpus - 1)): it is the last one in the default set
hint: the system itself needs one; give another one back first: psrset -r
END
state now
same before now "after the refusal"
need psrset -c 1-$((cpus - 1))
refused 1 psradm -f 0 <<'END'
psradm: cannot take processor 0 off-line: it is the last one in the default set
hint: the system itself needs one; give another one back first: psrset -r
END
need psrset -f 1
refused 1 psradm -i 0 <<'END'
psradm: cannot set processor 0 to no-intr: it is the last one that takes interrupts
hint: let another one take interrupts first: psradm -n
END
need psrset -n 1
need psrset -d 1
state now
same before now "at the end"
