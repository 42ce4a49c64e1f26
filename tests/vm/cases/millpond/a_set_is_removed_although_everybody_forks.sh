# limit_s: 200
# leaves: nothing
# Children that are forked while their parents are moved are moved, too, both of members and of other processes.
. /words.sh
state before 1
need psrset -c 2-3
forkers=
for n in 1 2 3; do
    sh -c 'while :; do usleep 1 & usleep 1 & wait; done' &
    forkers="$forkers $!"
done
outside=$!
members=${forkers% *}
need psrset -b 1 $members
for round in 1 2 3; do
    need psrset -d 1
    for pid in $forkers; do want 0 "$(set_of $pid)" "set of $pid"; done
    [ ! -e $root/mpset1 ] || fail "the cgroup is still there"
    need psrset -c 2-3
    need psrset -b 1 $members
    for pid in $members; do want 1 "$(set_of $pid)" "set of $pid"; done
    want 0 "$(set_of $outside)" "set of $outside"
done
need psrset -d 1
kill $forkers
for pid in $forkers; do wait $pid || true; done
state again 1
same before again "at the end"
