# limit_s: 300
# leaves: nothing
kernel_threads=yes
. /words.sh
stands() { [ "$(millpond fence --json 2>/dev/null | grep -c '"name":')" = 1 ]; }
# Also what takes it down has ended: masks of kernel threads come back last.
is_gone() { ! stands && ! grep -qs -e '[-]-after' /proc/[0-9]*/cmdline; }
state before
need millpond fence --plan 2-3
# From 7.0 on the kernel moves them with the partition.
case $said in
*"kernel-threads (low-latency:5)"* | *"kernel-threads: no step is needed"*) ;;
*) fail "the plan names no line for kernel threads: $said" ;;
esac
case $said in *"nohz_full=2-3"*) ;; *) fail "the plan names no parameter: $said" ;; esac
state again
same before again "after a plan"
need millpond fence --name trading 2-3
case $said in *"fence trading: CPUs 2-3, set 1, profile low-latency"*) ;; *) fail "it says: $said" ;; esac
says "trading  2-3     1  low-latency  holds" millpond fence
[ "$cgroup" != v2 ] || want isolated "$(cat $root/mpset1/cpuset.cpus.partition)" "its partition"
for file in /sys/devices/system/cpu/cpu[23]/power/pm_qos_resume_latency_us; do
    [ ! -e "$file" ] || want n/a "$(cat "$file")" "$file"
done
others=0-1
[ "$cpus" = 4 ] || others=0-1,4-$((cpus - 1))
[ ! -e /proc/sys/kernel/watchdog_cpumask ] || want "$others" "$(cat /proc/sys/kernel/watchdog_cpumask)" "CPUs of the watchdog"
# Movable threads that may run there.
_confined_kernel_threads >confined
[ -s confined ] || fail "no kernel thread was moved"
for pid in $(sed 's|^/proc/\([0-9]*\) .*|\1|' confined); do
    list=$(sed -n 's/^Cpus_allowed_list:.//p' "/proc/$pid/status" 2>/dev/null) || continue
    case ",$list," in *[,-]2[,-]* | *[,-]3[,-]* | *,0-3,* | *,1-3,* | *,0-[4-9]*) fail "kernel thread $pid may run on $list" ;; esac
done
refused 1 psrset -d 1 <<END
psrset: cannot remove processor set 1: it belongs to fence trading
hint: take it down first: millpond fence --off trading
END
# A change by another program is reported, and undone by the next command that changes something.
if [ -e /proc/sys/kernel/watchdog_cpumask ]; then
    echo 0-3 >/proc/sys/kernel/watchdog_cpumask
    says "the watchdog cpumask was changed by another program" millpond fence
    says "" doctor --repair
    says "holds" millpond fence
fi
for file in /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask; do
    printf %x $(((1 << cpus) - 1)) >$file
done
says "the default IRQ affinity was changed by another program" millpond fence
says "the unbound workqueue cpumask was changed by another program" millpond fence
says "is broken" millpond fence
says "" doctor --repair
says "holds" millpond fence
if [ "$cgroup" = v2 ]; then
    echo 0 >/sys/devices/system/cpu/cpu3/online
    says "trading: CPU 3 is off-line" millpond fence
    echo 1 >/sys/devices/system/cpu/cpu3/online
    says "" doctor --repair
    says "holds" millpond fence
fi
need millpond fence --off trading
state again
same before again "after the fence"
# The other strand, timers, and settings of the whole machine.
cat >own.toml <<END
summary = "all of it"
others = "isolated"
kernel-threads = true
fair-server = false
[global]
stat-interval-s = 77
timer-migration = false
END
need millpond fence --name deep --profile ./own.toml --smt off --flush --global 2
want 77 "$(cat /proc/sys/vm/stat_interval)" vm.stat_interval
server=/sys/kernel/debug/sched/fair_server/cpu2/runtime
[ ! -e $server ] || want 0 "$(cat $server)" "the fair server of CPU 2"
want 1 "$(cat /sys/devices/system/cpu/cpu2/online)" "CPU 2"
[ "$threads" != 2 ] || want 0 "$(cat /sys/devices/system/cpu/cpu3/online)" "the other strand"
says "deep   2       1  own      holds" millpond fence
need millpond fence --off deep
state again
same before again "after the fence with everything"
says "stat-interval-s: a setting of the whole machine, which --global changes" millpond fence --plan --profile ./own.toml 2
says "cannot fence processor 999: there is no such CPU" millpond fence --name x --smt off 999
# While pools are enabled, the fence is the set of a pool.
need pooladm -e
need millpond fence --name trading 2-3
sleep 1000 &
sleeper=$!
need poolbind -p trading $sleeper
says "Cpus_allowed_list:	2-3" grep Cpus_allowed_list "/proc/$sleeper/status"
says "it belongs to fence trading" pooladm -d
need millpond fence --off trading
says "$sleeper	pool_default" poolbind -q $sleeper
kill $sleeper
wait $sleeper 2>/dev/null || true
says "Cpus_allowed_list:	2-3" millpond fence 2-3 grep Cpus_allowed_list /proc/self/status
within 30 is_gone
need pooladm -d
state again
same before again "after a fence with pools"
# A fence for the duration of a command.
status=0
said=$(millpond fence 2-3 sh -c 'sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status; exit 7' 2>&1) || status=$?
want 7 $status "status of the command ($said)"
case $said in *2-3*) ;; *) fail "the command ran on $said" ;; esac
within 30 is_gone
state again
same before again "after the command"
# The settings that the command inherits.
cat >quiet.toml <<END
summary = "no surprises"
others = "out"
l3-ways = 2
[command]
huge-pages = false
numa-balancing = false
END
says "THP_enabled:	0" millpond fence --profile ./quiet.toml 2-3 grep THP_enabled /proc/self/status
within 30 is_gone
if [ -e /proc/self/numa_maps ]; then
    says " local " millpond fence --profile ./quiet.toml 2-3 head -n 1 /proc/self/numa_maps
    within 30 is_gone
fi
says "huge-pages (./quiet.toml:5)" millpond fence --plan --profile ./quiet.toml 2
says "l3-ways: resctrl is not mounted, or this machine has none" millpond fence --plan --profile ./quiet.toml 2
says "numa-balancing (./quiet.toml:6) is left out" millpond fence --dry-run --name x --profile ./quiet.toml 2
millpond fence 2-3 sleep 1000 &
command=$!
# After exec of the command the fence is complete. Another case kills a fence while it goes up.
runs() { [ "$(cat /proc/$command/comm)" = sleep ]; }
within 30 runs
stands || fail "no fence stands"
kill -KILL $command
wait $command 2>/dev/null || true
within 30 is_gone
state again
same before again "after the command was killed"
