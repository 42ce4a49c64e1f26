# limit_s: 300
# leaves: nothing
. /killing.sh
sleep 1000 &
watched=$!
killed_anywhere "pbind -u $watched" pbind -b 2 $watched
killed_anywhere "pbind -u $watched" pbind -c 1,3 $watched
need psrset -c 2-3
killed_anywhere "psrset -u $watched" psrset -b 1 $watched
need psrset -d 1
kill $watched
