# leaves: nothing
# In a mount namespace of its own the tree is read-only, as in most containers: there our rights to cgroups end, and this is said.
. /words.sh
sleep 1000 &
pid=$!
state before $pid
cat >inside <<'END'
mount -o remount,ro,bind $root
for words in "psrset -c 3" "psrset -b 1 $pid" "psrset -d 1" "psrset -d 1"; do
    echo "$ $words"
    status=0
    $words 2>&1 || status=$?
    echo "= $status"
done
END
export root pid
need unshare -m sh -eu inside
cat >expected <<END
$ psrset -c 3
psrset: there are no rights to cgroups: members are confined, nobody is pushed out
created processor set 1
processor 3: was not assigned, now 1
= 0
$ psrset -b 1 $pid
process id $pid: was not bound, now 1
= 0
$ psrset -d 1
removed processor set 1
= 0
$ psrset -d 1
psrset: cannot remove processor set 1: there is no such processor set
hint: psrset -i lists the sets that exist
= 1
END
echo "$said" >told
same expected told "what was said inside"
state now $pid
same before now "after it all"
in_order
kill $pid
