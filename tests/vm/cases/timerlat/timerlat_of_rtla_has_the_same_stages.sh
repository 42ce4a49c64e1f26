# limit_s: 240
# leaves: nothing
. /timerlat.sh
# Times in a guest are meaningless. Checks that both report all timers that they saw, and that the stages of both add up to the
# total.
program=/opt/rtla/usr/bin/rtla
[ -x $program ] || skip "rtla could not be had"
rtla() {
    /opt/rtla/usr/lib64/ld-linux-x86-64.so.2 --library-path /opt/rtla/usr/lib/x86_64-linux-gnu $program "$@"
}
# The number and the mean of the samples of a row in our saved run, in ns.
ours() {
    row "$1" run | awk '{ printf "%d %.0f\n", $1, $2 / $1 }'
}
state before

# One after the other, because only one can wait for the timers of a CPU: same class and priority, same period, a thread in user
# mode.
need latstat --timerlat --cpu 2 --keep-others --interval 2ms --duration 8 --save run
case $said in *"lost: "*) fail "timers are lost: $said" ;; esac
need rtla timerlat hist --user-threads --cpus 2 --period 2000 --duration 8s --priority f:31 --nano --bucket-size 1000 --entries 10
echo "$said" | sed -n '/^ALL:/,$p' >theirs
[ -s theirs ] || fail "rtla gives no sums: $said"

for row in irq thread user total; do
    eval "our_$row=\"$(ours $row)\""
done
for sum in count min avg max; do
    eval "their_$sum=\"$(awk -v sum="$sum:" '$1 == sum { print $2, $3, $4 }' theirs)\""
done
echo "latstat: samples and mean ns: irq $our_irq, thread $our_thread, user $our_user, total $our_total"
echo "rtla: of irq, thread and user, since the timer was due: count $their_count, min $their_min, avg $their_avg, max $their_max ns"

for row in "$our_irq" "$our_thread" "$our_user"; do
    want "${our_total% *}" "${row% *}" "samples of a row"
done
[ "${our_total% *}" -gt 500 ] || fail "too few samples of ours: $our_total"
awk "BEGIN { sum = ${our_irq#* } + ${our_thread#* } + ${our_user#* }; whole = ${our_total#* }; exit !(sum > whole * 0.99 && sum < whole * 1.01) }" ||
    fail "our stages are not the whole"

# The last timer of rtla may have been on its way to user mode.
set -- $their_count
[ "$1" -gt 500 ] || fail "too few samples of rtla: $their_count"
[ $(($1 - $2)) -le 1 ] && [ $(($2 - $3)) -le 1 ] && [ "$3" -le "$2" ] && [ "$2" -le "$1" ] || fail "rtla lost samples: $their_count"
for sum in min avg max; do
    eval "set -- \$their_$sum"
    [ "$1" -le "$2" ] && [ "$2" -le "$3" ] || fail "the stages of rtla are less than nothing: $sum $*"
done

# Neither program leaves trace instances behind.
want "" "$(ls $tracing/instances)" "trace instances at the end"
state now
same before now "at the end"
