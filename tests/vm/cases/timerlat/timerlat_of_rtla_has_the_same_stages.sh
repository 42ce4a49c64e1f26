# limit_s: 240
# leaves: nothing
. /words.sh
program=/opt/rtla/usr/bin/rtla
[ -x $program ] || skip "rtla could not be had"
loader=$(ls /opt/rtla/usr/lib64/ld-linux-x86-64.so.2 /opt/rtla/lib64/ld-linux-x86-64.so.2 2>/dev/null | head -n 1)
rtla() {
    $loader --library-path /opt/rtla/usr/lib/x86_64-linux-gnu:/opt/rtla/lib/x86_64-linux-gnu $program "$@"
}
# In one guest one after the other, for one of them can wait for the timers of a processor: ours first.
need latstat --timerlat --cpu 2 --keep-others --interval 1ms --duration 5 --save run
echo "$said"
status=0
rtla timerlat hist -u -c 2 -p 1000 -d 5s -P f:31 -b 1 -E 100000 --no-index >rtla.out 2>rtla.err || status=$?
cat rtla.out rtla.err
want 0 $status "status of rtla"
fail x
