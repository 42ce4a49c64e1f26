# Sockets, cores, threads and nodes in sysfs match the guest's configuration.
cpu=/sys/devices/system/cpu
want "0-$((cpus - 1))" "$(cat $cpu/online)" online
each=$((cpus / nodes))
for node in $(seq 0 $((nodes - 1))); do
    want_file /sys/devices/system/node/node$node/cpulist "$((node * each))-$((node * each + each - 1))"
done
distances=$(for node in $(seq 0 $((nodes - 1))); do [ $node = 0 ] && echo 10 || echo 20; done | xargs)
want_file /sys/devices/system/node/node0/distance "$distances"
per_socket=$((cores * threads))
for n in $(seq 0 $((cpus - 1))); do
    first=$((n / threads * threads))
    siblings=$first
    [ "$threads" = 1 ] || siblings=$first-$((first + threads - 1))
    want_file $cpu/cpu$n/topology/thread_siblings_list "$siblings"
    first=$((n / per_socket * per_socket))
    want_file $cpu/cpu$n/topology/core_siblings_list "$first-$((first + per_socket - 1))"
done
