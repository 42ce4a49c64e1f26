# limit_s: 600
. /systemd-words.sh
service one
one=$pid
service two
two=$pid
service bystander
bystander=$pid
need psrset -c 2 3
need psrset -b -z one.service 1
need psrset -b -z two.service 1
want 2-3 "$(cpus_of $one)" one
want 2-3 "$(cpus_of $two)" two
want 0-1,4-7 "$(cpus_of $bystander)" bystander
want '0-1 4-7' "$(systemctl show -P AllowedCPUs init.scope)" init.scope
want 0-1,4-7 "$(cpus_of 1)" systemd
need systemctl daemon-reload
want 2-3 "$(cpus_of $one)" 'one after a reload'
want 0-1,4-7 "$(cpus_of $bystander)" 'bystander after a reload'
need psrset -d 1
for process in $one $two $bystander 1; do
    want 0-7 "$(cpus_of $process)" "process $process"
done
for unit in one.service two.service bystander.service init.scope system.slice; do
    want '' "$(systemctl show -P AllowedCPUs $unit)" "$unit"
done
need systemctl stop one.service two.service bystander.service
want_nothing_left
