# limit_s: 900
. /systemd-words.sh
. /packages-words.sh
need /usr/bin/dpkg --purge $(ours)
want '' "$(ours)" 'packages'
listed >/.vm/listed.after
diff /.vm/listed.before /.vm/listed.after >/.vm/listed.diff || fail "the disk differs: $(cat /.vm/listed.diff)"
