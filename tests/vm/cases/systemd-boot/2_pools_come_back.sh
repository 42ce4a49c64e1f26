# limit_s: 600
. /systemd-words.sh
within 120 systemctl -q is-active millpond-pools.service
# With several units, systemctl is satisfied with one active unit.
within 120 systemctl -q is-active shop.service
within 120 systemctl -q is-active store.service
want 'webset 2' "$(poolstat -r pset -o rset,size | awk '$1 == "webset" { print $1, $2 }')" 'the set and its size'
# The set existed before its member: the service recorded its CPUs when it started.
want 2-3 "$(cat /run/shop.began)" 'where the service that was kept might run as it began'
case $(cat /proc/$(systemctl show -P MainPID shop.service)/cgroup) in
0::/mpset1.slice/shop.service) ;;
*) fail "the service that was kept stands in $(cat /proc/$(systemctl show -P MainPID shop.service)/cgroup)" ;;
esac
# poold binds the other one in place, as soon as it exists.
within 120 systemctl -q is-active poold.service
store=$(systemctl show -P MainPID store.service)
within 60 sh -c "grep -q '^Cpus_allowed_list:.2-3\$' /proc/$store/status"
# poold also narrows cgroups that appeared meanwhile.
tries=0
while millpond doctor | grep -q 'not as the sets want it'; do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || fail "doctor says: $(millpond doctor); poold says: $(cat /var/log/pool/poold; journalctl -u poold.service --no-pager)"
    sleep 1
done
# systemd watches poold and restarts it.
first=$(systemctl show -P MainPID poold.service)
kill -9 $first
within 120 runs_anew poold.service "$first"
need systemctl reload poold.service
need systemctl stop poold.service
want 0 "$(systemctl show -P ExecMainStatus poold.service)" 'the status of poold when it is stopped'
journalctl -u poold.service --no-pager | grep -q 'poold NOTICE: exiting' || grep -q 'poold NOTICE: exiting' /var/log/pool/poold
