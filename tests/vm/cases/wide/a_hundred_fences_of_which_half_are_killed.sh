# limit_s: 1800
# leaves: nothing
# A hundred fences, one after the other, and more until fifty were killed part-way. Of every four, two are killed while they go up
# and one while it comes down, at a random moment. doctor repairs what was half done. Afterwards everything is as before, byte for
# byte.
kernel_threads=yes
. /words.sh
stands() { [ "$(millpond fence --json 2>/dev/null | grep -c '"name":')" = 1 ]; }
now_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }
seed=$(od -A n -N 2 -t u2 /dev/urandom)
echo "drawn by $((seed))"
# Sets $moment_ms to a random moment of a command with this duration.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    moment_ms=$((seed / 65536 % $1))
}
killed() {
    draw "$took_ms"
    "$@" >killed.said 2>&1 &
    victim=$!
    usleep $((moment_ms * 1000))
    kill -KILL $victim 2>/dev/null || true
    status=0
    wait $victim || status=$?
    case $status in
    # The first fence took longer than later ones.
    0) in_time=$((in_time + 1)) took_ms=$((took_ms * 7 / 8 + 1)) ;;
    137) deaths=$((deaths + 1)) ;;
    *) fail "\`$*\`, to be killed after $moment_ms ms, ends with $status: $(cat killed.said)" ;;
    esac
}
state before
began=$(now_ms)
need millpond fence --name t 2-5
took_ms=$(($(now_ms) - began))
need millpond fence --off t
fences=1 deaths=0 in_time=0
while [ $fences -lt 100 ] || { [ $deaths -lt 50 ] && [ $fences -lt 250 ]; }; do
    if [ $((fences % 2)) = 1 ]; then killed millpond fence --name t 2-5; else need millpond fence --name t 2-5; fi
    need millpond doctor --repair
    if [ $((fences % 4)) = 2 ] && stands; then
        killed millpond fence --off t
        need millpond doctor --repair
    fi
    ! stands || need millpond fence --off t
    fences=$((fences + 1))
    if [ $((fences % 10)) = 0 ]; then
        state now
        same before now "after $fences fences, $deaths of them killed"
    fi
done
echo "$fences fences, $deaths killed half-way, $in_time that were done before"
[ $deaths -ge 50 ] || fail "only $deaths died"
in_order
