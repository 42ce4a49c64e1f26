# limit_s: 240
# prstat -m by programs in the kernel: who computes is in user mode, who sleeps is asleep, two on one processor wait for half the time, who
# waits for others of its program waits for a lock, and who calls the kernel all the time is in it. Relations, with room for a slow machine.
# It is not asked what is left behind: prstat changes nothing, and on so busy a machine threads of the kernel that rescue its work (rcu_gp) bind themselves to
# the processor where they are needed.
. /words.sh

# part PID COLUMN [OPTION]: that figure of the process in the second of two reports, in percent; columns are those of the listing.
part() {
    need prstat -mcr --json ${3:-} -p "$1" 3 2
    echo "$said" | tail -n 1 | tr ',{}' '\n\n\n' | sed -n "s/^\"$2\"://p" | head -n 1
}
least() {
    _is=$(part "$1" "$2" "${5:-}")
    awk "BEGIN { exit !(\"$_is\" != \"\" && \"$_is\" != \"null\" && $_is + 0 >= $3) }" || fail "$4: $2 of process $1 is $_is, not $3: $said"
}
sum() {
    need prstat -mc --json ${2:-} -p "$1" 3 2
    _sum=$(echo "$said" | tail -n 1 | tr ',{}' '\n\n\n' | sed -n 's/^"\(usr\|sys\|tfl\|dfl\|lck\|slp\|lat\)"://p' | awk '{ s += $1 } END { print s }')
    awk "BEGIN { exit !($_sum > 99.9 && $_sum < 100.1) }" || fail "the microstates of process $1 add up to $_sum: $said"
}
begin() {
    "$@" &
    last=$!
    started="$started $last"
}
started=

begin taskset -c 1 sh -c 'while :; do :; done'
one=$last
least "$one" usr 80 "it computes alone"
sum "$one"
begin taskset -c 1 sh -c 'while :; do :; done'
least "$one" lat 35 "two share a processor"
least "$last" usr 35 "two share a processor"
least "$last" lat 35 "two share a processor"
sum "$last"
begin sleep 1000
least "$last" slp 99 "it sleeps"
sum "$last"
begin taskset -c 0 dd if=/dev/zero of=/dev/null bs=1
least "$last" sys 20 "it calls the kernel, as clock ticks find"
sum "$last"
least "$last" sys 20 "it calls the kernel" --calls
least "$last" scl 1000 "it calls the kernel" --calls
sum "$last" --calls
kill $started
begin taskset -c 0,1 millpond load cg --class S --threads 2 --barrier block --seconds 60
within 20 sh -c "grep -q . /proc/$last/task/*/stat"
least "$last" lck 1 "its threads wait for each other"
sum "$last"
kill "$last"
# In the real-time class prstat shows itself there, before everybody who computes; without rights it says what it needs.
prstat -R -cr --json -n 1000 2 2 >prstat.out &
last=$!
wait "$last" || fail "prstat -R ends with status $?"
tail -n 1 prstat.out | tr '{' '\n' | grep "\"pid\":$last," | grep -q '"class":"RT"' || fail "prstat -R ($last) is not in class RT: $(tail -n 1 prstat.out)"
status=0
says "cannot put prstat into class RT: permission denied" su -s /bin/sh nobody -c 'prstat -R 1 1'
want 1 $status "status of prstat -R without rights"
# Whoever has no rights gets what the kernel keeps, and is told so.
says "TFL, DFL, LCK, SCL, SIG: " su -s /bin/sh nobody -c 'prstat -mc 1 2'
