# leaves: nothing
# In a separate mount namespace the tree is read-only, as in most containers. There we have no rights to cgroups, which is
# reported. The machine's sets are visible there, and cannot be changed.
. /words.sh
sleep 1000 &
pid=$!
need psrset -c 2
state before $pid
cat >inside <<'END'
mount -o remount,ro,bind $root
for words in "psrset -d 1" "psrset -c 2" "psrset -c 3" "psrset" "psrset -b 2 $pid" "psrset -b 1 $pid" "psrset -d 2" "psrset -d 2"; do
    echo "$ $words"
    status=0
    $words 2>&1 || status=$?
    echo "= $status"
done
END
export root pid
need unshare -m sh -eu inside
tree="the cgroup tree $root is read-only"
remedy="hint: it lies on a file system that is mounted read-only, as in a container: mount it for writing"
hint=$(splits 3)
[ -z "$hint" ] || hint="$hint
"
cat >expected <<END
$ psrset -d 1
psrset: cannot remove processor set 1: $tree
$remedy
= 1
$ psrset -c 2
psrset: cannot assign processor 2: it is in set 1, which is the machine's
hint: choose another one; only the superuser takes it out of there
= 1
$ psrset -c 3
psrset: $tree: members are confined, other processes are not pushed out; mount it for writing, for sets that keep others out
created processor set 2
processor 3: was not assigned, now 2
$hint= 0
$ psrset
user processor set 1: processor 2
user processor set 2: processor 3
= 0
$ psrset -b 2 $pid
process id $pid: was not bound, now 2
= 0
$ psrset -b 1 $pid
psrset: cannot bind process $pid to set 1: $tree
$remedy
= 1
$ psrset -d 2
removed processor set 2
= 0
$ psrset -d 2
psrset: cannot remove processor set 2: there is no such processor set
hint: psrset -i lists the sets that exist
= 1
END
echo "$said" >told
same expected told "output inside"
state now $pid
same before now "after it all"
in_order
need psrset -d 1
kill $pid
