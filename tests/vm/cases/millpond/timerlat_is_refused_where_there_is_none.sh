# limit_s: 60
# leaves: nothing
. /words.sh
if grep -q timerlat /sys/kernel/tracing/available_tracers; then
    skip "this kernel has timerlat"
fi
release=$(uname -r)
version=$(echo "$release" | cut -d . -f 1-2)
state before
for how in "" --dry-run; do
    need_fail latstat --timerlat $how --cpu 2 --samples 5
    want 1 "$status" "status with $how"
    case $said in
    "latstat: cannot "*": the kernel that runs here ($version) was built without the tracer timerlat
hint: Debian's kernels linux-image-rt-amd64 have it (from 6.5 on), and so have those of Ubuntu, Fedora and RHEL; "*) ;;
    *) fail "it says: $said" ;;
    esac
done
state now
same before now "after a refusal"
