# limit_s: 300
# leaves: nothing
. /classes.sh
spin 1
# A script has its own process name.
printf '#!/bin/sh\nsleep 0.1\n' >stalled
chmod +x stalled
for what in stall idle; do
    adversary $what 60 >said 2>&1 &
    adversary=$!
    grep_attached() {
        grep -q '^attached' said || ! [ -d /proc/$adversary ]
    }
    within 60 grep_attached
    grep -q 'describes functions of sched_ext wrongly\|WrongTypes' said && skip "this kernel describes functions of sched_ext wrongly"
    # A thread that the scheduler never queues.
    [ $what = idle ] || ./stalled &
    status=0
    wait $adversary || status=$?
    grep -q '^ended: 1026 ' said || fail "$what: $(cat said)"
    within 30 is_disabled
done
# Endless kicks are not an error for the kernel: the scheduler runs until its process is killed.
adversary kick 60 >said 2>&1 &
adversary=$!
within 60 grep_attached
sleep 3
kill -KILL $adversary
wait $adversary 2>/dev/null || true
within 30 is_disabled
# The machine still works.
runs $spinners
