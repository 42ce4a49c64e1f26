# limit_s: 300
# leaves: nothing
. /killing.sh
need psrset -c 2-3
killed_anywhere 'psradm -n 3' psradm -f 3
need psrset -d 1
