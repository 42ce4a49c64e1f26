# limit_s: 300
# leaves: nothing
. /killing.sh
sleep 1000 &
watched=$!
sleep 1000 &
watched="$watched $!"
need psrset -c 1-2
need psrset -b 1 $watched
killed_anywhere "psrset -c 1-2 && psrset -b 1 $watched" psrset -d 1
need psrset -d 1
kill $watched
