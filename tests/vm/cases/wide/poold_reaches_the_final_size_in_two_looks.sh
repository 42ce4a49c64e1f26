# limit_s: 400
# leaves: nothing
# Counts the samples of poold until the sizes match a new demand. Does not measure time.
. /words.sh

state before
size=$((cpus - 4))
web_of $size
poold -l INFO --record 2>poold.said &
daemon=$!
within 60 grep -q 'configuration complete' poold.said
sleep 3
# The demand begins at once: a stopped shell with its children is bound, and continues.
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
# Afterwards nothing moves while nothing changes.
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
