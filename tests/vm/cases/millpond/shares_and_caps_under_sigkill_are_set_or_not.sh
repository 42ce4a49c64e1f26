# limit_s: 900
# leaves: nothing
. /killing.sh
group web
killed_anywhere 'prctl -n zone.cpu-cap -x -i zone /web' prctl -n zone.cpu-cap -v 50 -i zone /web
sleep 1000 &
watched=$!
into web $watched
killed_anywhere "prctl -n process.cpu-shares -x -i process $watched" prctl -n process.cpu-shares -v 7 -i process $watched
# Dedicated CPUs are one change: enabling pools, and moving the zone into its pool.
killed_anywhere 'pooladm -d' zonecfg -z /web 'add dedicated-cpu; set ncpus=2; end'
kill $watched
watched=
within 20 sh -c "[ -z \"\$(cat $shares/web/cgroup.procs)\" ]"
ungroup web
