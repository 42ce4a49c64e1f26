# limit_s: 240
# leaves: nothing
. /words.sh
# More of them on a large guest would only alternate, because emulated CPUs share one host CPU.
spin $((cpus < 8 ? cpus : 8))
others=$spinners
spin 2
members=$spinners
need psrset -c 2-3
need psrset -b 1 $members
in_order
# Repeatedly list the threads that are running at this moment, and their CPUs.
on_members=0
elsewhere=0
n=0
while [ $n -lt 60 ] && { [ $on_members -lt 60 ] || [ $elsewhere -lt 60 ]; }; do
    running_on >seen
    while read -r pid cpu; do
        case " $members " in
        *" $pid "*)
            case $cpu in 2 | 3) on_members=$((on_members + 1)) ;; *) fail "member $pid runs on $cpu" ;; esac
            ;;
        *)
            case $cpu in 2 | 3) fail "process $pid runs on processor $cpu of the set: $(cat /proc/$pid/stat)" ;; esac
            elsewhere=$((elsewhere + 1))
            ;;
        esac
    done <seen
    n=$((n + 1))
done
echo "$on_members sightings of members, $elsewhere of others"
[ $on_members -ge 60 ] && [ $elsewhere -ge 60 ] || fail "too few sightings: $on_members and $elsewhere"
need psrset -d 1
kill $members $others
