# leaves: nothing
. /words.sh
state before 1
need psrset -c 2-3
state made 1
write /sys/devices/system/cpu/cpu3/online 0
need psrset -p 3
want "processor 3: 1" "$said"
need psrset -i
want "user processor set 1: processor 2" "$said"
says "3	off-line" psrinfo 3
need psradm -n 0
in_order
write /sys/devices/system/cpu/cpu3/online 1
# On version 1 the kernel removes the CPU from the list; the next command restores it.
need psradm -n 0
in_order
state now 1
same made now "when it is back"
# Switch off both CPUs, also the last one.
need psrset -c 1
if { echo 0 >/sys/devices/system/cpu/cpu1/online; } 2>/dev/null; then
    need psrset -i 2
    want "user processor set 2: empty" "$said"
    write /sys/devices/system/cpu/cpu1/online 1
    need psradm -n 0
    in_order
else
    # 6.12 includes the fair server in reserved bandwidth, and refuses if a partition would lose its last CPU.
    case $(uname -r) in 6.12.*) echo "this kernel keeps the last processor of a partition" ;; *) fail "processor 1 stays on-line" ;; esac
fi
need psrset -d 2
state now 1
same made now "after the second set"
need psrset -d 1
state again 1
same before again "after psrset -d"
