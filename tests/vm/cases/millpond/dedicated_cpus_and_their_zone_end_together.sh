# CPUs that are dedicated to a zone are a temporary pool. It persists across other configurations, is in no file, and ends with
# its zone, also when poold was not running at that time.
# limit_s: 700
# leaves: nothing
. /words.sh
allowed() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"
}
member_of_db() {
    group db
    sleep 1000 &
    member=$!
    into db $member
}
db_ends() {
    kill $member
    wait $member || true
    ungroup db
}
dedicate() {
    need zonecfg -z /db 'add dedicated-cpu; set ncpus=2; set importance=10; end'
    says SUNWtmp__db poolstat
}
has_no_pool() {
    poolstat >pools.now && ! grep -q SUNWtmp pools.now
}
# Masks of a node's kernel threads stay when a partition ends, once they were set. We restore them, not the kernel.
need millpond fence --name calm 2-3
need millpond fence --off calm
state before
member_of_db
all=$(allowed $member)
state there 1 $member
refused 1 zonecfg -z /nothing 'add dedicated-cpu; set ncpus=2; end' <<'END'
zonecfg: cannot read zone /nothing: there is no such zone
hint: millpond zones lists them
END
need_fail zonecfg -z /db 'add dedicated-cpu; set ncpus=100; end'
state still 1 $member
same there still 'after CPUs that there are not'
dedicate
has=$(allowed $member)
size=$(poolstat | awk '$2 == "SUNWtmp__db" { print $3 }')
want 2 "$size" 'the size of its pool'
case $has in "$all" | '') fail "the zone may run on $has" ;; esac
need zonecfg -z /db info dedicated-cpu
want 'dedicated-cpu:
	ncpus: 2
	importance: 10' "$said" 'what is dedicated'
says SUNWtmp__db millpond zones
in_order
refused 1 zonecfg -z /db 'add capped-cpu; set ncpus=1; end' <<'END'
zonecfg: cannot set capped-cpu of zone /db: it has dedicated-cpu, and the two exclude each other
hint: remove dedicated-cpu first
END
refused 1 zonecfg -z /db 'add dedicated-cpu; set ncpus=1; end' <<'END'
zonecfg: cannot add dedicated-cpu of zone /db: it has one already
hint: select dedicated-cpu changes it
END
need pooladm -s "$PWD/saved.conf"
! grep -q SUNWtmp saved.conf || fail "a temporary pool is in the file: $(cat saved.conf)"
need pooladm -c "$PWD/saved.conf"
want "$has" "$(allowed $member)" 'where the zone may run after another configuration'
need zonecfg -z /db 'select dedicated-cpu; set ncpus=1; end'
want 1 "$(poolstat | awk '$2 == "SUNWtmp__db" { print $3 }')" 'the size of its pool then'
need zonecfg -z /db remove dedicated-cpu
want "$all" "$(allowed $member)" 'where the zone may run when nothing is dedicated'
has_no_pool || fail "a pool is left: $(cat pools.now)"
# The zone ends while poold is not running; poold starts later.
dedicate
db_ends
says SUNWtmp__db poolstat
poold -l INFO 2>poold.said &
daemon=$!
within 150 has_no_pool
in_order
# The next one ends while poold is running.
member_of_db
dedicate
db_ends
within 150 has_no_pool
kill $daemon
wait $daemon || want 0 $? 'status of poold when it is asked to stop'
# The next zonecfg removes it, too.
member_of_db
dedicate
db_ends
group web
need zonecfg -z /web 'set cpu-shares=2'
has_no_pool || fail "a pool is left after zonecfg: $(cat pools.now)"
need zonecfg -z /web clear cpu-shares
ungroup web
need pooladm -d
in_order
state after
same before after 'in the end'
