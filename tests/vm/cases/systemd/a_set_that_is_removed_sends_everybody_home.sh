# limit_s: 600
. /systemd-words.sh
home=$(sed 's/^0:://' /proc/self/cgroup)
need psrset -c 5
need psrset -c 6 7
sleep 100000 &
sleeper=$!
service one
need psrset -b 1 $sleeper
need psrset -b 1 $pid
need psrset -b 2 $sleeper
in_cgroup $sleeper /mpset2.slice/mpset2-$sleeper-1.scope
in_cgroup $pid /mpset1.slice/mpset1-$pid-1.scope
need psrset -d 1
in_cgroup $pid /system.slice/one.service
want active "$(systemctl is-active one.service)" one.service
need psrset -d 2
in_cgroup $sleeper "$home"
kill $sleeper
need systemctl stop one.service
want_nothing_left
