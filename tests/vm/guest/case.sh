#!/bin/sh
# Functions for cases. A case is a shell script, run as `sh -eu`. It passes when it reaches its end, and fails at the first
# failing command. These functions give more precise results.
#
#   ok                      end here: passed
#   skip WHY                end here: not possible on this guest
#   fail WHY                end here: failed
#   want THIS THAT [WHAT]   THAT must equal THIS
#   want_file FILE TEXT     the content of the file must be TEXT
#   need COMMAND...         the command must succeed; its output is in $said
#   need_fail COMMAND...    the command must fail; its output is in $said, its exit status in $status
#   within SECONDS COMMAND...   the command must succeed within this time (it is repeated)
#   write FILE TEXT         write TEXT to a kernel file; if the kernel refuses, the case fails with the reason
#   kernel_at_least A B     whether this is kernel A.B or later
#   irqs_of TEXT            interrupt numbers of the lines in /proc/interrupts with TEXT
#   irq_count IRQ CPU       number of interrupts IRQ that CPU took
#   irqs_are_remapped       whether a new mask has an effect at once (else when the interrupt next occurs)
#   nics_apart              move eth0, eth1 (and eth2) into separate network namespaces, 10.77.0.1, .2 (and .3), on one network
#   in_a / in_b / in_c COMMAND...  run a command in one of these namespaces; $ns_a, $ns_b, $ns_c are processes in them
#
# Variables with properties of the guest: $cpus $sockets $cores $threads $nodes $nics $cgroup (v2, v1-hybrid, none).
# Special lines: `# limit_s: N` sets the time limit to N seconds. With `# leaves: nothing` the case fails if something must be
# restored after it.
#
# Output lines with `figure: TEXT` are shown even if the case passes.
#
# Files in the directory $OUT are sent to the host. The working directory is initially empty, and removed afterwards. All
# remaining processes are killed after the case, and all changed settings are restored and reported.

fail() {
    printf 'failed %s\n' "$*" >>"$VERDICT"
    printf 'failed: %s\n' "$*" >&2
    trap - EXIT
    exit 1
}

skip() {
    printf 'skipped %s\n' "$*" >>"$VERDICT"
    trap - EXIT
    exit 0
}

ok() {
    trap - EXIT
    exit 0
}

want() {
    [ "$1" = "$2" ] || fail "${3:-value}: want \`$1\`, got \`$2\`"
}

want_file() {
    [ -e "$1" ] || fail "$1: want \`$2\`, got no such file"
    want "$2" "$(cat "$1")" "$1"
}

need() {
    status=0
    said=$("$@" 2>&1) || status=$?
    [ "$status" = 0 ] || fail "\`$*\` ended with status $status: $said"
}

need_fail() {
    status=0
    said=$("$@" 2>&1) || status=$?
    [ "$status" != 0 ] || fail "\`$*\` succeeded: $said"
}

within() {
    _until=$(($(_now_ms) + $1 * 1000))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(_now_ms)" -lt "$_until" ] || fail "in time: \`$*\`"
        usleep 20000
    done
}

write() {
    said=$({ printf '%s\n' "$2" >"$1"; } 2>&1) || fail "cannot write \`$2\` to $1: ${said:-refused}"
}

kernel_at_least() {
    _r=$(uname -r)
    _major=${_r%%.*}
    _r=${_r#*.}
    _minor=${_r%%[!0-9]*}
    [ "$_major" -gt "$1" ] || { [ "$_major" = "$1" ] && [ "$_minor" -ge "$2" ]; }
}

irqs_of() {
    awk -v text="$1" 'index($0, text) && $1 ~ /^[0-9]+:$/ { sub(":", "", $1); print $1 }' /proc/interrupts
}

irq_count() {
    awk -v irq="$1:" -v cpu="CPU$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == cpu) column = i + 1 }
        $1 == irq { print $column }' /proc/interrupts
}

irqs_are_remapped() {
    grep -q ' IR-' /proc/interrupts
}

nics_apart() {
    [ -e /sys/class/net/eth0 ] && [ -e /sys/class/net/eth1 ] || fail "this guest has no two network cards"
    _apart eth0 10.77.0.1
    ns_a=$_ns
    _apart eth1 10.77.0.2
    ns_b=$_ns
    if [ -e /sys/class/net/eth2 ]; then
        _apart eth2 10.77.0.3
        ns_c=$_ns
    fi
}

_apart() {
    unshare -n sleep 100000 &
    _ns=$!
    within 10 _is_apart "$_ns"
    ip link set "$1" netns "$_ns"
    nsenter -t "$_ns" -n ip link set lo up
    nsenter -t "$_ns" -n ip addr add "$2/24" dev "$1"
    nsenter -t "$_ns" -n ip link set "$1" up
    within 30 _is_linked "$_ns" "$1"
}

# Some cards need seconds to detect their link.
_is_linked() {
    nsenter -t "$1" -n ip link show dev "$2" | grep -q LOWER_UP
}

_is_apart() {
    [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

in_a() {
    nsenter -t "$ns_a" -n "$@"
}

in_b() {
    nsenter -t "$ns_b" -n "$@"
}

in_c() {
    nsenter -t "$ns_c" -n "$@"
}

_now_ms() {
    read -r _up _ </proc/uptime
    echo "${_up%.*}${_up#*.}0"
}

_stopped() {
    [ "$1" = 0 ] || printf 'failed a command ended with status %s\n' "$1" >>"$VERDICT"
}

trap '_stopped $?' EXIT
. "$1"
