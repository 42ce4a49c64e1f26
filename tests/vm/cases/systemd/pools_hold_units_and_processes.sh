# limit_s: 600
. /systemd-words.sh
kernel_at_least 6 7 || skip 'this kernel has no remote partitions'
service one
one=$pid
service two
two=$pid
sleep 100000 &
mine=$!
need pooladm -e
need poolcfg -d -c '
    create pset webset ( uint pset.max = 4 ; uint pset.min = 1 )
    create pool web
    associate pool web ( pset webset )
    transfer to pset webset ( cpu 2 )
    create pset shopset ( uint pset.max = 4 ; uint pset.min = 1 )
    create pool shop
    associate pool shop ( pset shopset )
    transfer to pset shopset ( cpu 4 )'
need poolbind -p web $mine
need poolbind -p shop --unit one.service
want 2 "$(cpus_of $mine)" 'where the process may run'
want 4 "$(cpus_of $one)" 'where the first service may run'
want "$mine	web" "$(poolbind -q $mine)" 'the pool of the process'
# Programs started through it are in the pool, too.
poolbind -p web -e sleep 100000 &
started=$!
within 20 sh -c "grep -q '^Cpus_allowed_list:.2\$' /proc/$started/status"
# Both grow while systemd reloads its units.
need systemctl daemon-reload
need poolcfg -d -c 'transfer to pset webset ( cpu 3 ) transfer to pset shopset ( cpu 5 )'
need systemctl daemon-reload
want 2-3 "$(cpus_of $mine)" 'where the process may run then'
want 2-3 "$(cpus_of $started)" 'where what was started may run then'
want 4-5 "$(cpus_of $one)" 'where the first service may run then'
# A second unit: both are steered by their properties.
need poolbind -p shop --unit two.service
want 4-5 "$(cpus_of $two)" 'where the second service may run'
need poolcfg -d -c 'transfer to pset shopset ( cpu 6 )'
want 4-6 "$(cpus_of $one)" 'where the first service may run with three'
want 4-6 "$(cpus_of $two)" 'where the second service may run with three'
# A restarted unit is bound again, at the latest by the next command.
need systemctl restart two.service
two=$(systemctl show -P MainPID two.service)
need poolcfg -d -c 'modify pool shop ( int pool.importance = 5 )'
want 4-6 "$(cpus_of $two)" 'where the second service may run after it was started again'
# From its next start on, a unit is in the slice of the pool.
need poolbind -p web --unit two.service --persist
within 20 test -e /etc/systemd/system/two.service.d/50-millpond-pool.conf
need systemctl restart two.service
two=$(systemctl show -P MainPID two.service)
want 2-3 "$(cpus_of $two)" 'where it may run in the other pool, started again'
case $(cat /proc/$two/cgroup) in
0::/mpset1.slice/two.service) ;;
*) fail "it stands in $(cat /proc/$two/cgroup)" ;;
esac
need poolbind -p pool_default --unit two.service --persist
is_gone /etc/systemd/system/two.service.d/50-millpond-pool.conf || fail 'the drop-in is still there'
need systemctl restart two.service
two=$(systemctl show -P MainPID two.service)
kill $started
need pooladm -d
for pid in $mine $one $two; do
    want 0-7 "$(cpus_of $pid)" "where $pid may run in the end"
done
kill $mine
need systemctl stop one.service two.service
want_nothing_left
need millpond doctor
