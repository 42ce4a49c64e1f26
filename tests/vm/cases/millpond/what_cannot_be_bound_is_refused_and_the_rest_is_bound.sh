# leaves: nothing
. /words.sh
sleep 1000 &
pid=$!
sh -c 'exit 0' &
dead=$!
wait $dead
kernel=$(awk '/^PPid:/ && $2 == 2 { split(FILENAME, d, "/"); print d[3]; exit }' /proc/[0-9]*/status)
state before $pid
need psrset -c
refused 1 psrset -b 1 $pid <<END
psrset: cannot bind process $pid to set 1: set 1 is empty
hint: assign CPUs to it first: psrset -a 1
END
need psrset -a 1 2
refused 1 psrset -b 1 $dead $kernel $pid <<END
psrset: cannot bind process $dead to set 1: there is no such process
psrset: cannot bind process $kernel to set 1: it is a kernel thread
process id $pid: was not bound, now 1
END
refused 1 pbind -b 0 $pid <<END
pbind: cannot bind process $pid to processor 0: CPU 0 is in set 0, the thread in set 1
hint: unbind it from its set first: psrset -u $pid
END
refused 1 psrset -c 3 99 3 <<END
psrset: cannot assign processor 99: there is no such CPU (this machine has 0-$((cpus - 1)))
END
refused 1 psrset -c 3 3 <<'END'
psrset: cannot assign processor 3: it is named twice
END
refused 1 psrset -r 2 <<'END'
psrset: cannot remove processor 2: it is the last one in set 1, and threads are bound to that set
hint: unbind them first: psrset -U 1
END
in_order
need psrset -d 1
state again $pid
same before again "at the end"
kill $pid
