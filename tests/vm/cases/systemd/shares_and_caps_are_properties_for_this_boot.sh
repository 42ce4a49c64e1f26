# limit_s: 600
# A unit's shares and cap are its properties, set by drop-ins for this boot. They persist across a reload, a restart of systemd
# and a restart of the unit. After deletion nothing is left, and the values of the unit's files apply again.
. /systemd-words.sh
service web
at=$root/system.slice/web.service
drop_ins=/run/systemd/system.control/web.service.d
kept=/etc/systemd/system.control/web.service.d
has() { # when quota weight: the kernel, the properties and what is remembered
    want_file $at/cpu.max "$2"
    want_file $at/cpu.weight "$3"
    echo "$1: $2, $3; $(ls $drop_ins 2>/dev/null | tr '\n' ' ')"
}
controls() { # what the cpu controller shows of the unit and its slice
    for file in $root/cgroup.subtree_control $root/system.slice/cgroup.subtree_control $at/cpu.max $at/cpu.weight $at/cpu.idle; do
        [ ! -e $file ] || grep -H '' $file
    done
    systemctl show -p CPUWeight -p CPUQuotaPerSecUSec web.service
    find /run/systemd/system.control /etc/systemd/system.control -type f 2>/dev/null | sort | xargs -r grep -H ''
}
quota() {
    systemctl show -P CPUQuotaPerSecUSec web.service
}

need prctl -n zone.cpu-cap -v 150 -r -i zone web.service
need prctl -n zone.cpu-shares -v 20 -r -i zone web.service
want '50-CPUQuota.conf 50-CPUWeight.conf' "$(ls $drop_ins | tr '\n' ' ' | sed 's/ $//')" 'the drop-ins'
want 1.500000s "$(quota | sed 's/^1.5s$/1.500000s/')" 'the property'
want 2000 "$(systemctl show -P CPUWeight web.service)" 'the weight'
has 'set' '150000 100000' 2000
need systemctl daemon-reload
has 'after a reload' '150000 100000' 2000
need systemctl daemon-reexec
has 'after another start of systemd' '150000 100000' 2000
need systemctl restart web.service
has 'after a restart of the unit' '150000 100000' 2000
need systemctl stop web.service
need millpond doctor
case $said in *"all is in order"*) ;; *) fail "doctor says: $said" ;; esac
need systemctl start web.service
has 'stopped and started' '150000 100000' 2000
need prctl -P -n zone.cpu-cap -i zone web.service
case $said in *'zone.cpu-cap privileged 150 - deny -'*) ;; *) fail "prctl says $said" ;; esac
# Refused: not possible for units.
need_fail prctl -n zone.cpu-cap -v 10 -i zone other.service
need prctl -n zone.cpu-shares -v 0 -r -i zone web.service
want_file $at/cpu.idle 1
need prctl -n zone.cpu-shares -v 2 -r -i zone web.service
want_file $at/cpu.idle 0
want_file $at/cpu.weight 200
need prctl -n zone.cpu-shares -x -i zone web.service
need zonecfg -z web.service remove capped-cpu
is_gone $drop_ins || fail "left: $(ls $drop_ins)"
want infinity "$(quota)" 'the property in the end'

# A slice is a project.
need prctl -n project.cpu-cap -v 300 -r -i project system.slice
want_file $root/system.slice/cpu.max '300000 100000'
need systemctl daemon-reload
want_file $root/system.slice/cpu.max '300000 100000'
need prctl -n project.cpu-cap -x -i project system.slice
want_nothing_left

# The administrator's setting for every boot is restored afterwards; until then ours applies.
need systemctl set-property web.service CPUQuota=70%
controls >before
cat before
need prctl -n zone.cpu-cap -v 30 -r -i zone web.service
want_file $at/cpu.max '30000 100000'
need systemctl daemon-reload
# A file in /etc hides a file of the same name in /run. doctor reports this, and its repair or the next change sets the value
# again.
want_file $at/cpu.max '70000 100000'
need_fail millpond doctor
case $said in *"not as the sets want it: "*web.service*) ;; *) fail "doctor says: $said" ;; esac
need millpond doctor --repair
want_file $at/cpu.max '30000 100000'
need systemctl daemon-reload
need prctl -n zone.cpu-shares -v 3 -r -i zone web.service
want_file $at/cpu.max '30000 100000'
need prctl -n zone.cpu-shares -x -i zone web.service
need prctl -n zone.cpu-cap -x -i zone web.service
controls >after
cmp before after || fail "what the administrator kept is not as before: $(diff before after)"
need systemctl daemon-reload
want_file $at/cpu.max '70000 100000'
rm -rf $kept
need systemctl daemon-reload

# The same for foreign settings for this boot.
need systemctl set-property --runtime web.service CPUQuota=60%
controls >before
need prctl -n zone.cpu-cap -v 30 -r -i zone web.service
need prctl -n zone.cpu-cap -x -i zone web.service
controls >after
cmp before after || fail "what others set for this boot is not as before: $(diff before after)"
rm -rf $drop_ins
need systemctl daemon-reload

# A process of a unit gets a scope, and returns.
worker=$(systemctl show -P MainPID web.service)
need prctl -n process.cpu-cap -v 20 -r -i process $worker
in_cgroup $worker /system.slice/mpcap-$worker-1.scope
want_file $root/system.slice/mpcap-$worker-1.scope/cpu.max '20000 100000'
need systemctl daemon-reload
want_file $root/system.slice/mpcap-$worker-1.scope/cpu.max '20000 100000'
need prctl -n process.cpu-cap -x -i process $worker
in_cgroup $worker /system.slice/web.service
within 20 is_gone $root/system.slice/mpcap-$worker-1.scope

# Dedicated CPUs, until the unit is stopped.
need zonecfg -z web.service 'add dedicated-cpu; set ncpus=2; end'
worker=$(systemctl show -P MainPID web.service)
has=$(cpus_of $worker)
case $has in 0-7) fail "the unit may run everywhere" ;; esac
need systemctl daemon-reload
want "$has" "$(cpus_of $worker)" 'where the unit may run after a reload'
need poolstat
case $said in *SUNWtmp_web.service*) ;; *) fail "poolstat says $said" ;; esac
need systemctl stop web.service
within 20 is_gone $at
poold -l INFO 2>poold.said &
daemon=$!
within 150 sh -c 'poolstat >pools.now && ! grep -q SUNWtmp pools.now'
kill $daemon
wait $daemon || true
cat poold.said
is_gone $at || fail "the cgroup of the unit that has ended was made again"
need pooladm -d
want_nothing_left
need millpond doctor
