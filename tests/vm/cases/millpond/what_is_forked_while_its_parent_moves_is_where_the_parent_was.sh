# limit_s: 120
# leaves: nothing
# In a sequence of children the first ones may be outside. From the first one inside on, all are inside.
. /words.sh
need psrset -c 2-3
for round in 1 2 3; do
    rm -f born
    : >born
    sh -c 'while [ ! -e stop ]; do sleep 1000 & echo $! >>born; done; kill $(cat born); wait' &
    parent=$!
    within 20 test -s born
    need psrset -b 1 $parent
    count=$(wc -l <born)
    within 20 sh -c "[ \$(wc -l <born) -gt $((count + 3)) ]"
    kill -STOP $parent
    inside=0
    outside=0
    for pid in $(cat born); do
        case $(set_of $pid) in
        1) inside=$((inside + 1)) ;;
        *)
            [ $inside = 0 ] || fail "child $pid is outside and its elder sibling inside"
            outside=$((outside + 1))
            ;;
        esac
    done
    echo "round $round: $outside children before, $inside after"
    [ $inside -ge 3 ] || fail "only $inside children are inside"
    in_order
    : >stop
    kill -CONT $parent
    wait $parent || true
    rm stop
done
need psrset -d 1
