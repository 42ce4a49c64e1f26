# limit_s: 400
# leaves: nothing
cases=7
[ ! -e /thorough ] || cases=12
[ ! -e /brief ] || cases=2
live-laws --i-own-this-machine --cases $cases
