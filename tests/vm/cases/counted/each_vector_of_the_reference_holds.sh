# limit_s: 900
# leaves: nothing
. /classes.sh
# The vectors are of Solaris' rule: each wake-up of a better thread preempts.
starts_schedd --whole --rescue never --parity 0
experiment vectors
want 11 "$(grep -c '^ok' said)" "vectors"
stops_schedd
