# limit_s: 600
. /systemd-words.sh
within 120 systemctl -q is-active millpond-pools.service
# Of several units it is enough for systemctl that one is active.
within 120 systemctl -q is-active shop.service
within 120 systemctl -q is-active store.service
want 'webset 2' "$(poolstat -r pset -o rset,size | awk '$1 == "webset" { print $1, $2 }')" 'the set and its size'
# It was there before its member was: the first thing that the service saw.
want 2-3 "$(cat /run/shop.began)" 'where the service that was kept might run as it began'
case $(cat /proc/$(systemctl show -P MainPID shop.service)/cgroup) in
0::/mpset1.slice/shop.service) ;;
*) fail "the service that was kept stands in $(cat /proc/$(systemctl show -P MainPID shop.service)/cgroup)" ;;
esac
# The other one is bound where it stands, as soon as it does: by poold.
within 120 systemctl -q is-active poold.service
store=$(systemctl show -P MainPID store.service)
within 60 sh -c "grep -q '^Cpus_allowed_list:.2-3\$' /proc/$store/status"
# What appeared meanwhile is asked aside by poold, too.
tries=0
while millpond doctor | grep -q 'not as the sets want it'; do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || fail "doctor says: $(millpond doctor); poold says: $(cat /var/log/pool/poold; journalctl -u poold.service --no-pager)"
    sleep 1
done
# poold is watched, and comes back.
first=$(systemctl show -P MainPID poold.service)
kill -9 $first
within 120 runs_anew poold.service "$first"
need systemctl reload poold.service
need systemctl stop poold.service
want 0 "$(systemctl show -P ExecMainStatus poold.service)" 'the status of poold when it is stopped'
journalctl -u poold.service --no-pager | grep -q 'poold NOTICE: exiting' || grep -q 'poold NOTICE: exiting' /var/log/pool/poold
