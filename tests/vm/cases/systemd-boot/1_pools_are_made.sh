# limit_s: 600
. /systemd-words.sh
need systemctl start shop.service store.service
need pooladm -e
need poolcfg -d -c '
    create pset webset ( uint pset.max = 2 )
    create pool web ( int pool.importance = 3 )
    associate pool web ( pset webset )
    transfer to pset webset ( cpu 2 ; cpu 3 )
    modify pset webset ( uint pset.min = 2 )'
need poolbind -p web --unit store.service
need poolbind -p web --unit shop.service --persist
need pooladm -s /etc/pooladm.conf
# The files that a disk would keep.
mkdir -p "$OUT/etc/systemd/system/shop.service.d"
cp /etc/pooladm.conf "$OUT/etc/"
cp /etc/systemd/system/shop.service.d/* "$OUT/etc/systemd/system/shop.service.d/"
