# limit_s: 180
# leaves: nothing
# A fence that ended leaves nothing behind that makes a CPU look like one that we took off-line.
. /words.sh
switch() { echo "$2" >"/sys/devices/system/cpu/cpu$1/online"; }
state before
need millpond fence --name job 2-3
need millpond fence --off job
need psrset -c 2 3
switch 3 0
silent "not as the sets want it: proc:irq" doctor
masks() { cat /proc/irq/default_smp_affinity /proc/irq/[0-9]*/smp_affinity /sys/devices/virtual/workqueue/cpumask; }
masks >masks.before
doctor --repair >/dev/null || true
masks >masks.after
same masks.before masks.after "after the repair"
switch 3 1
need psrset -d 1
# A fence that ends while one of its CPUs is off-line, does not shelter that CPU when it comes back.
need millpond fence --name job 2-3
switch 3 0
says "CPU 3 is off-line" millpond fence
need millpond fence --off job
switch 3 1
need doctor --repair
says on-line psrinfo 3
state after
same before after "at the end"
