/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Futex waits of threads: which calls wait and wake, which words are locks, which thread holds them, and which waits of a thread are
 * remembered. Part of microstates.bpf.c, which has the accounts.
 */

/* Futex system calls: futex, and the newer ones (futex_waitv since 5.16, the others since 6.7). */
#if defined(__TARGET_ARCH_x86)
#define CALL_FUTEX 202
#else
#define CALL_FUTEX 98
#endif
#define CALL_WAITV 449
#define CALL_WAKE 454
#define CALL_WAIT 455
#define CALL_REQUEUE 456

/* Operations of futex, without flags. */
#define OP_MASK 0x7f
#define OP_PRIVATE 0x80
#define OP_WAKE 1
#define OP_REQUEUE 3
#define OP_CMP_REQUEUE 4
#define OP_WAKE_OP 5
#define OP_LOCK_PI 6
#define OP_UNLOCK_PI 7
#define OP_WAKE_BITSET 10
#define OP_WAIT_REQUEUE_PI 11
#define OP_CMP_REQUEUE_PI 12
#define OP_LOCK_PI2 13
/* Flag of futex_wait. */
#define WAIT_PRIVATE 0x80

/* Whether a system call waits at a futex. */
static __always_inline bool is_futex(__u64 call)
{
	return call == CALL_FUTEX || call == CALL_WAITV || (call >= CALL_WAKE && call <= CALL_REQUEUE);
}

#define NO_CALL ((__u64)-1)
#define TRAP_OF_CALLS 8 /* RISC-V: environment call from user mode */

/* The system call that a thread is in, from its saved user registers; NO_CALL after a fault or an interrupt. */
static __always_inline __u64 call_of(struct pt_regs___m *regs)
{
	if (!regs)
		return NO_CALL;
#if defined(__TARGET_ARCH_arm64)
	return (__s64)regs->syscallno;
#elif defined(__TARGET_ARCH_riscv)
	return regs->cause == TRAP_OF_CALLS ? regs->a7 : NO_CALL;
#else
	return regs->orig_ax;
#endif
}

/* An argument of a system call, 0 to 4. */
static __always_inline __u64 argument(struct pt_regs___m *regs, int number)
{
#if defined(__TARGET_ARCH_arm64)
	return number == 0 ? regs->orig_x0 : regs->regs[number];
#elif defined(__TARGET_ARCH_riscv)
	switch (number) {
	case 0:
		return regs->orig_a0;
	case 1:
		return regs->a1;
	case 2:
		return regs->a2;
	case 3:
		return regs->a3;
	default:
		return regs->a4;
	}
#else
	switch (number) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->r10;
	default:
		return regs->r8;
	}
#endif
}

/* Whether a futex call wakes waiters at a word. */
static __always_inline bool wakes_at(struct pt_regs___m *regs, __u64 call, __u64 word)
{
	__u64 operation;

	if (call == CALL_WAKE)
		return argument(regs, 0) == word;
	if (call != CALL_FUTEX)
		return false;
	operation = argument(regs, 1) & OP_MASK;
	if (operation == OP_WAKE_OP && argument(regs, 4) == word)
		return true;
	return argument(regs, 0) == word &&
	       (operation == OP_WAKE || operation == OP_WAKE_BITSET || operation == OP_WAKE_OP ||
		operation == OP_UNLOCK_PI || operation == OP_REQUEUE || operation == OP_CMP_REQUEUE ||
		operation == OP_CMP_REQUEUE_PI);
}

/* Mask of the owner in a word that holds one: without FUTEX_WAITERS and FUTEX_OWNER_DIED. */
#define HOLDER 0x3fffffff
#define HAS_WAITERS 0x80000000
/* The value of a C library mutex with waiters, and the offset of its owner from the word. */
#define CONTENDED 2
#define OWNER_BEHIND 8

/*
 * Notes the futex word that a thread is about to wait at, and its holder if known. User memory is readable only while the thread is on its
 * CPU. The word belongs to the program: its value counts as a holder only if it is the id of a thread of the same process.
 */
static __always_inline void note_lock(struct account *account, struct pt_regs___m *regs, __u64 call, bool is_here)
{
	__u64 operation, at = 0;
	__u32 word = 0;

	account->lock = 0;
	account->value = 0;
	account->holder = 0;
	account->how = SEVERAL;
	account->ended = BY_ANYTHING;
	if (call == CALL_WAITV)
		return;
	account->lock = argument(regs, 0);
	if (call == CALL_WAIT) {
		account->value = argument(regs, 1);
		account->how = argument(regs, 3) & WAIT_PRIVATE ? WAIT : WAIT | SHARED;
	} else {
		operation = argument(regs, 1);
		account->value = argument(regs, 2);
		account->how = operation & OP_PRIVATE ? 0 : SHARED;
		operation &= OP_MASK;
		if (operation == OP_LOCK_PI || operation == OP_LOCK_PI2)
			account->how |= LOCK_PI;
		else if (operation == OP_WAIT_REQUEUE_PI)
			account->how |= REQUEUE_PI;
	}
	switch (account->how & ~SHARED) {
	case LOCK_PI:
		at = account->lock;
		break;
	case WAIT:
		if (account->value & HAS_WAITERS)
			account->holder = account->value & HOLDER;
		else if (account->value == CONTENDED)
			at = account->lock + OWNER_BEHIND;
	}
	if (at && is_here && !bpf_probe_read_user(&word, sizeof(word), (void *)at))
		account->holder = word & HOLDER;
}

static __always_inline struct account *account_of(struct task_struct *task)
{
	return bpf_task_storage_get(&accounts, task, 0, 0);
}

/* How long a thread has run, without the present span. */
static __always_inline __u64 ran(struct account *account)
{
	return account->times[USER] + account->times[SYSTEM];
}

static __always_inline void mark(struct lock *lock, struct account *account, __u64 now)
{
	lock->mark = now;
	lock->mark_ran = ran(account);
	lock->mark_slept = account->times[ASLEEP];
}

/*
 * Whether the last wake-up of a thread that waits again gained nothing, because another thread was faster: the thread then ran for less
 * than a tenth of its usual run time while holding.
 */
#define NOTHING_ONE_IN 10
static __always_inline bool got_nothing(struct lock *lock, struct account *account)
{
	return lock->owes && lock->released &&
	       (ran(account) - lock->mark_ran) * lock->released * NOTHING_ONE_IN < lock->held_ran;
}

/* Adds a wait at a word. */
static __always_inline void add_wait(struct lock *lock, struct account *account, __u64 time)
{
	if (got_nothing(lock, account))
		lock->woken--;
	if (!lock->owes && lock->released)
		lock->apart_ran += ran(account) - lock->mark_ran;
	lock->waited += time;
	if (account->value < lock->least)
		lock->least = account->value;
	if (account->value > lock->most)
		lock->most = account->value;
	lock->how = account->how;
	if (account->holder)
		lock->holder = account->holder;
	/* A wake-up that was not passed on so far: the hold time starts again at this wait's end. */
	mark(lock, account, account->since + time);
	if (account->ended == BY_WAKE_UP) {
		lock->woken++;
		lock->owes = 1;
	} else if (account->ended == BY_END) {
		lock->ends++;
	}
}

static __always_inline void begin_waits(struct lock *lock, struct account *account)
{
	__builtin_memset(lock, 0, sizeof(*lock));
	lock->address = account->lock;
	lock->least = account->value;
	lock->most = account->value;
}

/* Remembers the words with the longest waits. A new word replaces one only if its single wait was longer than the other's total. */
static __always_inline void blame(struct task_struct *task, struct account *account, __u32 was, __u64 time)
{
	struct causes *causes;
	__u32 least = 0;

	if (was != LOCK && !(was == ASLEEP && account->disk))
		return;
	/* Created at first sight or fork: memory cannot be allocated here, within a switch. */
	causes = bpf_task_storage_get(&causes_of, task, 0, 0);
	if (!causes)
		return;
	if (was != LOCK) {
		causes->disk += time;
		return;
	}
#pragma clang loop unroll(full)
	for (int i = 0; i < LOCKS; i++) {
		if (causes->locks[i].waited && causes->locks[i].address == account->lock) {
			add_wait(&causes->locks[i], account, time);
			return;
		}
		if (causes->locks[i].waited < causes->locks[least & (LOCKS - 1)].waited)
			least = i;
	}
	least &= LOCKS - 1;
	if (time <= causes->locks[least].waited) {
		causes->forgotten += time;
		return;
	}
	causes->forgotten += causes->locks[least].waited;
	begin_waits(&causes->locks[least], account);
	add_wait(&causes->locks[least], account, time);
}

/* A thread makes a wake call at a word at which it was woken itself: it releases what it had acquired there. */
static __always_inline void release(struct task_struct *task, struct account *account)
{
	struct pt_regs___m *regs = (void *)bpf_task_pt_regs(task);
	__u64 call = call_of(regs);
	struct causes *causes;

	if (call != CALL_FUTEX && call != CALL_WAKE)
		return;
	causes = bpf_task_storage_get(&causes_of, task, 0, 0);
	if (!causes)
		return;
#pragma clang loop unroll(full)
	for (int i = 0; i < LOCKS; i++) {
		struct lock *lock = &causes->locks[i];

		if ((!lock->owes && !lock->released) || !wakes_at(regs, call, lock->address))
			continue;
		if (lock->owes) {
			lock->owes = 0;
			lock->released++;
			lock->held += account->since - lock->mark;
			lock->held_ran += ran(account) - lock->mark_ran;
			lock->held_slept += account->times[ASLEEP] - lock->mark_slept;
		}
		/*
		 * A further wake call without a wait between: the thread took the lock again before the woken thread, and held it until
		 * now.
		 */
		mark(lock, account, account->since);
	}
}
