# limit_s: 300
# leaves: nothing
# What a latstat that was killed had for itself goes back without a command that changes anything: an experiment puts it back before it begins, and a poold
# that waits for pools as soon as it looks.
. /words.sh
# It has processor 2, and is killed.
dies() {
    latstat --cpu 2 >latstat.out 2>latstat.err &
    latstat=$!
    _tries=0
    until psrset -i | grep -q "processor set 1"; do
        _tries=$((_tries + 1))
        [ $_tries -lt 60 ] || fail "latstat makes no set: $(cat latstat.err)"
        sleep 1
    done
    kill -KILL $latstat
    wait $latstat 2>/dev/null || true
    says "processor set 1" psrset -i
    says no-intr psrinfo 2
}
state before

dies
says "process $latstat was killed: processor 2, which it had for itself, was put back" \
    millpond experiment e6 --machine real --samples 20
want 0 $status "status of the experiment: $said"
state now
same before now "after the experiment"

need pooladm -e
poold -l INFO 2>poold.said &
daemon=$!
hears starting
need pooladm -d
hears "waiting for them"
dies
hears "process $latstat was killed: processor 2, which it had for itself, was put back"
silent "processor set" psrset -i
state now
same before now "after poold looked"
kill $daemon
status=0
wait $daemon || status=$?
want 0 $status "status of poold: $(cat poold.said)"
