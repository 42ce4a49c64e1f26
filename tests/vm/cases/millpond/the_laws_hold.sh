# limit_s: 400
# leaves: nothing
live-laws --i-own-this-machine --cases 12
