# leaves: nothing
. /words.sh
state before
mkdir home
chown nobody home
cat >as_nobody <<'END'
set -eu
export MILLPOND_STATE=$PWD/home/state
sleep 1000 &
pid=$!
psrset -c 2-3 >home/made 2>home/note
psrset -b 1 $pid
grep Cpus_allowed_list /proc/$pid/status
psrset -i -v
psradm -f 1 2>&1 || echo "status $?"
psrset -b 1 1 2>&1 || echo "status $?"
psrset -u $pid
grep Cpus_allowed_list /proc/$pid/status
psrset -b 1 $pid
psrset -d 1
grep Cpus_allowed_list /proc/$pid/status
kill $pid
END
cp as_nobody home/script
need su -s /bin/sh nobody -c 'sh home/script'
want "psrset: there are no rights to cgroups: members are confined, other processes are not pushed out" "$(cat home/note)" "the note"
echo "$said" | sed 's/process id [0-9]*/process id N/' >told
all=0-$((cpus - 1))
cat >expected <<END
process id N: was not bound, now 1
Cpus_allowed_list:	2-3
user processor set 1: processors 2 3
	mode affinity (not exclusive)
psradm: cannot take processor 1 off-line: permission denied
hint: states are changed by an administrator
status 1
psrset: cannot bind process 1 to set 1: permission denied
hint: it belongs to another user: ask an administrator
status 1
process id N: was 1, now not bound
Cpus_allowed_list:	$all
process id N: was not bound, now 1
removed processor set 1
Cpus_allowed_list:	$all
END
same expected told "output for the user nobody"
state now
same before now "at the end"
# A set of the machine is visible without rights, and is not changed.
sleep 1000 &
member=$!
need psrset -c 1
need psrset -b 1 $member
cat >home/script <<END
export MILLPOND_STATE=$PWD/home/state
for words in "psrset" "psrset -q $member" "psrset -c 1" "psrset -c 2" "psrset -i -v" "psrset -d 1" "psrset -a 1 3" "psrset -d 2"; do
    echo "$ \$words"
    \$words 2>&1 || echo "= \$?"
done
END
need su -s /bin/sh nobody -c 'sh home/script'
echo "$said" >told
hint=$(splits 2)
[ -z "$hint" ] || hint="$hint
"
cat >expected <<END
$ psrset
user processor set 1: processor 1
$ psrset -q $member
process id $member: 1
$ psrset -c 1
psrset: cannot assign processor 1: it is in set 1, which is the machine's
hint: choose another one; only the superuser takes it out of there
= 1
$ psrset -c 2
psrset: there are no rights to cgroups: members are confined, other processes are not pushed out
created processor set 2
processor 2: was not assigned, now 2
$hint$ psrset -i -v
user processor set 1: processor 1
	mode own (exclusive)
user processor set 2: processor 2
	mode affinity (not exclusive)
$ psrset -d 1
psrset: cannot remove processor set 1: permission denied
hint: set 1 is the machine's: only the superuser changes it
= 1
$ psrset -a 1 3
psrset: cannot assign to processor set 1: permission denied
hint: set 1 is the machine's: only the superuser changes it
= 1
$ psrset -d 2
removed processor set 2
END
same expected told "output for the user nobody with a set of the machine"
kill $member
wait $member || true
need psrset -d 1
state now
same before now "at the very end"
