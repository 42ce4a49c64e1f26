# limit_s: 900
# leaves: nothing
. /classes.sh
starts_schedd --whole --rescue never
status=0
live-classes --i-own-this-machine vectors >said 2>&1 || status=$?
cat said
want 0 $status "status of the vectors: $(grep -v '^ok' said)"
want 11 "$(grep -c '^ok' said)" "vectors"
stops_schedd
