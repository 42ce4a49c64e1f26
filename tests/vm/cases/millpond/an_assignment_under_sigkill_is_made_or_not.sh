# limit_s: 300
# leaves: nothing
. /killing.sh
sleep 1000 &
watched=$!
need psrset -c 1
need psrset -b 1 $watched
killed_anywhere 'psrset -r 2' psrset -a 1 2
need psrset -d 1
kill $watched
