# limit_s: 300
# leaves: nothing
. /words.sh
# The policies of all threads in latstat's loads, each once. 5 is SCHED_IDLE.
policies() {
    for _stat in /proc/[0-9]*/stat; do
        { read -r _line <"$_stat"; } 2>/dev/null || continue
        _pid=${_line%% *}
        # Split without starting a program per process, because there are hundreds.
        _words=
        { read -r _words <"/proc/$_pid/cmdline"; } 2>/dev/null || true
        case $_words in *loadhackbench--loops* | *loadbuild* | *mpstat1*) ;; *) continue ;; esac
        set -- ${_line##*) }
        _where=$(grep Cpus_allowed_list: "/proc/$_pid/status" 2>/dev/null) || continue
        echo "${39} ${_where##*[!0-9,-]}"
    done | sort -u
}
no_load() {
    [ -z "$(policies)" ]
}
is_loaded() {
    [ -n "$(policies)" ]
}
state before

# A missing program is reported with its package, before any change.
status=0
said=$(PATH=/none /usr/local/bin/latstat --cpu 2 --compare cyclictest 2>&1) || status=$?
want 1 $status "status without cyclictest"
want "latstat: cannot run cyclictest: it is not installed
hint: it is in Debian's package rt-tests" "$said" "without cyclictest"
state now
same before now "without cyclictest"

if command -v cyclictest >/dev/null; then
    need latstat --cpu 2 --duration 4 --compare cyclictest
    case $said in *"interleaved with cyclictest (1 turn each)"*) ;; *) fail "no table: $said" ;; esac
    # Each has samples of two seconds, on a slow machine somewhat fewer.
    set -- $(echo "$said" | grep '^samples ')
    [ "$2" -gt 200 ] && [ "$3" -gt 200 ] || fail "too few samples: $said"
    echo "$said" | tail -n 24
    state now
    same before now "after turns"
fi

# The loads have the lowest priority, do not run on the measured CPU, and are gone at the end.
latstat --cpu 2 --duration 10 --load hackbench,build,mpstat >load.out 2>load.err &
latstat=$!
within 60 is_loaded
sleep 3
policies | while read -r policy where; do
    want 5 "$policy" "policy of a load"
    case ,$where, in *,2,* | *0-[2-9]* | *1-[2-9]*) fail "a load may run on processor 2: $where" ;; esac
done
status=0
wait $latstat || status=$?
want 0 $status "status with a load: $(cat load.err)"
grep -q '^load: hackbench: [0-9.]* %, build: [0-9.]* %, mpstat: [0-9.]* % of the other CPUs$' load.out ||
    fail "no line of the load: $(cat load.out load.err)"
grep '^load: ' load.out
within 30 no_load
ls -d /tmp/millpond-build.* 2>/dev/null && fail "files of the build are left"
state now
same before now "after a load"

# A kill ends its loads, too.
latstat --cpu 2 --load hackbench,build,mpstat >load.out 2>load.err &
latstat=$!
within 60 is_loaded
kill -KILL $latstat
wait $latstat 2>/dev/null || true
within 60 no_load
need psradm -n 0
state now
same before now "after the next command"
