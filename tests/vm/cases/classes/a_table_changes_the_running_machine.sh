# limit_s: 300
# leaves: nothing
. /classes.sh
starts_schedd --whole
dispadmin -c TS -g >standard.txt
# In the standard table, level 59 is the only level without a lift after a wait.
want "        20        49        59       32000        59        #    59" "$(tail -n 1 standard.txt)" "level 59"

sed 's/^       200 /       400 /' standard.txt >slow.txt
need dispadmin -c TS -s slow.txt
need dispadmin -c TS -g
want "$(cat slow.txt)" "$(dispadmin -c TS -g)" "the table that was set"

# An invalid table is refused with the position of the error, and the table is unchanged.
sed '8s/ 0 / 60 /' standard.txt >wrong.txt
status=0
said=$(dispadmin -c TS -s wrong.txt 2>&1) || status=$?
want 1 $status "status of a wrong table"
case $said in *wrong.txt:8:*) ;; *) fail "no place: $said" ;; esac
want "$(cat slow.txt)" "$(dispadmin -c TS -g)" "after a wrong table"

# The next scheduler has the same table, even if this one is killed.
kill -KILL $schedd
wait $schedd 2>/dev/null || true
within 30 is_disabled
starts_schedd --whole
want "$(cat slow.txt)" "$(dispadmin -c TS -g)" "after a restart"
need dispadmin -c TS -s standard.txt

# FX has a separate table.
dispadmin -c FX -g >fx.txt
sed 's/^       200 /       100 /' fx.txt >fx100.txt
need dispadmin -c FX -s fx100.txt
want "$(cat fx100.txt)" "$(dispadmin -c FX -g)" "the table of FX"
want "$(cat standard.txt)" "$(dispadmin -c TS -g)" "the table of TS"
status=0
said=$(dispadmin -c RT -s fx.txt 2>&1) || status=$?
want 1 $status "status of a table of RT"
need dispadmin -c FX -s fx.txt

# Measurements at this time are marked with the loaded scheduler.
case $(mpstat --json) in *'"scheduler":"ext millpond, whole"'*) ;; *) fail "$(mpstat --json)" ;; esac
stops_schedd
case $(mpstat --json) in *'"scheduler":null'*) ;; *) fail "$(mpstat --json)" ;; esac
