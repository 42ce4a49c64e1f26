# A shell with arrays, children and pipes. The output is always the same.
declare -A seen
for at in {1..3000}; do seen[key$((at % 700))]+=$at; done
echo ${#seen[@]} ${#seen[key3]}
text=$(for at in {1..2000}; do echo "$at $((at * at))"; done | sort -r | head -3)
echo "$text"
for at in 1 2 3 4 5; do (long=$(printf '%*s' 100000 x); echo ${#long}) & wait; done
exec 2>&-
missing-program-of-no-name || echo $?
