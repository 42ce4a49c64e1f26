# limit_s: 240
# leaves: nothing
. /words.sh
need psrset -c 2-3
need psrset -f 1
# Nobody is there but idle processors: a clock tick now and then, and what the kernel does on each of its processors. An emulated one is slow, and a
# real-time kernel has a thread run after each tick.
need millpond quiet 1 --for 3s --max 1000/s
echo "$said"
echo "$said" | grep -q "^quiet: " || fail "no verdict: $said"
# A thread of the set that is not the job that was named.
spin 2
need psrset -b 1 $spinners
need millpond quiet 1 --for 2s --max 2000/s
echo "$said" | grep -q "^task " && fail "members of the set are disturbances: $said"
need_fail millpond quiet 1 --pid 1 --for 2s --max 100us
want 1 "$status" "status of a disturbed set"
echo "$said"
echo "$said" | grep -q "^not quiet: \|cannot judge" || fail "no verdict: $said"
# A set that ends meanwhile is told, and so is a processor that leaves.
(sleep 1; psradm -F -f 3) &
beside=$!
need_fail millpond quiet 1 --for 4s
echo "$said" | grep -q "CPU 3 went off-line meanwhile" || fail "nobody was told: $said"
wait $beside
need psradm -n 3
(sleep 1; psrset -d 1) &
beside=$!
need_fail millpond quiet 1 --for 20s
echo "$said" | grep -q "processor set 1 ended meanwhile" || fail "nobody was told: $said"
wait $beside
need psradm -n 2
in_order
