# With the configuration: removes what the commands and services wrote outside the package. What the administrator added to a unit stays.

rm -rf /run/millpond /var/log/pool /var/lib/millpond
rm -f /etc/pooladm.conf
# Profiles of fences, and fences that come back at boot.
rm -rf /etc/millpond
for unit in gauge millpond-fences millpond-pools millpond-record poold schedd; do
    rm -f "/etc/systemd/system/multi-user.target.wants/$unit.service"
done
# Made by `poolbind --persist`.
for file in /etc/systemd/system/*.d/50-millpond-pool.conf; do
    [ -f "$file" ] || continue
    rm -f "$file"
    rmdir --ignore-fail-on-non-empty "$(dirname "$file")"
done
