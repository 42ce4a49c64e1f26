# limit_s: 240
# leaves: nothing
. /words.sh
state before

# No file can be written. This is reported for each file, and the measurements are shown.
mkdir tiny
mount -t tmpfs -o size=4k tmpfs tiny
dd if=/dev/zero of=tiny/full bs=4096 count=2 2>/dev/null || true
status=0
latstat --cpu 2 --samples 200 --plot tiny --save tiny/run >full.out 2>full.err || status=$?
want 1 $status "status on a full disk: $(cat full.err)"
grep -q '^total  *200 ' full.out || fail "no row of the whole: $(cat full.out full.err)"
for file in run latstat.dat latstat.gp latstat.svg latstat.html; do
    grep -q "cannot write tiny/$file: No space left on device" full.err || fail "nothing is said of $file: $(cat full.err)"
done
umount tiny

# The clock is set forward by a day and back during the measurement. No time depends on that clock.
latstat --cpu 2 --duration 6s --json >step.out 2>step.err &
latstat=$!
sleep 2
now=$(date +%s)
date -s "@$((now + 86400))" >/dev/null
sleep 1
date -s "@$((now + 1))" >/dev/null
status=0
wait $latstat || status=$?
want 0 $status "status under another time: $(cat step.err)"
number() {
    sed "s/.*\"$1\":\([0-9]*\).*/\1/" step.out
}
elapsed=$(number elapsed_s)
[ "$elapsed" -ge 6 ] && [ "$elapsed" -lt 60 ] || fail "it measured for $elapsed s: $(cat step.out)"
# The total is the last row. A day would count as an hour, the longest value.
max=$(sed 's/.*"total":{[^}]*"max":\([0-9]*\).*/\1/' step.out)
[ "$max" -gt 0 ] && [ "$max" -lt 60000000000 ] || fail "the longest wait was $max ns: $(cat step.out)"
state now
same before now "at the end"
