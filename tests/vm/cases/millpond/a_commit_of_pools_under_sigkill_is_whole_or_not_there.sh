# limit_s: 400
# leaves: nothing
. /killing.sh
sleep 1000 &
watched=$!
web_of 2
need poolbind -p web $watched
need pooladm -s /before.conf
need poolcfg -d -c '
    create pset shop ( uint pset.max = 1 ; uint pset.min = 1 )
    create pool shop ( int pool.importance = 7 )
    associate pool shop ( pset shop )
    transfer to pset shop ( cpu 3 )
    associate pool web ( pset shop )'
need pooladm -s /after.conf
need pooladm -c /before.conf
killed_anywhere 'pooladm -c /before.conf' pooladm -c /after.conf
need pooladm -d
kill $watched
