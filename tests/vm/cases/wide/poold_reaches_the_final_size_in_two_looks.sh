# limit_s: 400
# leaves: nothing
# Counted and not timed: in how many of poold's looks the sizes become what a new demand wants.
. /words.sh

state before
size=$((cpus - 4))
web_of $size
poold -l INFO --record 2>poold.said &
daemon=$!
within 60 grep -q 'configuration complete' poold.said
sleep 3
# The demand is there at once: a stopped shell with its children is bound, and goes on.
spin $size
for pid in $spinners; do kill -STOP $pid; done
need poolbind -p web $spinners
sleep 3
record=/run/millpond/poold.decisions
quiet=$(wc -l <$record)
kill -CONT $spinners
gets webset $size
looks=$(tail -n +$((quiet + 1)) $record | awk '
    /"plan":\{"moves":\[\{/ { if (!first) first = NR; last = NR }
    END { print last - first + 1 }')
echo "from 1 to $size processors in $looks looks"
grep 'moved ' poold.said || true
[ "$looks" -le 2 ] || fail "the size was final after $looks looks: $(cat poold.said)"
# And nothing moves any more while nothing changes.
said=$(grep -c 'moved ' poold.said)
sleep 10
want $said "$(grep -c 'moved ' poold.said)" 'moves at a steady load'
kill $spinners
kill $daemon
wait $daemon || want 0 $? "status of poold when it is asked to stop"
need pooladm -d
in_order
state after
same before after "with poold and without it again"
