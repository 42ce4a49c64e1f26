# limit_s: 600
# leaves: nothing
kernel_threads=yes
. /killing.sh
fence=$(dirname "$(command -v millpond)")/fence
printf '#!/bin/sh\nexec millpond fence "$@"\n' >"$fence"
chmod 755 "$fence"
killed_anywhere 'fence --off t' fence --name t 2-3
rm "$fence"
