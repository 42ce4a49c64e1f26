# limit_s: 300
# leaves: nothing
. /classes.sh
starts_schedd --whole --audit
experiment churn 20
stops_schedd
no_complaints
