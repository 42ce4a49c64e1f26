# limit_s: 1500
# leaves: anything
# The tests of the agent with a real containerd. On a host they run without exclusion; here pools exclude other tasks (cgroup
# version 2).
. /words.sh
[ -x /opt/containers/containerd ] || skip "containerd cannot be had here" "allow the download of Debian's packages"
mkdir -p /containers /etc /var/lib /var/log
mount -t tmpfs tmpfs /containers
echo '127.0.0.1 localhost' >/etc/hosts
: >/etc/resolv.conf
# The kubelet needs its own address.
ip addr add 192.0.2.10/24 dev lo
export TMPDIR=/containers MILLPOND_NODE_TOOLS=/opt/containers MILLPOND_BIN_MILLPOND=/usr/local/bin/millpond PATH=/opt/containers:$PATH
[ ! -x /opt/containers/bin/kubelet ] || export MILLPOND_KUBERNETES=/opt/containers
need node-tests --nocapture --test-threads 1 newest killed follows fence kubelet
