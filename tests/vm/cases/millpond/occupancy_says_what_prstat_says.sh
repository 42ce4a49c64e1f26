# limit_s: 240
# Two threads that compute, each alone on a CPU, occupy two CPUs: as measured at switches by a BPF program, by samples (however
# few or many are taken), and by prstat. A slow machine takes fewer samples than it should, which must not reduce the figures.
. /words.sh

taskset -c 0 sh -c 'while :; do :; done' &
one=$!
taskset -c 1 sh -c 'while :; do :; done' &
two=$!

# all OPTION...: print the last column of the report of occupancy.
all() {
    need millpond occupancy "$@" "$one,$two" 3 1
    figure=$(echo "$said" | awk '$1 ~ /^[0-9]+,/ { print $NF }')
}
between() {
    awk "BEGIN { exit !(\"$2\" != \"\" && $2 + 0 >= $1 && $2 + 0 <= $3) }" || fail "$4: $2 is not between $1 and $3: $said"
}

all
measured=$figure
between 150 "$measured" 201 "measured"
need prstat -mcL --json -p "$one,$two" 3 2
# The threads of the second report, user and system time together.
prstat=$(echo "$said" | tail -n 1 | tr ',{}' '\n\n\n' | sed -n 's/^"\(usr\|sys\)"://p' | awk '{ s += $1 } END { print s }')
between "$(awk "BEGIN { print $measured - 30 }")" "$prstat" "$(awk "BEGIN { print $measured + 30 }")" "prstat -mL beside occupancy"
for frequency in 97 4997; do
    all --frequency "$frequency"
    between 140 "$figure" 201 "samples, $frequency a second"
done
kill $one $two
in_order
