# limit_s: 600
. /systemd-words.sh
# With several units, systemctl is satisfied with one active unit.
within 120 systemctl -q is-active shop.service
within 120 systemctl -q is-active store.service
within 120 sh -c 'systemctl is-failed -q millpond-pools.service'
need_fail pooladm
case $said in
*'Facility is not active'*) ;;
*) fail "pooladm says: $said" ;;
esac
for name in shop store; do
    want 0-7 "$(cpus_of $(systemctl show -P MainPID $name.service))" "where $name may run"
done
journal=$(journalctl -u millpond-pools.service --no-pager)
case $journal in
*'/etc/pooladm.conf:2:1: '*) ;;
*) fail "the journal does not say what is wrong, but: $journal" ;;
esac
want '' "$(psrset -i)" 'sets'
