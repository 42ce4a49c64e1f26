# limit_s: 300
# leaves: nothing
. /timerlat.sh
# Every sample has its stages, which add up to the total. Histograms keep three digits.
whole() {
    for _row in irq thread user total; do
        _is=$(row $_row "$2")
        want "$1" "${_is% *}" "samples of $_row"
        eval "_$_row=${_is#* }"
    done
    awk "BEGIN { stages = $_irq + $_thread + $_user; exit !(stages > $_total * 0.99 && stages < $_total * 1.01) }" ||
        fail "stages are $_irq, $_thread and $_user ns together, the whole is $_total"
}

# An odd previous value, so that its restoration is visible.
write $tracing/osnoise/timerlat_period_us 1234
write $tracing/osnoise/stop_tracing_total_us 54321
write $tracing/osnoise/print_stack 777
settings before.set
state before

need latstat --timerlat --cpu 2 --interval 2ms --samples 300 --save run
case $said in
*"by timerlat, each 2 ms: thread is wake-up and on-cpu together; user ends when the thread asks for the next timer"*) ;;
*) fail "it does not say what its rows are: $said" ;;
esac
echo "$said"
whole 300 run
settings now.set
same before.set now.set "settings at the end"
state now
same before now "at the end"

# The stages of each of the longest waits add up to the total, to the nanosecond.
sed 's/.*"worst"://; s/"at_ns"/\n&/g' run | grep total_ns >worst
[ "$(wc -l <worst)" -ge 10 ] || fail "there are not 10 longest waits: $(cat worst)"
sed 's/.*"total_ns":\([0-9]*\),"stages_ns":\[\([0-9]*\),null,\([0-9]*\),\([0-9]*\)\].*/\1 \2 \3 \4/' worst |
    awk '$1 != $2 + $3 + $4 || NF != 4 { exit 1 }' || fail "stages are not the whole: $(cat worst)"

# It only resumes runs of its own kind.
need latstat --timerlat --cpu 2 --samples 100 --resume run
whole 400 run
need_fail latstat --cpu 2 --samples 100 --resume run
case $said in
*"cannot go on with saved run run: it was measured by timerlat"*"--timerlat goes on with it"*) ;;
*) fail "it goes on: $said" ;;
esac

# The tracing file system need not be mounted.
need unshare -m sh -c 'umount /sys/kernel/tracing; umount /sys/kernel/debug; [ ! -d /sys/kernel/tracing/instances ] && latstat --timerlat --cpu 2 --samples 100 --save hidden'
whole 100 hidden
settings now.set
same before.set now.set "settings without a mount"

# With other threads on the CPU, and alternating with another program.
need latstat --timerlat --cpu 2 --samples 100 --keep-others --save shared
whole 100 shared
if command -v cyclictest >/dev/null; then
    need latstat --timerlat --cpu 2 --duration 4 --compare cyclictest
    case $said in *"interleaved with cyclictest (1 turn each)"*) ;; *) fail "no table: $said" ;; esac
    settings now.set
    same before.set now.set "settings after turns"
fi

# If another program uses one of the two tracers, it is refused, and that tracer is not changed.
mkdir $tracing/instances/theirs
write $tracing/instances/theirs/current_tracer timerlat
refused 1 latstat --timerlat --cpu 2 --samples 100 <<'END'
latstat: cannot make a place to measure: the tracer timerlat is on already, in the trace instance theirs
hint: one of osnoise and timerlat works at a time: wait until rtla, or another user of it, has ended
END
want_file $tracing/instances/theirs/current_tracer timerlat
write $tracing/instances/theirs/current_tracer nop
rmdir $tracing/instances/theirs
settings now.set
same before.set now.set "settings after a refusal"
state now
same before now "after everything"
write $tracing/osnoise/timerlat_period_us 1000
write $tracing/osnoise/stop_tracing_total_us 0
write $tracing/osnoise/print_stack 0
