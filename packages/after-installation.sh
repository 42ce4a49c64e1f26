# After an installation or an upgrade: systemd reads the units. None is enabled, started or restarted: a restart of millpond-pools would
# destroy the sets of pools, and poold goes on with the program that it was started from.

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
    for service in millpond-fences poold schedd; do
        if systemctl --quiet is-active "$service.service" 2>/dev/null; then
            echo "millpond: $service still runs as it was started; hint: systemctl restart $service"
        fi
    done
fi
