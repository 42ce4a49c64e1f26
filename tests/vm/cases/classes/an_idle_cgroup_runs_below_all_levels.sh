# limit_s: 300
# leaves: nothing
. /classes.sh
# cpu.idle is reported from 6.19 on. Threads of such a group, or below one, run where nothing else wants to, and have their class again afterwards.
kernel_at_least 6 19 || skip "this kernel reports no cpu.idle"
group outer
controlled=$(cat $shares/cgroup.subtree_control)
write $shares/cgroup.subtree_control +cpu
write $shares/outer/cgroup.subtree_control +cpu
mkdir $shares/outer/inner
# One group is idle before the scheduler is loaded.
write $shares/outer/cpu.idle 1
is_fx() {
    priocntl -d $idle | grep -q "^ *$idle  *20  *20"
}
starts_schedd --whole
sh -c 'while :; do :; done' &
idle=$!
sh -c 'while :; do :; done' &
other=$!
for pid in $idle $other; do taskset -p 1 $pid >/dev/null; done
need priocntl -s -c FX -m 20 -p 20 $idle
write $shares/outer/inner/cgroup.procs $idle
sleep 2
uses $idle
[ $used -le 5 ] || fail "an idle group uses $used percent of a CPU"
write $shares/outer/cpu.idle 0
within 60 is_fx
uses $idle
[ $used -gt 5 ] || fail "a group that is idle no longer uses $used percent of a CPU"
kill $idle $other
for pid in $idle $other; do within 20 _is_gone $pid; done
within 20 rmdir $shares/outer/inner
ungroup outer
case " $controlled " in *" cpu "*) ;; *) write $shares/cgroup.subtree_control -cpu ;; esac
no_complaints
stops_schedd
