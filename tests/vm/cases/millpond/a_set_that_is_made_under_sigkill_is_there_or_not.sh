# limit_s: 300
# leaves: nothing
. /killing.sh
killed_anywhere 'psrset -d 1' psrset -c 1-3
