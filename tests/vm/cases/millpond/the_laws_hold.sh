# limit_s: 400
# leaves: nothing
cases=7
[ ! -e /thorough ] || cases=12
live-laws --i-own-this-machine --cases $cases
