# limit_s: 900
# leaves: nothing
. /classes.sh
starts_schedd --whole --rescue never
experiment vectors
want 11 "$(grep -c '^ok' said)" "vectors"
stops_schedd
