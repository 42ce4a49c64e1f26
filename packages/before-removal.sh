# Before the program is removed: refuses while processor sets exist, because no other program can put back what they changed.
# Then stops the services, disables pools, which have no sets, and undoes what a killed command left unfinished.

sets=$(millpond psrset -i 2>/dev/null) || sets=
if [ -n "$sets" ]; then
    echo "millpond: cannot remove the package: processor sets exist:" >&2
    echo "$sets" >&2
    echo "hint: stop poold and millpond-pools, or run millpond pooladm -d; millpond fence --off NAME takes down fences, and millpond psrset -d SET destroys other sets" >&2
    exit 1
fi
if [ -d /run/systemd/system ]; then
    systemctl stop gauge.service millpond-fences.service millpond-record.service poold.service schedd.service millpond-pools.service >/dev/null 2>&1 || :
fi
millpond pooladm -d >/dev/null 2>&1 || :
millpond doctor --repair >/dev/null 2>&1 || :
