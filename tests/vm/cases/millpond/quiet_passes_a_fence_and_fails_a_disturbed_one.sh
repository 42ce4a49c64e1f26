# limit_s: 240
# leaves: nothing
. /words.sh
need psrset -c 2-3
need psrset -f 1
# The CPUs of the set are idle, except for occasional clock ticks and per-CPU kernel work. An emulated CPU is slow, and a
# real-time kernel runs a thread after each tick.
need millpond quiet 1 --for 3s --max 1000/s
echo "$said"
echo "$said" | grep -q "^quiet: " || fail "no verdict: $said"
# A thread of the set that is not the named job.
spin 2
need psrset -b 1 $spinners
need millpond quiet 1 --for 2s --max 2000/s
echo "$said" | grep -q "^task " && fail "members of the set are disturbances: $said"
need_fail millpond quiet 1 --pid 1 --for 2s --max 100us
want 1 "$status" "status of a disturbed set"
echo "$said"
echo "$said" | grep -q "^not quiet: \|cannot judge" || fail "no verdict: $said"
# A set that ends meanwhile is reported, and so is a CPU that leaves it.
(sleep 1; psradm -F -f 3) &
beside=$!
need_fail millpond quiet 1 --for 4s
echo "$said" | grep -q "CPU 3 went off-line meanwhile" || fail "no message about CPU 3: $said"
wait $beside
need psradm -n 3
(sleep 1; psrset -d 1) &
beside=$!
need_fail millpond quiet 1 --for 20s
echo "$said" | grep -q "processor set 1 ended meanwhile" || fail "no message about the set: $said"
wait $beside
need psradm -n 2
in_order
