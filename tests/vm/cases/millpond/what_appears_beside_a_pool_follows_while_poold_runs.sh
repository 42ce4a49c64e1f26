# limit_s: 200
# leaves: nothing
. /words.sh

allowed() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"
}

# Creates a cgroup as a program without knowledge of pools does.
group() {
    mkdir "$root/$1"
    if [ "$cgroup" = v2 ]; then return; fi
    cat "${root}/$(dirname "$1")/cpuset.cpus" >"$root/$1/cpuset.cpus"
    cat "${root}/$(dirname "$1")/cpuset.mems" >"$root/$1/cpuset.mems"
}

inside() {
    sh -c "echo \$\$ >$root/$1/cgroup.procs; exec sleep 1000" &
    within 20 grep -q "$1\$" /proc/$!/cgroup
}

[ "$cgroup" != v2 ] || echo +cpuset >$root/cgroup.subtree_control
for name in shop.one shop.two; do
    group $name
    inside $name
    eval "$(echo $name | tr . _)=$!"
done
state before
need pooladm -e
need poolcfg -d -c '
    create pset shopset ( uint pset.max = 2 ; uint pset.min = 1 )
    create pool shop
    associate pool shop ( pset shopset )
    transfer to pset shopset ( cpu 1 )'
# Two existing cgroups: narrowed in place.
need poolbind -p shop --cgroup /shop.one --cgroup /shop.two
want 1 "$(allowed $shop_one)" "where the first group may run"
want 1 "$(allowed $shop_two)" "where the second group may run"
poold -l DEBUG 2>poold.said &
daemon=$!
within 30 grep -q 'configuration complete' poold.said

# A cgroup outside the pool does not use the pool's CPUs for long.
group guest
inside guest
guest=$!
tries=0
while :; do
    case $(allowed $guest) in
    0,2* | 2*) break ;;
    esac
    tries=$((tries + 1))
    [ $tries -lt 40 ] || fail "the new group still runs on $(allowed $guest); poold says: $(cat poold.said)"
    sleep 1
done
# Inside a member: children and child cgroups.
group shop.one/inner
inside shop.one/inner
inner=$!
want 1 "$(allowed $inner)" "where a group below a member runs"
# The pool grows: everything in it follows, and the cgroup outside is narrowed.
need poolcfg -d -c 'transfer to pset shopset ( cpu 2 )'
for pid in $shop_one $shop_two $inner; do
    want 1-2 "$(allowed $pid)" "where $pid may run when the pool has grown"
done
case $(allowed $guest) in
0,3*) ;;
*) fail "the guest runs on $(allowed $guest)" ;;
esac
kill $daemon
wait $daemon || want 0 $? "status of poold when it is asked to stop"
kill $inner $guest
wait $inner $guest 2>/dev/null || true
rmdir $root/shop.one/inner $root/guest
need pooladm -d
in_order
if [ "$cgroup" = v2 ] && ! kernel_at_least 7 0; then
    # This kernel does not clear a list while the cgroup has processes. A list of all CPUs is equivalent.
    want_file $root/shop.one/cpuset.cpus "0-$((cpus - 1))"
fi
kill $shop_one $shop_two
wait $shop_one $shop_two 2>/dev/null || true
if [ "$cgroup" = v2 ]; then
    for name in shop.one shop.two; do
        within 20 sh -c "echo >$root/$name/cpuset.cpus"
    done
fi
state after
same before after "after all that"
rmdir $root/shop.one $root/shop.two
[ "$cgroup" != v2 ] || echo -cpuset >$root/cgroup.subtree_control
