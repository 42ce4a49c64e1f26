# limit_s: 120
# leaves: nothing
. /words.sh
grep -q bpf_get_current_task_btf /proc/kallsyms 2>/dev/null || [ -e /sys/kernel/btf/vmlinux ] || skip "this kernel does not describe its types"
# Three threads that compute on one CPU.
spin 3
need pbind -b 1 $spinners
first=${spinners# }
first=${first%% *}
need millpond diagnose --for 4 $first
case $said in *"It is runnable and waits for a CPU for "*) ;; *) fail "it waits for a CPU: $said" ;; esac
case $said in *"It computes in user mode for "*) ;; *) fail "it computes, too: $said" ;; esac
kill $spinners
wait $spinners || true
# A thread that sleeps, in a pool.
need pooladm -e
need poolcfg -d -c 'create pset diagset ( uint pset.min = 1; uint pset.max = 1 )'
need poolcfg -d -c 'transfer 1 from pset pset_default to diagset'
need poolcfg -d -c 'create pool diag'
need poolcfg -d -c 'associate pool diag ( pset diagset )'
sleep 1000 &
sleeper=$!
need poolbind -p diag $sleeper
need millpond diagnose --for 2 diag
case $said in *"It is idle: its threads sleep or wait for work for 100 % of all time."*) ;; *) fail "it sleeps: $said" ;; esac
case $said in "pool diag: 1 process, 1 thread for "*) ;; *) fail "the head line: $said" ;; esac
# A thread with expensive system calls: each clears 64 KiB. With calls for one byte an emulated machine spends as much time in
# user mode.
dd if=/dev/zero of=/dev/null bs=64k 2>/dev/null &
caller=$!
need millpond diagnose --for 2 --json $caller
case $said in *'"kind":"kernel"'*) ;; *) fail "it is in the kernel: $said" ;; esac
kill $caller $sleeper
wait $caller $sleeper || true
need pooladm -d
in_order
