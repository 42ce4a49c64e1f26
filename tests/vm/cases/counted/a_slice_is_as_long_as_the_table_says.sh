# limit_s: 600
# leaves: nothing
. /classes.sh
# Two threads that compute sink to level 0 and alternate there: in this table no wait lifts a thread. This guest's clock counts
# instructions.
table_of() {
    dispadmin -c TS -g | awk -v slice="$1" '
        /^ *[0-9]/ { level = $7; if (level == 0) $1 = slice; $4 = 32000; printf "%d %d %d %d %d # %d\n", $1, $2, $3, $4, $5, level; next }
        { print }' >table.txt
    need dispadmin -c TS -s table.txt
}
# The run time at level 0 in milliseconds, and the number of slices used up there.
at_0() {
    dispadmin --stats | awk '$1 == 0 { print $2, $6 }'
}
starts_schedd --whole --rescue never
spin 2
for slice in 200 20 400; do
    table_of $slice
    # All slices that had begun are over, and every thread is at level 0.
    sleep 2
    set -- $(at_0)
    sleep 8
    set -- $1 $2 $(at_0)
    length=$((($3 - $1) * 100 / ($4 - $2)))
    echo "a slice of $slice ms lasts $((length / 100)).$((length % 100)) ms ($(($4 - $2)) slices)"
    low=$((slice * 95)) high=$((slice * 105))
    [ $length -ge $low ] && [ $length -le $high ] || fail "a slice of $slice ms lasts $length hundredths of a millisecond"
done
stops_schedd
