# limit_s: 300
# leaves: nothing
. /classes.sh
starts_schedd --whole --audit
status=0
live-classes --i-own-this-machine churn 20 >said 2>&1 || status=$?
cat said
want 0 $status "status of the changes: $(cat schedd.said)"
stops_schedd
no_complaints
