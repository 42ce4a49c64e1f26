# limit_s: 240
# leaves: nothing
# A named fence: changes by other programs are reverted while it is watched, measurements are stored with it, and it comes back.
kernel_threads=yes
. /words.sh
stands() { [ "$(millpond fence --json 2>/dev/null | grep -c '"name":')" = 1 ]; }
# $1: what the watcher must have logged.
says_watcher() { grep -q "$1" watch.said; }
mask=/proc/sys/kernel/watchdog_cpumask
watches() {
    millpond fence --watch 2>watch.said &
    watcher=$!
}
ends() {
    kill -TERM $watcher
    status=0
    wait $watcher || status=$?
    want 0 $status "status of the watcher: $(cat watch.said)"
}
state before
need millpond fence --name trading 2-3
says "no daemon watches the fences" millpond fence
watches
within 30 sh -c '! millpond fence 2>&1 | grep -q "no daemon watches"'
says "another one is running" millpond fence --watch
if [ -e $mask ]; then
    fenced=$(cat $mask)
    echo 0-3 >$mask
    within 30 sh -c "[ \"\$(cat $mask)\" = $fenced ]"
fi
# Times are meaningless here; only an interruption of ten seconds would fail.
need millpond fence --prove trading --for 1s --max 10s --report proof.html
[ -s proof.html ] || fail "there is no page"
case $said in *do_sync_core* | *text_poke*) fail "what attaching does is counted: $said" ;; esac
says "10s kept for " millpond fence
says "holds  no" millpond fence
need millpond fence --persist trading
says "holds  yes" millpond fence
need millpond fence --off trading
case $said in *"fence trading comes back at boot"*) ;; *) fail "it says: $said" ;; esac
ends
state again
same before again "after the fence"
# As at boot.
watches
within 30 stands
within 30 says_watcher "fence trading is put up"
case $(millpond fence) in *"10s kept"*) fail "the proof of another fence is shown" ;; esac
need millpond fence --forget trading
need_fail millpond fence --forget trading
ends
need millpond fence --off trading
# A card stands on the bus, and the CPUs near it are all.
if [ -e /sys/class/net/eth0 ]; then
    need millpond fence --plan --cores 1 --near eth0
    case $said in *"free core near eth0"*) ;; *) fail "the plan says: $said" ;; esac
fi
says "is on no bus" millpond fence --plan --cores 1 --near lo
state again
same before again "at the end"
