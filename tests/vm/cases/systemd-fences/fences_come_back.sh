# limit_s: 600
. /systemd-words.sh
within 120 systemctl -q is-active millpond-fences.service
within 120 systemctl -q is-active shop.service
case $(millpond fence 2>&1) in
*'trading  2-3     1  low-latency  holds  yes '*) ;;
*) fail "fences: $(millpond fence 2>&1); the unit says: $(journalctl -u millpond-fences.service --no-pager)" ;;
esac
# An invalid definition is reported with its position, and does not prevent others.
journalctl -u millpond-fences.service --no-pager | grep -q 'cannot put up fence wrong: line 1, column ' ||
    fail "the unit says: $(journalctl -u millpond-fences.service --no-pager)"
case ,$(cpus_of $(systemctl show -P MainPID shop.service)), in
*[,-]2[,-]* | *[,-]3[,-]* | *,0-[4-7],*) fail "the service may run on $(cpus_of $(systemctl show -P MainPID shop.service))" ;;
esac
# Changes by other programs are corrected, also by a watcher that was killed and restarted.
first=$(systemctl show -P MainPID millpond-fences.service)
kill -9 $first
within 120 runs_anew millpond-fences.service "$first"
mask=/proc/sys/kernel/watchdog_cpumask
fenced=$(cat $mask)
echo 0-7 >$mask
within 60 sh -c "[ \"\$(cat $mask)\" = $fenced ]"
need systemctl stop millpond-fences.service
want 0 "$(systemctl show -P ExecMainStatus millpond-fences.service)" 'the status of the watcher when it is stopped'
case $(millpond fence 2>&1) in *'no daemon watches the fences'*) ;; *) fail "fences: $(millpond fence 2>&1)" ;; esac
need millpond fence --off trading
want 0-7 "$(cpus_of $(systemctl show -P MainPID shop.service))" 'where the service may run afterwards'
