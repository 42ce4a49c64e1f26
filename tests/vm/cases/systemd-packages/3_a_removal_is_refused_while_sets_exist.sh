# limit_s: 900
. /systemd-words.sh
. /packages-words.sh
need_fail /usr/bin/dpkg --remove millpond
case $said in *'millpond: cannot remove the package: processor sets exist:'*'hint: '*) ;; *) fail "the removal says: $said" ;; esac
case $(millpond fence 2>&1) in *'trading  6-7 '*' holds '*) ;; *) fail "fences: $(millpond fence 2>&1)" ;; esac
want installed "$(dpkg-query -W -f '${db:Status-Status}' millpond)" 'the package'
need millpond fence --off trading
need systemctl stop poold.service
need pooladm -d
need /usr/bin/dpkg --remove $(ours)
want 0-7 "$(cpus_of $(systemctl show -P MainPID shop.service))" 'where the service may run'
[ ! -e /usr/bin/millpond ] || fail 'the program is still there'
