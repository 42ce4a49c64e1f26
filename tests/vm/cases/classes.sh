# Shell functions for cases about schedd (`. /classes.sh`). Includes those of words.sh.
#
#   starts_schedd [OPTION...]   start schedd and wait until it schedules; its process id is in $schedd
#   stops_schedd                stop schedd, and wait until the kernel's own scheduler runs all threads
#   is_disabled                 whether no scheduler is loaded
#   policy_of PID               print the number of its policy: 0 SCHED_OTHER, 7 SCHED_EXT
#   runs PID...                 each of them gets CPU time before long
#   uses PID...                 the percentage of a CPU that they use together is in $used
#   uses_about PERCENT PID...   this must be it, a fifth more or less
#   experiment WHAT...          what live-classes finds; its report is in the file said
#   no_complaints               the kernel must not have reported a bug since the start of this case

. /words.sh
mount | grep -q ' /sys/fs/bpf ' || mount -t bpf bpf /sys/fs/bpf

is_loaded() {
    grep -q '^schedd: TS, IA and FX run' schedd.said || ! [ -d /proc/$schedd ]
}
is_disabled() {
    [ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
}
starts_schedd() {
    : >schedd.said
    millpond schedd "$@" 2>schedd.said &
    schedd=$!
    within 120 is_loaded
    grep -q 'describes functions of sched_ext wrongly' schedd.said && skip "this kernel describes functions of sched_ext wrongly"
    [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || fail "schedd: $(cat schedd.said)"
}
stops_schedd() {
    kill $schedd
    _status=0
    wait $schedd || _status=$?
    want 0 $_status "status of schedd: $(cat schedd.said)"
    is_disabled || fail "a scheduler is still loaded"
}
policy_of() {
    read -r _line <"/proc/$1/stat"
    set -- ${_line##*) }
    echo "${39}"
}
runs() {
    for _pid in "$@"; do
        _before=$(cut -d ' ' -f 1 "/proc/$_pid/schedstat")
        within 60 _has_run
    done
}
_has_run() {
    [ "$(cut -d ' ' -f 1 "/proc/$_pid/schedstat")" -gt "$_before" ]
}
_ran_ms() {
    for _pid in "$@"; do cat "/proc/$_pid/schedstat"; done | awk '{ all += $1 } END { printf "%d\n", all / 1000000 }'
}
_up_ms() {
    awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime
}
uses() {
    _ran=$(_ran_ms "$@") _up=$(_up_ms)
    sleep 5
    used=$((($(_ran_ms "$@") - _ran) * 100 / ($(_up_ms) - _up)))
}
uses_about() {
    _percent=$1
    shift
    # What ran before a change is charged to it, and is over after a while.
    sleep 2
    uses "$@"
    [ $((used * 5)) -ge $((_percent * 4)) ] && [ $((used * 5)) -le $((_percent * 6)) ] ||
        fail "they use $used percent of a CPU, not $_percent"
}
_is_gone() {
    ! [ -d /proc/$1 ] || grep -q '^State:.Z' /proc/$1/status
}
experiment() {
    _status=0
    live-classes --i-own-this-machine "$@" >said 2>&1 || _status=$?
    cat said
    want 0 $_status "status of $1: $(grep -v '^ok' said) $(cat schedd.said)"
}
no_complaints() {
    _said=$(dmesg | awk '/millpond-vm: begin/ { said = "" } /BUG|WARNING|Call Trace|detected stalls/ { said = said $0 "; " } END { print said }')
    want "" "$_said" "what the kernel complains about"
}
