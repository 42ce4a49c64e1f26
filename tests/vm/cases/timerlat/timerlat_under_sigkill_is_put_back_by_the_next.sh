# limit_s: 240
# leaves: nothing
. /timerlat.sh
write $tracing/osnoise/timerlat_period_us 1234
write $tracing/osnoise/stop_tracing_us 4321
settings before.set
state before

# During the measurement the settings are its own.
timerlat_begins --interval 3ms
want_file $tracing/osnoise/timerlat_period_us 3000
want_file $tracing/osnoise/stop_tracing_us 0
grep -q NO_OSNOISE_WORKLOAD $tracing/osnoise/options || fail "threads of the kernel's own: $(cat $tracing/osnoise/options)"
want nop "$(cat $tracing/current_tracer)" "the tracer of everybody's trace"
# A second one reports the owner of the tracer.
refused 1 latstat --timerlat --cpu 3 --samples 5 <<END
latstat: cannot make a place to measure: the tracer timerlat is on already, in the trace instance millpond-$latstat
hint: one of osnoise and timerlat works at a time: wait until rtla, or another user of it, has ended
END

# On SIGTERM it prints its results and restores everything.
kill -TERM $latstat
status=0
wait $latstat || status=$?
want 0 $status "status of latstat that was asked to stop: $(cat latstat.err)"
grep -q '^thread ' latstat.out || fail "no row of its stages: $(cat latstat.out)"
settings now.set
same before.set now.set "settings after that"
state now
same before now "after that"

# After a kill the next command restores everything.
timerlat_begins --interval 3ms
kill -KILL $latstat
wait $latstat 2>/dev/null || true
[ -d $tracing/instances/millpond-$latstat ] || fail "the trace instance went with it"
says "process $latstat was killed: CPU 2, which it had for itself, was put back, and the settings of the tracer timerlat" psradm -n 0
want 0 $status "status of the next command: $said"
settings now.set
same before.set now.set "settings after the next command"
state now
same before now "after the next command"
silent "was killed" psradm -n 0

# Foreign changes made meanwhile are kept.
timerlat_begins --interval 3ms
kill -KILL $latstat
wait $latstat 2>/dev/null || true
write $tracing/osnoise/timerlat_period_us 2222
says "another program set timerlat_period_us of the tracer timerlat to 2222 meanwhile: that is left alone" psradm -n 0
want_file $tracing/osnoise/timerlat_period_us 2222
want_file $tracing/osnoise/stop_tracing_us 4321

# The tracer is not ended while its trace is read.
write $tracing/osnoise/timerlat_period_us 1234
settings now.set
same before.set now.set "settings that were theirs"
timerlat_begins --interval 3ms
! echo nop 2>/dev/null >$tracing/instances/millpond-$latstat/current_tracer || fail "the tracer can be ended"
kill -TERM $latstat
wait $latstat || fail "it ends with status $?: $(cat latstat.err)"
settings now.set
same before.set now.set "settings at the end"

# When its CPU goes off-line it ends, too. The last CPU of a partition cannot go off-line.
timerlat_begins --interval 3ms --keep-others
write /sys/devices/system/cpu/cpu2/online 0
status=0
wait $latstat || status=$?
write /sys/devices/system/cpu/cpu2/online 1
want 1 $status "status of latstat whose processor went: $(cat latstat.err)"
grep -q 'latstat: cannot measure latency: its CPU went off-line' latstat.err || fail "it says: $(cat latstat.err)"
grep -q '^thread ' latstat.out || fail "nothing is shown: $(cat latstat.out)"
need millpond doctor --repair
settings now.set
same before.set now.set "settings after a processor that went off-line"
state now
same before now "at the end"
write $tracing/osnoise/timerlat_period_us 1000
write $tracing/osnoise/stop_tracing_us 0
