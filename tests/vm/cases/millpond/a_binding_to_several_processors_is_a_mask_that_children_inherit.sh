# leaves: nothing
. /words.sh
mask_of() { sed -n 's/^Cpus_allowed_list:[^0-9]*//p' "/proc/$1/status"; }
# Forks on a signal, after its binding.
mkfifo /tmp/go
sh -c 'read -r _ </tmp/go; sleep 1000 & echo $! >/tmp/child; wait' &
pid=$!
need pbind -c 1,3 $pid
want "process id $pid: was not bound, now 1,3" "$said" "what pbind says"
want 1,3 "$(mask_of $pid)" "the mask"
echo go >/tmp/go
until [ -s /tmp/child ]; do sleep 0.1; done
child=$(cat /tmp/child)
need pbind -q $pid $child
want "process id $pid: 1,3
process id $child: 1,3" "$said" "the bindings"
refused 1 psradm -f 3 <<END
psradm: cannot take processor 3 off-line: threads are bound to it: $pid/$pid, $child/$child
hint: unbind them first: pbind -u $pid $child; or add -F
END
refused 1 pbind -c 1,$cpus $pid <<END
pbind: cannot bind process $pid to processor $cpus: there is no such CPU (this machine has 0-$((cpus - 1)))
END
want 1,3 "$(mask_of $pid)" "the mask after what was refused"
in_order
# With -F both threads may run anywhere, and psradm reports that their bindings ended.
need psradm -F -f 3
need pbind -q $pid $child
want "process id $pid: not bound
process id $child: not bound" "$said" "the bindings after psradm -F"
need psradm -n 3
want "0-$((cpus - 1))" "$(mask_of $pid)" "the mask at the end"
in_order
kill $child $pid
