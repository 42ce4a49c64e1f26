# limit_s: 300
# leaves: nothing
. /killing.sh
killed_anywhere 'psradm -n 2' psradm -i 2
