# Shell functions for cases about the tracer timerlat: . /timerlat.sh
#
#   settings FILE   write all settings of osnoise and timerlat, and the list of traces, as text
#   row NAME FILE   print the number and the sum, in ns, of the samples of a row in a saved run
#   timerlat_begins [OPTION...]   start latstat with timerlat on CPU 2; $latstat and $probe as in latstat_begins
#
# $tracing is the directory of the default trace.

. /words.sh
tracing=/sys/kernel/tracing

settings() {
    grep -H '' $tracing/osnoise/options $tracing/osnoise/cpus $tracing/osnoise/*_us $tracing/osnoise/print_stack \
        $tracing/current_tracer >"$1"
    ls $tracing/instances >>"$1"
}

row() {
    sed -e "s/.*\"$1\":\[\[//" -e 's/\]\].*//' -e 's/\],\[/\n/g' "$2" | awk -F, '{ n += $2; s += $1 * $2 } END { printf "%d %.0f\n", n, s }'
}

timerlat_begins() {
    latstat_measures timerlat-probe --timerlat "$@"
    within 60 sh -c "ls -l /proc/$probe/fd | grep -q timerlat_fd"
}
