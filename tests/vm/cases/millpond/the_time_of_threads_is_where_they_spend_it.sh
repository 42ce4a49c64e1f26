# limit_s: 240
# prstat -m with BPF programs: a thread that computes is in user mode, a sleeping one is asleep, two on one CPU wait for half of
# the time, a thread that waits for others of its program waits for a lock, and a thread that only makes system calls is in the
# kernel. Checks relations, with tolerance for slow machines. There is no check of leftovers: prstat changes nothing, and on such
# a busy machine rescuers of kernel work (rcu_gp) bind themselves to the CPU that needs them.
. /words.sh

# look PID [OPTION]: run prstat for two reports; least and sum refer to figures of the second one, in percent. Columns are those
# of the listing.
look() {
    pid=$1
    need prstat -mcr --json ${2:-} -p "$pid" 3 2
    figures=$(echo "$said" | tail -n 1 | tr ',{}' '\n\n\n')
}
least() {
    _is=$(echo "$figures" | sed -n "s/^\"$1\"://p" | head -n 1)
    awk "BEGIN { exit !(\"$_is\" != \"\" && \"$_is\" != \"null\" && $_is + 0 >= $2) }" || fail "$3: $1 of process $pid is $_is, not $2: $said"
}
sum() {
    _sum=$(echo "$figures" | sed -n 's/^"\(usr\|sys\|tfl\|dfl\|lck\|slp\|lat\)"://p' | awk '{ s += $1 } END { print s }')
    awk "BEGIN { exit !($_sum > 99.9 && $_sum < 100.1) }" || fail "the microstates of process $pid add up to $_sum: $said"
}
begin() {
    "$@" &
    last=$!
    started="$started $last"
}
started=

begin taskset -c 1 sh -c 'while :; do :; done'
look "$last"
least usr 80 "it computes alone"
sum
begin taskset -c 1 sh -c 'while :; do :; done'
look "$last"
least usr 35 "two share a processor"
least lat 35 "two share a processor"
sum
begin sleep 1000
look "$last"
least slp 99 "it sleeps"
sum
begin taskset -c 0 dd if=/dev/zero of=/dev/null bs=1
look "$last"
least sys 20 "it calls the kernel, as clock ticks find"
sum
look "$last" --calls
least sys 20 "it calls the kernel"
least scl 1000 "it calls the kernel"
sum
kill $started
begin taskset -c 0,1 millpond load cg --class S --threads 2 --barrier block --seconds 60
within 20 sh -c "grep -q . /proc/$last/task/*/stat"
look "$last"
least lck 1 "its threads wait for each other"
sum
kill "$last"
# In the real-time class prstat runs before all threads that compute. Without rights it reports what it needs.
prstat -R -cr --json -n 1000 2 2 >prstat.out &
last=$!
wait "$last" || fail "prstat -R ends with status $?"
tail -n 1 prstat.out | tr '{' '\n' | grep "\"pid\":$last," | grep -q '"class":"RT"' || fail "prstat -R ($last) is not in class RT: $(tail -n 1 prstat.out)"
status=0
says "cannot put prstat into class RT: permission denied" su -s /bin/sh nobody -c 'prstat -R 1 1'
want 1 $status "status of prstat -R without rights"
# Without rights the figures are those that the kernel keeps, with a note.
says "TFL, DFL, LCK, SCL, SIG: " su -s /bin/sh nobody -c 'prstat -mc 1 2'
