# limit_s: 240
# leaves: nothing
. /words.sh
kernel_at_least 6 5 || skip "this kernel does not tell who calls"
millpond quiet --cpu 2 --for 1s >first 2>first.said || fail "it cannot be watched: $(cat first.said)"
grep -q "by programs in the kernel" first || skip "no programs in this kernel: $(cat first.said)"
cat first

# A foreign thread by its name, and not any more when it is the job.
cp /bin/busybox ./intruder 2>/dev/null || ln -s "$(command -v sh)" ./intruder
ln -sf "$(command -v sh)" ./intruder
taskset -c 2 ./intruder -c 'while :; do :; done' &
intruder=$!
need millpond quiet --cpu 2 --for 2s
echo "$said"
echo "$said" | grep -q "^task  *intruder " || fail "the intruder is not there: $said"
need_fail millpond quiet --cpu 2 --for 2s --max 1ms
want 1 "$status" "status over the limit"
echo "$said" | grep -q "^not quiet: task intruder took" || fail "the intruder is not blamed: $said"
need millpond quiet --cpu 2 --pid $intruder --for 2s
echo "$said" | grep -q "^task  *intruder " && fail "the job is a disturbance: $said"
echo "$said" | grep -q "^tick " || fail "a busy processor has no tick: $said"

# Calls from another processor by who sent them: reading an event of processor 2 is a call to it, and so is binding a thread that runs there.
ln -sf "$(command -v sh)" ./caller
taskset -c 1 ./caller -c 'n=0; while [ $n -lt 2000 ]; do taskset -p 6 '$intruder' >/dev/null; taskset -p 4 '$intruder' >/dev/null; n=$((n + 1)); done' &
caller=$!
need millpond quiet --cpu 2 --pid $intruder --for 3s
echo "$said"
echo "$said" | grep "^ipi " | grep -q "taskset\|migration\|caller" || fail "nobody is blamed for the calls: $said"
kill $caller $intruder 2>/dev/null || true
wait 2>/dev/null || true
