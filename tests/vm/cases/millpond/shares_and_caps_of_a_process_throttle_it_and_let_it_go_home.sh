# A cap removes CPU time: the kernel counts throttled periods, and prstat and poolstat show them. A process with a cap has a
# cgroup of its own, and returns to its original cgroup together with its children.
# limit_s: 400
# leaves: nothing
. /words.sh
throttled() { # group
    sed -n 's/^nr_throttled //p' "$shares/$1/cpu.stat"
}
grows() { # group
    _was=$(throttled "$1")
    within 100 sh -c "[ \$(sed -n 's/^nr_throttled //p' $shares/$1/cpu.stat) -gt $_was ]"
}
group web
state before
spin 1
worker=${spinners# }
sh -c 'sleep 1000 & echo $! >child; wait' &
parent=$!
within 20 test -s child
child=$(cat child)
into web $worker $parent $child
state there 1 $worker $parent $child
# The cap of the group.
need prctl -n zone.cpu-cap -v 10 -i zone /web
grows web
says 'zone.cpu-cap' prctl -i process $worker
# Over an interval the tables show the cap, and time used and lost. Their columns: two words of a name, SHARES, CAP%, USED%,
# LOST%, PERIODS.
is_told() { # command...
    "$@" >told || fail "\`$*\` ended with status $?: $(cat told)"
    awk '$1 == "zone" && $2 == "/web" && $4 == 10 && $5 + 0 > 0 && $6 + 0 > 0 && $7 + 0 > 0 { found = 1 } END { exit !found }' told
}
tries=0
until is_told prstat -c --caps 5 2; do
    tries=$((tries + 1))
    [ $tries -lt 5 ] || fail "prstat --caps shows no lost time: $(cat told)"
done
# The cap is the cause of the wait, and the recommended command is accepted.
need millpond diagnose --for 3s $worker
case $said in
*"zone /web has a cap of 10 % of one CPU"*) ;;
*) fail "diagnose does not name the cap: $said" ;;
esac
remedy=$(printf '%s\n' "$said" | sed -n 's/^ *may help: \(prctl .*\)/\1/p' | head -n 1)
[ -n "$remedy" ] || fail "diagnose advises no command: $said"
need $remedy
need prctl -n zone.cpu-cap -x -i zone /web
state again 1 $worker $parent $child
same there again 'when the cap of the group is deleted'
# A cap of a process: the group is created, and later children of the process are in it, too.
need prctl -n process.cpu-cap -v 10 -i process $worker
capped mpcap-$worker 10
grows mpcap-$worker
[ "$cgroup" = v2 ] && place="0::/mpcap-$worker" || place="cpu,cpuacct:/mpcap-$worker"
grep -q ":*$place\$" /proc/$worker/cgroup || fail "process $worker is in $(cat /proc/$worker/cgroup)"
says 'process.cpu-cap privileged 10 - deny -' prctl -P -n process.cpu-cap -i process $worker
need prctl -n process.cpu-shares -v 5 -i process $parent
weighs mpcap-$parent 5
want "" "$(grep mpcap /proc/$child/cgroup || true)" 'where a child is that was there before'
in_order
need pooladm -e
tries=0
is_told_of() {
    poolstat --caps 5 2 >told || fail "poolstat --caps ended with status $?: $(cat told)"
    awk -v pid="$worker" '$1 == "process" && $2 == pid && $4 == 10 && $6 + 0 > 0 { found = 1 } END { exit !found }' told
}
until is_told_of; do
    tries=$((tries + 1))
    [ $tries -lt 5 ] || fail "poolstat --caps shows no lost time: $(cat told)"
done
need pooladm -d
need prctl -n process.cpu-cap -x -i process $worker
need prctl -n process.cpu-shares -x -i process $parent
state again 1 $worker $parent $child
same there again 'when the processes are home'
# When the process ends, the next change removes its group.
need prctl -n process.cpu-cap -v 10 -i process $worker
kill $worker
wait $worker || true
in_order
need prctl -n zone.cpu-shares -v 2 -i zone /web
[ ! -e $shares/mpcap-$worker ] || fail "the group of a process that ended is left"
need prctl -n zone.cpu-shares -x -i zone /web
if [ "$cgroup" = v2 ]; then
    # On version 2 cgroup and set are the same.
    need psrset -c 1
    need psrset -b 1 $parent
    refused 1 prctl -n process.cpu-cap -v 10 -i process $parent <<END
prctl: cannot set process.cpu-cap of process $parent: it is in the group of set 1, and a process has one group only
hint: unbind it from its set first (psrset -u $parent)
END
    need psrset -d 1
fi
kill $parent $child
within 20 sh -c "[ -z \"\$(cat $shares/web/cgroup.procs)\" ]"
state after
same before after 'in the end'
ungroup web
