# leaves: nothing
. /words.sh
mkdir tiny
mount -t tmpfs -o size=64k,nr_inodes=8,mode=755 tmpfs tiny
dd if=/dev/zero of=tiny/full bs=4096 count=32 2>/dev/null || true
export MILLPOND_STATE=$PWD/tiny
state before
refused 1 psrset -c 2 <<END
psrset: cannot create processor set: the journal cannot be written: $PWD/tiny/journal: No space left on device
hint: nothing was changed; free some space and try again
END
state now
same before now "after the refusal"
status=0
doctor >said 2>&1 || status=$?
want 1 $status "status of doctor on a full disk"
grep -q "the journal cannot be written: its file system has no space left" said || fail "doctor says: $(cat said)"
rm tiny/full
need psrset -c 2
in_order
need psrset -d 1
unset MILLPOND_STATE
umount tiny
state now
same before now "at the end"
