# limit_s: 3600
# leaves: nothing
. /classes.sh
starts_schedd --whole
experiment shares
want 8 "$(grep -c '^ok' said)" "scenarios"
stops_schedd
