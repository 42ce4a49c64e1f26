# limit_s: 200
# leaves: nothing
. /words.sh

# The CPUs that the program saw last.
sees() {
    tries=0
    until [ "$(cat seen 2>/dev/null)" = "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "$2: it sees $(cat seen), and should see $1"
        sleep 1
    done
}

state before
web_of 3
cat >look <<'END'
while :; do
    list=$(cat /sys/devices/system/cpu/online)
    dirs=$(ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l)
    info=$(grep -c '^processor' /proc/cpuinfo)
    stat=$(grep -c '^cpu[0-9]' /proc/stat)
    echo "$(nproc) $list $dirs $info $stat" >seen.new
    mv seen.new seen
    sleep 1
done
END
poolbind -p web -e --view --on-resize 'echo "$MILLPOND_POOL $MILLPOND_POOL_SIZE $MILLPOND_POOL_CPUS" >>told' sh look &
binder=$!
sees '1 1 1 1 1' 'to begin with'
# Other processes do not see this view.
want "$cpus" "$(grep -c '^processor' /proc/cpuinfo)" 'processors of the machine'
need poolcfg -d -c 'transfer to pset webset ( cpu 2 )'
sees '2 1-2 2 2 2' 'when the pool has grown'
within 20 grep -q '^web 2 1-2$' told
need poolcfg -d -c 'transfer to pset pset_default ( cpu 1 )'
sees '1 2 1 1 1' 'when the pool has another processor'
within 20 grep -q '^web 1 2$' told
want 'processors 2' "$(grep processors /run/millpond/pools/web)" 'the notice of the pool'
# After a kill nothing of it remains.
kill -9 $binder
wait $binder 2>/dev/null || true
pkill -f 'sh look' || true
within 20 sh -c '! pgrep -f "sh look" >/dev/null'
need pooladm -d
[ ! -e /run/millpond/pools ] || fail "notices are left: $(ls /run/millpond/pools)"
in_order
state after
same before after 'with a program in a pool and without pools again'
