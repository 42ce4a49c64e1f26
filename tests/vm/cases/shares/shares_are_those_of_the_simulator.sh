# limit_s: 3600
# leaves: nothing
. /classes.sh
starts_schedd --whole --rescue never
status=0
live-classes --i-own-this-machine shares >said 2>&1 || status=$?
cat said
want 0 $status "status of the shares: $(grep -v '^ok' said)"
want 8 "$(grep -c '^ok' said)" "scenarios"
stops_schedd
