# limit_s: 300
# leaves: nothing
. /classes.sh
starts_schedd --whole
dispadmin -c TS -g >standard.txt
# Level 59 of the standard table is the only one that no wait lifts.
want "        20        49        59       32000        59        #    59" "$(tail -n 1 standard.txt)" "level 59"

sed 's/^       200 /       400 /' standard.txt >slow.txt
need dispadmin -c TS -s slow.txt
need dispadmin -c TS -g
want "$(cat slow.txt)" "$(dispadmin -c TS -g)" "the table that was set"

# One that is wrong is refused with its place, and the table stays.
sed '8s/ 0 / 60 /' standard.txt >wrong.txt
status=0
said=$(dispadmin -c TS -s wrong.txt 2>&1) || status=$?
want 1 $status "status of a wrong table"
case $said in *wrong.txt:8:*) ;; *) fail "no place: $said" ;; esac
want "$(cat slow.txt)" "$(dispadmin -c TS -g)" "after a wrong table"

# The next scheduler has the same table, also when this one is killed.
kill -KILL $schedd
wait $schedd 2>/dev/null || true
within 30 is_disabled
starts_schedd --whole
want "$(cat slow.txt)" "$(dispadmin -c TS -g)" "after a restart"
need dispadmin -c TS -s standard.txt

# A table of FX is another one.
dispadmin -c FX -g >fx.txt
sed 's/^       200 /       100 /' fx.txt >fx100.txt
need dispadmin -c FX -s fx100.txt
want "$(cat fx100.txt)" "$(dispadmin -c FX -g)" "the table of FX"
want "$(cat standard.txt)" "$(dispadmin -c TS -g)" "the table of TS"
status=0
said=$(dispadmin -c RT -s fx.txt 2>&1) || status=$?
want 1 $status "status of a table of RT"
need dispadmin -c FX -s fx.txt

# What is measured meanwhile is not taken for the kernel's own scheduler.
case $(mpstat --json) in *'"scheduler":"ext millpond, whole"'*) ;; *) fail "$(mpstat --json)" ;; esac
stops_schedd
case $(mpstat --json) in *'"scheduler":null'*) ;; *) fail "$(mpstat --json)" ;; esac
