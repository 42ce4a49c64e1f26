# leaves: nothing
. /words.sh
sleep 1000 &
pid=$!
state before 1 $pid
need psrset -c 2-3
need psrset -b 1 $pid
state made 1 $pid
want "processor 3 taken off-line." "$(psradm -v -f 3 2>notes)"
want_file /sys/devices/system/cpu/cpu3/online 0
since=$(psrinfo 3)
case $since in "3	off-line  since "*) ;; *) fail "psrinfo says $since" ;; esac
need psrset -p 3
want "processor 3: 1" "$said"
refused 1 psradm -f 2 <<'END'
psradm: cannot take processor 2 off-line: it is the last one on-line in set 1
END
want_file /sys/devices/system/cpu/cpu2/online 1
want "processor 3 already off-line." "$(psradm -v -f 3)"
in_order
usleep 1100000
want "$since" "$(psrinfo 3)" "psrinfo a second later"
want "processor 3 brought on-line." "$(psradm -v -n 3 2>notes)"
back=$(psrinfo 3)
[ "${back#*since}" != "${since#*since}" ] || fail "since when it is on-line: $back"
in_order
state now 1 $pid
same made now "when it is back"
need psradm -v -s 3
need psrinfo -s 3
says "3	spare" psrinfo 3
need psradm -n 3
state now 1 $pid
same made now "when the spare is back"
need psrset -d 1
state again 1 $pid
same before again "after psrset -d"
kill $pid
