# limit_s: 300
# leaves: nothing
# The CPU that a killed latstat had reserved is released without a command that makes a change: an experiment releases it before
# it begins, and a poold that waits for pools at its next check.
. /words.sh
# Its probe ends after it.
dies() {
    latstat_begins
    kill -KILL $latstat
    wait $latstat 2>/dev/null || true
}
state before

dies
says "processor set 1" psrset -i
says no-intr psrinfo 2
says "process $latstat was killed: CPU 2, which it had for itself, was put back" \
    millpond experiment e6 --machine real --samples 1000
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
hears "process $latstat was killed: CPU 2, which it had for itself, was put back"
silent "processor set" psrset -i
state now
same before now "after poold looked"
kill $daemon
status=0
wait $daemon || status=$?
want 0 $status "status of poold: $(cat poold.said)"
