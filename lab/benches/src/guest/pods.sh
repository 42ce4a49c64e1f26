# Prepares directories for containers, and runs the measurement.
mkdir -p /containers /etc /var/lib /var/log
mount -t tmpfs tmpfs /containers
echo '127.0.0.1 localhost' >/etc/hosts
: >/etc/resolv.conf
export TMPDIR=/containers MILLPOND_NODE_TOOLS=/opt/containers PATH=/opt/containers:$PATH
millpond-benches guest pods "$ROUNDS"
