# limit_s: 240
# leaves: nothing
. /words.sh
kernel_at_least 6 5 || skip "this kernel does not report the sender of calls"
millpond quiet --cpu 2 --for 1s >first 2>first.said || fail "it cannot be watched: $(cat first.said)"
grep -q "by programs in the kernel" first || skip "no programs in this kernel: $(cat first.said)"
cat first

# A foreign thread is reported by its name, and not when it is the job.
taskset -c 2 sh -c 'printf intruder >/proc/$$/comm; while :; do :; done' &
intruder=$!
within 5 grep -q intruder /proc/$intruder/comm
need millpond quiet --cpu 2 --for 2s
echo "$said"
echo "$said" | grep -q "^task  *intruder " || fail "the intruder is not there: $said"
echo "$said" | grep -q "^tick " || fail "a busy processor has no tick: $said"
need_fail millpond quiet --cpu 2 --for 2s --max 1ms
want 1 "$status" "status over the limit"
echo "$said" | grep -q "^not quiet: task intruder took" || fail "the intruder is not blamed: $said"
need millpond quiet --cpu 2 --pid $intruder --for 2s
echo "$said"
echo "$said" | grep -q "^task  *intruder " && fail "the job is a disturbance: $said"
kill $intruder

# Calls from another CPU are reported by their sender: a writer wakes a reader.
mkfifo line
taskset -c 2 sh -c 'while read -r _; do :; done' <line &
reader=$!
taskset -c 1 sh -c 'printf caller >/proc/$$/comm; while :; do echo x; usleep 2000; done' >line &
caller=$!
within 5 grep -q caller /proc/$caller/comm
need millpond quiet --cpu 2 --pid $reader --for 3s
echo "$said"
echo "$said" | grep "^ipi " | grep -q " caller " || fail "the sender of the calls is missing: $said"
kill $caller $reader 2>/dev/null || true
