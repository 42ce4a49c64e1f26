# limit_s: 5400
# leaves: nothing
. /classes.sh
spin 1
turn=0
while [ $turn -lt 100 ]; do
    starts_schedd --whole
    case $((turn % 3)) in
    0) stops_schedd ;;
    *)
        kill -KILL $schedd
        wait $schedd 2>/dev/null || true
        within 30 is_disabled
        ;;
    esac
    turn=$((turn + 1))
done
runs $spinners
no_complaints
