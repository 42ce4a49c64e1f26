# CPU hotplug through the `online` file. Threads move to other CPUs, and the kernel keeps no trace afterwards.
# leaves: nothing
last=$((cpus - 1))
taskset -c $last sh -c 'while :; do :; done' &
busy=$!
within 10 grep -q "^Cpus_allowed_list:.$last\$" /proc/$busy/status
write /sys/devices/system/cpu/cpu$last/online 0
want_file /sys/devices/system/cpu/online "0-$((last - 1))"
want_file /sys/devices/system/cpu/offline "$last"
# Field 39 of stat is the last CPU.
within 10 sh -c "[ \$(awk '{ print \$39 }' /proc/$busy/stat) != $last ]"
write /sys/devices/system/cpu/cpu$last/online 1
want_file /sys/devices/system/cpu/online "0-$last"
kill $busy
