# For the cases that kill a command half-way: . /killing.sh
#
#   killed_anywhere UNDO COMMAND...   runs the command, killed at each of its moments in turn. After each death doctor, or a command that reads, must warn; after
#                                     the repair everything must be as before, byte for byte, or as after when the death came too late.
#                                     UNDO is a line of shell that takes the command back. $watched are processes that matter.
#
# A command of many steps is killed at the first two, and then at half of the way; where there is a file /thorough at each.

. /words.sh
watched=
confined=
thorough=no
[ ! -e /thorough ] || thorough=yes

# Since Linux 7.0 a thread of the kernel that is let run everywhere while there is a set stays out of it afterwards: so only once the case is over.
trap '
    _status=$?
    [ -z "$confined" ] || taskset -p "$(printf %x $(((1 << cpus) - 1)))" "$confined" >/dev/null
    _stopped $_status
' EXIT

killed_anywhere() {
    undo=$1
    shift
    # A thread of the kernel that somebody confined: one that is always there, sleeps and belongs to no node. Those of a node (kswapd0) the kernel lets
    # run on all of that again whenever a CPU comes on-line.
    # With version 1 it is in the default set, which may not have CPU 0, and its mask is looked at by cases of fences alone.
    if [ "$cgroup" = v2 ] || [ "${kernel_threads-no}" = yes ]; then
        confined=$(pidof oom_reaper)
        # To the first processor that is in no set: a configuration of pools may have shared out processor 0.
        # Since Linux 7.0 its mask has those of sets as well, on which the kernel does not let it be confined.
        _allowed=$(cat "$root/cpuset.cpus.effective" 2>/dev/null) ||
            _allowed=$(awk '/^Cpus_allowed_list:/ { print $2 }' "/proc/$confined/status")
        need taskset -p "$(printf %x $((1 << ${_allowed%%[-,]*})))" "$confined"
    fi
    state before 1 $watched
    need "$@"
    state after 1 $watched
    ! cmp -s before after || fail "\`$*\` changes nothing"
    take_back
    # The journal was written for each step; that many there are.
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

# Options stand before the first operand.
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

# One death, with the repair. False when the command outlived the moment; then it was taken back.
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
