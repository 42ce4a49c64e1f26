# limit_s: 200
# leaves: nothing
. /words.sh

allowed() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"
}

# A shell with children, because a multithreaded process would need a program.
sh -c 'sleep 1000 & echo $! >>children; sleep 1000 & echo $! >>children; echo done >born; wait' &
parent=$!
within 20 test -s born
children=$(cat children)
state before $parent $children
need pooladm -e
need poolcfg -d -c '
    create pset webset ( uint pset.max = 3 ; uint pset.min = 1 )
    create pool web ( int pool.importance = 5 )
    associate pool web ( pset webset )
    transfer to pset webset ( cpu 1 )'
need poolbind -p web $parent $children
for pid in $parent $children; do
    want 1 "$(allowed $pid)" "where $pid may run"
    want "$pid	web" "$(poolbind -q $pid)" "the pool of $pid"
done
need poolcfg -d -c 'transfer to pset webset ( cpu 2 )'
for pid in $parent $children; do
    want 1-2 "$(allowed $pid)" "where $pid may run after the transfer"
done
in_order
says "pools are enabled, and sets are theirs" psrset -c 3
want 1 $status "status of psrset while pools are enabled"
# Give the pool another set, then end its set.
need poolcfg -d -c '
    create pset shop ( uint pset.max = 2 ; uint pset.min = 1 )
    transfer to pset shop ( cpu 3 )
    associate pool web ( pset shop )'
want 3 "$(allowed $parent)" "where it may run in the other set"
says "Device busy" poolcfg -d -c 'modify pset shop ( uint pset.min = 0 ) transfer 1 from pset shop to pset_default'
want 1 $status "status of a transfer that empties a set in use"
want 3 "$(allowed $parent)" "where it may run after the refusal"
need poolcfg -d -c 'destroy pset shop'
want pset_default "$(poolbind -Q $parent | cut -f 3)" "the set of its pool when its set ended"
need poolcfg -d -c 'associate pool web ( pset webset )'
want 1-2 "$(allowed $parent)" "where it may run in the first set again"
# An invalid line changes nothing.
poolcfg -d -c 'info' | grep -v pset.load >conf.before
says "Invalid configuration" poolcfg -d -c 'create pool a create pset b transfer 1 from pset pset_default to b'
poolcfg -d -c 'info' | grep -v pset.load >conf.after
same conf.before conf.after "a script with a mistake"
need pooladm -d
in_order
state after $parent $children
same before after "with pools and without them again"
kill $parent $children
