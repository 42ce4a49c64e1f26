# For cases that kill a command part-way: . /killing.sh
#
#   killed_anywhere UNDO COMMAND...   run the command repeatedly, killed at a later moment each time. After each kill, doctor or a
#                                     command that reads must warn. After the repair everything must be as before, byte for byte,
#                                     or as after the command if the kill came too late. UNDO is a shell command that undoes the
#                                     command. $watched are relevant processes.
#
# A command of many steps is killed at the first two steps and half-way; if the file /thorough exists, at every step.

. /words.sh
watched=
confined=
thorough=no
[ ! -e /thorough ] || thorough=yes

# Since Linux 7.0 a kernel thread that is allowed everywhere while a set exists stays out of the set's CPUs afterwards. So do it
# only after the case.
trap '
    _status=$?
    [ -z "$confined" ] || taskset -p "$(printf %x $(((1 << cpus) - 1)))" "$confined" >/dev/null
    _stopped $_status
' EXIT

killed_anywhere() {
    undo=$1
    shift
    # Confine a kernel thread that always exists, sleeps and belongs to no node. The kernel lets the threads of a node (kswapd0)
    # run on the whole node again when a CPU comes on-line. With version 1 the thread is in the default set, which may not have
    # CPU 0, and only cases of fences compare its mask.
    if [ "$cgroup" = v2 ] || [ "${kernel_threads-no}" = yes ]; then
        confined=$(pidof oom_reaper)
        # Confine it to the first CPU in no set: a configuration of pools may have assigned CPU 0. Since Linux 7.0 its mask
        # includes CPUs of sets, to which the kernel does not let it be confined.
        _allowed=$(cat "$root/cpuset.cpus.effective" 2>/dev/null) ||
            _allowed=$(awk '/^Cpus_allowed_list:/ { print $2 }' "/proc/$confined/status")
        need taskset -p "$(printf %x $((1 << ${_allowed%%[-,]*})))" "$confined"
    fi
    state before 1 $watched
    need "$@"
    state after 1 $watched
    ! cmp -s before after || fail "\`$*\` changes nothing"
    take_back
    # The journal is written once per step. Get the number of steps.
    steps=$(_steps_of "$@")
    stride=1
    [ "$thorough" = yes ] || stride=$(((steps + 1) / 2))
    deaths=0
    for moment in begin intended; do
        killed_at $moment "$@" || fail "\`$*\` outlived $moment"
    done
    step=1
    while killed_at step-$step "$@"; do
        [ $step -ge 2 ] && step=$((step + stride)) || step=$((step + 1))
    done
    for moment in applied committed; do
        killed_at $moment "$@" || fail "\`$*\` outlived $moment"
    done
    echo "$*: $steps steps, $deaths deaths"
    [ $deaths -ge 5 ] || fail "only $deaths deaths"
}

# Options must precede the first operand.
_steps_of() {
    _command=$1
    shift
    "$_command" --dry-run --json "$@" 2>dry.said | tr '{' '\n' | grep -c '"knob"' || fail "no steps are shown: $(cat dry.said)"
}

take_back() {
    need sh -c "$undo"
    state again 1 $watched
    same before again "after \`$undo\`"
}

# One kill and the repair. Fails if the command ended before that moment; its changes are then undone.
killed_at() {
    at=$1
    shift
    status=0
    said=$(MILLPOND_KILL_AT=$at "$@" 2>&1) || status=$?
    if [ $status = 0 ]; then
        state now 1 $watched
        same after now "\`$*\` that should die at $at and lived"
        take_back
        return 1
    fi
    want 137 $status "status of \`$*\` killed at $at ($said)"
    deaths=$((deaths + 1))
    case $at in
    begin) ;;
    committed)
        state now 1 $watched
        same after now "\`$*\` killed at $at"
        take_back
        return 0
        ;;
    *)
        if [ $((deaths % 2)) = 0 ]; then
            says "begun and not finished: " doctor
            want 1 $status "status of doctor after a death at $at"
            says "an unfinished change was put back: " doctor --repair
            want 0 $status "status of doctor --repair after a death at $at: $said"
        else
            says "a change was begun and not finished: " psrset
            want 0 $status "status of psrset after a death at $at"
            says "an unfinished change was put back: " psradm -n 0
            want 0 $status "status of the next command after a death at $at: $said"
        fi
        ;;
    esac
    state now 1 $watched
    same before now "\`$*\` killed at $at and repaired"
    return 0
}
