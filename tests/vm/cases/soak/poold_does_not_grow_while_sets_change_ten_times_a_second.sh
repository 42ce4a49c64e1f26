# limit_s: 1800
# leaves: nothing
# The test of poold on the host (bin/millpond/tests/machine/poold_soak.rs), with enough CPUs for some to move.
. /words.sh

mkdir -p /tmp
export MILLPOND_BIN_MILLPOND=/usr/local/bin/millpond MILLPOND_POOLD_SECONDS=600
state before
need poold-soak --nocapture --test-threads 1 poold_does_not_grow
echo "$said"
case $said in *"skipped: "*) skip "${said##*skipped: }" "run it on a quiet machine" ;; esac
in_order
state after
same before after "with poold and without it again"
