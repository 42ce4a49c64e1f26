# Shares and caps are set, shown, replaced, refused and deleted. The kernel's files have each value, and are restored in the end,
# odd values included.
# limit_s: 400
# leaves: nothing
. /words.sh
state before
group web batch
state grouped
need prctl -n zone.cpu-shares -v 20 -r -i zone /web
weighs web 20
need prctl -n zone.cpu-cap -t privileged -v 150 -i zone /web
capped web 150
says 'zone.cpu-shares privileged 20 - none -' prctl -P -i zone /web
says 'zone.cpu-cap privileged 150 - deny -' prctl -P -i zone /web
need prctl -n zone.cpu-cap -i zone /web
want "NAME    PRIVILEGE       VALUE    FLAG   ACTION                       RECIPIENT
zone.cpu-cap
        privileged        150       -   deny                                 -
        system          4.29G     inf   deny                                 -" "$(echo "$said" | tail -n +2)" 'the listing of a cap'
need prctl -n zone.cpu-cap -v 80 -r -i zone /web
capped web 80
refused 1 prctl -n zone.cpu-cap -x -v 70 -i zone /web <<'END'
prctl: cannot delete zone.cpu-cap of zone /web: it has the value 80, not 70
END
capped web 80
need prctl -n zone.cpu-cap -x -v 80 -i zone /web
capped web -
weighs web 20
# Next to a group with more shares than the largest weight, the ratios stay.
need prctl -n zone.cpu-shares -v 400 -r -i zone /batch
case $said in *"400 shares are the largest weight"*) ;; *) fail "what is said of 400 shares: $said" ;; esac
[ "$cgroup" = v2 ] && want_file $shares/batch/cpu.weight 10000 || want_file $shares/batch/cpu.shares 262144
[ "$cgroup" = v2 ] && want_file $shares/web/cpu.weight 500 || want_file $shares/web/cpu.shares 13107
need prctl -n zone.cpu-shares -v 0 -r -i zone /batch
weighs batch 0
weighs web 20
in_order
need prctl -n zone.cpu-shares -x -i zone /batch
need prctl -n zone.cpu-shares -x -i zone /web
state again
same grouped again 'when all controls are deleted'
# zonecfg sets the same controls. Each command line is one change.
need zonecfg -z /web 'add capped-cpu; set ncpus=1.5; end; set cpu-shares=3'
capped web 150
weighs web 3
need zonecfg -z /web info
want 'zonename: /web
[cpu-shares: 3]
capped-cpu:
	[ncpus: 1.50]' "$(echo "$said" | sed '/^rctl:/,$d')" 'info of zonecfg'
refused 1 zonecfg -z /web 'add dedicated-cpu; set ncpus=1; end' <<'END'
zonecfg: cannot set dedicated-cpu of zone /web: it has capped-cpu, and the two exclude each other
hint: remove capped-cpu first
END
need zonecfg -z /web 'remove capped-cpu; clear cpu-shares'
refused 1 zonecfg -z /web remove capped-cpu <<'END'
zonecfg: cannot remove capped-cpu of zone /web: it has none
END
state again
same grouped again 'when zonecfg has removed its caps'
# Foreign values are restored, here an odd one.
[ "$cgroup" != v2 ] || write $shares/cgroup.subtree_control +cpu
if [ "$cgroup" = v2 ]; then
    write $shares/web/cpu.weight 333
    write $shares/web/cpu.max '30000 50000'
else
    write $shares/web/cpu.shares 333
    write $shares/web/cpu.cfs_period_us 50000
    write $shares/web/cpu.cfs_quota_us 30000
fi
state odd
says 'zone.cpu-cap privileged 60 - deny -' prctl -P -n zone.cpu-cap -i zone /web
for change in 'shares -v 7' 'cap -v 250' 'shares -v 0' 'cap -v 1' 'cap -x' 'shares -x'; do
    need prctl -n zone.cpu-$change -i zone /web
done
state again
same odd again 'when what was odd is back'
[ "$cgroup" != v2 ] || write $shares/cgroup.subtree_control -cpu
# Refusals, none of which changes anything.
state still
refused 1 prctl -n zone.cpu-cap -v 10 -i zone nothing <<'END'
prctl: cannot set zone.cpu-cap of zone nothing: there is no such zone
hint: millpond zones lists them
END
refused 1 prctl -n zone.cpu-cap -v 10 -i zone global <<'END'
prctl: cannot set zone.cpu-cap of zone global: it is the whole machine here, which has neither shares nor a cap
hint: set the controls of a unit, a slice or a container
END
refused 1 prctl -n project.cpu-shares -v 10 -i project group.staff <<'END'
prctl: cannot set project.cpu-shares of project group.staff: there is no such project
hint: projects are slices of systemd here (system.slice), and users (user.kim) while they are logged in
END
refused 1 prctl -n process.cpu-cap -v 10 -i process 2 <<'END'
prctl: cannot set process.cpu-cap of process 2: it is a part of the kernel
END
need_fail prctl -n zone.cpu-shares -v 65536 -i zone /web
want 2 $status 'status for too many shares'
if [ "$cgroup" = v2 ]; then
    # Processes directly in a cgroup prevent controllers below it, if the children have processes, too.
    mkdir $shares/web/inner
    sleep 1000 &
    sleepers=$!
    into web $!
    sleep 1000 &
    sleepers="$sleepers $!"
    into web/inner $!
    state still
    refused 1 prctl -n zone.cpu-cap -v 10 -i zone /web/inner <<'END'
prctl: cannot set zone.cpu-cap of zone /web/inner: processes stand directly in /web, so that groups below it get no CPU controller
hint: set the control of that group itself, or move the processes into a group below it
END
    state again
    same still again 'after a change that was refused half-way'
    kill $sleepers
    within 20 rmdir $shares/web/inner
else
    state again
    same still again 'after refusals'
fi
in_order
ungroup web batch
state after
same before after 'in the end'
