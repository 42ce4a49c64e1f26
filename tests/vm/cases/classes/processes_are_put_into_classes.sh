# limit_s: 300
# leaves: nothing
. /classes.sh
spin 2
set -- $spinners
one=$1 two=$2
starts_schedd --whole
is_nice() {
    [ "$(class_of $two)" = " $two -30 -30" ]
}
is_seven() {
    [ "$(class_of $sleeper)" = " $sleeper 7 7 200" ]
}
is_in_the_background() {
    [ "$(class_of $two)" = " $two 0 0 0" ]
}
is_five() {
    [ "$(class_of $one)" = " $one 10 5 50" ]
}
class_of() {
    priocntl -d "$1" 2>/dev/null | tail -n 1 | tr -s ' '
}
want " $1 0 0" "$(class_of $1)" "a process in TS"
need priocntl -s -c TS -m 20 -p 10 $1
want " $1 20 10" "$(class_of $1)" "with a user priority"
need priocntl -s -c FX -m 10 -p 5 -t 50 $1
want " $1 10 5 50" "$(class_of $1)" "in FX"
need priocntl -s -c IA $1
want " $1 0 0 1" "$(class_of $1)" "in IA"
need priocntl -s -c RT -p 3 $1
case $(class_of $1) in " $1 3 "*) ;; *) fail "not in RT: $(priocntl -d $1)" ;; esac
need priocntl -s -c FX -m 0 -p 0 $1
case $(class_of $1) in " $1 0 0 "*) ;; *) fail "not in FX 0: $(priocntl -d $1)" ;; esac

# One nice level is three points of user priority.
renice -n 10 -p $2 >/dev/null
within 10 is_nice
want " $2 -30 -30" "$(class_of $2)" "a nice process"

# Start a command in a class.
priocntl -e -c FX -m 7 -p 7 sleep 100 &
sleeper=$!
within 20 is_seven
kill $sleeper

# Classes persist for the next scheduler, also for children that are forked later.
need priocntl -s -c FX -m 10 -p 5 -t 50 $1
priocntl -e -c FX -m 7 -p 7 sh -c 'sleep 100 & echo $! >child; wait' &
parent=$!
within 20 test -s child
sleeper=$(cat child)
within 20 is_seven
need priocntl -s -c IA -m 0 -p 0 -t 0 $2
want " $2 0 0 0" "$(class_of $2)" "in the background by command"
kill -KILL $schedd
wait $schedd 2>/dev/null || true
within 30 is_disabled
# Without the scheduler, the class follows from the kernel's policy.
want " $1 0 0" "$(class_of $1)" "without a scheduler"
starts_schedd --whole
within 20 is_five
within 20 is_seven
within 20 is_in_the_background
kill $sleeper
wait $parent || true
stops_schedd
