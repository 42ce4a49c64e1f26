# limit_s: 900
# A Debian system without Millpond. The files on its disk are listed; the last case compares them.
. /systemd-words.sh
. /packages-words.sh
# Includes the files that systemd creates at the first boot.
need systemctl start basic.target
listed >/.vm/listed.before
began=$(cut -d ' ' -f 1 /proc/uptime)
need /usr/bin/dpkg --install /packages/*.deb
need millpond fence --name trading 2-3
# Times are meaningless here; only an interruption of ten seconds would fail.
need millpond fence --prove trading --for 5s --max 10s
awk -v began=$began '{ print "from dpkg --install to the proof: " $1 - began " s of the guest" }' /proc/uptime
case $(millpond fence 2>&1) in
*'trading  2-3     1  low-latency  holds  no    10s kept for '*) ;;
*) fail "fences: $(millpond fence 2>&1)" ;;
esac
need psrinfo
want 8 "$(echo "$said" | wc -l)" 'lines of psrinfo'
need millpond quiet --cpu 5 --for 1s
# No service is enabled or started, and names of other packages are not taken.
for unit in millpond-fences millpond-pools poold schedd; do
    want disabled "$(systemctl is-enabled $unit.service 2>&1)" "$unit is enabled"
    want inactive "$(systemctl is-active $unit.service 2>&1)" "$unit runs"
done
[ ! -e /usr/bin/mpstat ] || fail 'there is an mpstat'
need millpond mpstat
need millpond fence --off trading
