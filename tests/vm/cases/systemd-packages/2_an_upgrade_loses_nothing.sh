# limit_s: 900
# A set, a fence, pools and their daemon, and then a newer package.
. /systemd-words.sh
. /packages-words.sh
service shop
need pooladm -e
need poolcfg -d -c '
    create pset webset ( uint pset.min = 1 ; uint pset.max = 2 )
    create pool web
    associate pool web ( pset webset )
    transfer to pset webset ( cpu 2 )'
need poolbind -p web $pid
need millpond fence --name trading 6-7
need systemctl start poold.service
within 60 systemctl -q is-active poold.service
poold=$(systemctl show -P MainPID poold.service)
cpus=$(cpus_of $pid)
need /usr/bin/dpkg --install /newer.deb
case $said in *'poold still runs as it was started'*) ;; *) fail "the upgrade says: $said" ;; esac
case $(dpkg-query -W -f '${Version}' millpond) in *-1.1) ;; *) fail "it is $(dpkg-query -W millpond)" ;; esac
want $poold "$(systemctl show -P MainPID poold.service)" 'the daemon after the upgrade'
want "$cpus" "$(cpus_of $pid)" 'where the service may run'
case $(millpond fence 2>&1) in *'trading  6-7 '*' holds '*) ;; *) fail "fences: $(millpond fence 2>&1)" ;; esac
need systemctl restart poold.service
within 60 systemctl -q is-active poold.service
