/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The rules of the scheduling classes TS, IA and FX: how an event changes the scheduling state of one thread, by the dispatch tables.
 *
 * The rules use no kernel, clock or queue. They are compiled twice: for BPF, where they schedule a running machine (slices in nanoseconds),
 * and for the host, where tests compare them with the simulator (slices in clock ticks). They follow ts_dptbl(5), fx_dptbl(5) and
 * priocntl(1); names of columns and steps are Solaris' own.
 *
 *   event                        rule                        afterwards the thread goes
 *   a part of the slice passed   rule_charge                 on, or asks for another thread (1)
 *   a better thread waits        rule_surrender              asks for another thread
 *   it leaves its CPU            rule_preempt                to the given end of its level
 *   it is about to sleep         rule_boost_if_due           to sleep
 *   it becomes runnable          rule_wakeup                 to the given end of its level
 *   a second passed              rule_update_running         on; 1: rule_boost_if_due when it is next in user mode
 *                                rule_update_queued          1: to the given end of its new level
 *                                rule_update_asleep          on sleeping
 *   it yields                    rule_yield                  to the back of its level
 *   it forks                     rule_fork_child, rule_fork_parent
 *   a user changes it            rule_set, rule_nice         queued: to the given end of its level
 *   its terminal's foreground    rule_foreground             the same
 *   becomes another one
 *
 * For the BPF verifier: every loop has a constant bound, there is no pointer arithmetic, and no memory but the arguments is used. Levels
 * are limited where they index a table and where they come from one: any tables and any state lead to valid levels, and no sum overflows.
 */
#ifndef MILLPOND_RULES_H
#define MILLPOND_RULES_H

enum {
	RULE_TS_LEVELS = 60,
	RULE_TS_TOP = 59,
	/* The system priority (cpupri) of a thread that enters TS or IA. */
	RULE_TS_ENTRY = 29,
	RULE_FX_LEVELS = 61,
	RULE_FX_TOP = 60,
	/* The largest user priority (upri); its negative is the smallest. */
	RULE_UPRI_MAX = 60,
	/* IA: added to the level in the foreground, subtracted in the background. */
	RULE_IA_BOOST = 10,
	/* The level below all others: threads that run only on otherwise idle CPUs. */
	RULE_BACKGROUND = -1,
	RULE_SYS_LOWEST = 60,
	RULE_SYS_HIGHEST = 99,
};

/* Solaris' class numbers; the last one is Linux' SCHED_IDLE. */
enum rule_class {
	RULE_SYS = 0,
	RULE_TS = 1,
	RULE_FX = 2,
	RULE_IA = 4,
	RULE_IDLE = 5,
};

/* The end of its level's queue that a thread goes to. */
enum rule_end {
	RULE_FRONT = 0,
	RULE_BACK = 1,
	/* It keeps its place; only after a change by a user. */
	RULE_STAYS = 2,
};

/* The place of a thread when a user changes it. */
enum rule_place {
	RULE_ASLEEP = 0,
	RULE_QUEUED = 1,
	RULE_RUNNING = 2,
	/* It runs, and after the change a thread of a higher level waits for its CPU. */
	RULE_OUTRANKED = 3,
};

#define RULE_FOREVER 0x7fffffffffffffffLL

/* A row of the TS and IA table. cpupri selects the row; for maxwait the level does. */
struct rule_ts_row {
	/* The slice, and the cpupri after its end. */
	long long quantum;
	int tqexp;
	/* The cpupri after too long a wait: on the return to user mode, and while queued or asleep. */
	int slpret;
	int lwait;
	/* The longest wait in seconds; a longer one is too long. */
	unsigned int maxwait;
};

struct rule_tables {
	struct rule_ts_row ts[RULE_TS_LEVELS];
	/* The default slices of FX, by level. */
	long long fx[RULE_FX_LEVELS];
	/* The slice of kernel threads and of SCHED_IDLE threads. */
	long long sys;
};

struct rule_thread {
	/* Rest of the slice; negative after an overrun. */
	long long timeleft;
	/* FX: the slice. */
	long long quantum;
	/* TS, IA: seconds since the slice began, counted by the once-per-second update. */
	unsigned int dispwait;
	/* enum rule_class */
	int klass;
	/* TS, IA: system priority, user priority, its limit, and the IA boost. */
	int cpupri;
	int upri;
	int uprilim;
	int boost;
	/* The level, -1 to 99. In TS and IA the sum of the three parts, limited to 0 to 59. */
	int pri;
	/* 1: when it leaves its CPU it goes to the back of its level, with a full slice. */
	int back;
};

#define RULE static inline __attribute__((always_inline, unused))

/* A loop over `i` from 0 below a constant. For BPF the includer defines one whose iterations are not verified one by one. */
#ifndef RULE_FOR
#define RULE_FOR(i, count) for (i = 0; i < (count); i++)
#endif

RULE int rule_clamp(int value, int lowest, int highest)
{
	return value < lowest ? lowest : value > highest ? highest : value;
}

RULE const struct rule_ts_row *rule_row(const struct rule_tables *t, int level)
{
	unsigned int at = level;

	if (at >= RULE_TS_LEVELS)
		at = RULE_TS_TOP;
	return &t->ts[at];
}

RULE int rule_is_ts(const struct rule_thread *s)
{
	return s->klass == RULE_TS || s->klass == RULE_IA;
}

/* Computes the level from its parts. */
RULE void rule_level(struct rule_thread *s)
{
	long long sum = (long long)s->cpupri + s->upri + s->boost;

	s->pri = sum < 0 ? 0 : sum > RULE_TS_TOP ? RULE_TS_TOP : (int)sum;
}

/* Sets cpupri to a value of a table, and starts a new wait. */
RULE void rule_move(struct rule_thread *s, int level)
{
	s->cpupri = rule_clamp(level, 0, RULE_TS_TOP);
	rule_level(s);
	s->dispwait = 0;
}

RULE long long rule_slice(const struct rule_thread *s, const struct rule_tables *t)
{
	if (rule_is_ts(s))
		return rule_row(t, s->cpupri)->quantum;
	return s->klass == RULE_FX ? s->quantum : t->sys;
}

RULE int rule_ia_boost(int klass, int foreground)
{
	return klass != RULE_IA ? 0 : foreground ? RULE_IA_BOOST : -RULE_IA_BOOST;
}

/* The queue end for a thread of IA; for other classes `otherwise`. */
RULE int rule_end_of(const struct rule_thread *s, int otherwise)
{
	return s->klass != RULE_IA ? otherwise : s->boost > 0 ? RULE_FRONT : RULE_BACK;
}

/* The default slice of an FX level. */
RULE long long rule_fx_quantum(const struct rule_tables *t, int level)
{
	unsigned int at = level;

	if (at >= RULE_FX_LEVELS)
		at = RULE_FX_TOP;
	return t->fx[at];
}

/*
 * Enters a class. TS, IA, FX: `uprilim` and `upri`; IA: `foreground`; FX: `quantum`. SYS: `upri` is the level. Values are limited to the
 * ranges of the class, and `upri` to `uprilim`.
 */
RULE void rule_enter(struct rule_thread *s, const struct rule_tables *t, int klass, int uprilim, int upri, int foreground,
		     long long quantum)
{
	s->klass = klass;
	s->dispwait = 0;
	s->back = 0;
	s->quantum = 0;
	s->boost = 0;
	s->cpupri = 0;
	if (klass == RULE_TS || klass == RULE_IA) {
		s->uprilim = rule_clamp(uprilim, -RULE_UPRI_MAX, RULE_UPRI_MAX);
		s->upri = rule_clamp(upri, -RULE_UPRI_MAX, s->uprilim);
		s->boost = rule_ia_boost(klass, foreground);
		s->cpupri = RULE_TS_ENTRY;
		rule_level(s);
	} else if (klass == RULE_FX) {
		s->uprilim = rule_clamp(uprilim, 0, RULE_FX_TOP);
		s->upri = s->pri = rule_clamp(upri, 0, s->uprilim);
		s->quantum = quantum;
	} else {
		s->upri = s->uprilim = 0;
		s->pri = klass == RULE_SYS ? rule_clamp(upri, RULE_SYS_LOWEST, RULE_SYS_HIGHEST) : RULE_BACKGROUND;
	}
	s->timeleft = rule_slice(s, t);
}

/* The slice has ended: lowers cpupri. The caller refills the slice. */
RULE void rule_expire(struct rule_thread *s, const struct rule_tables *t)
{
	if (!rule_is_ts(s))
		return;
	rule_move(s, rule_row(t, s->cpupri)->tqexp);
}

RULE int rule_charge(struct rule_thread *s, const struct rule_tables *t, long long ran)
{
	if (s->timeleft == RULE_FOREVER)
		return 0;
	/* Unsigned arithmetic: any `timeleft` is defined behaviour. */
	s->timeleft = (long long)((unsigned long long)s->timeleft - (unsigned long long)ran);
	if (s->timeleft > 0)
		return 0;
	rule_expire(s, t);
	s->back = 1;
	return 1;
}

RULE void rule_surrender(struct rule_thread *s)
{
	s->back = 1;
}

/* The thread is preempted: it keeps the rest of its slice, unless it goes to the back. */
RULE int rule_preempt(struct rule_thread *s, const struct rule_tables *t)
{
	if (!s->back)
		return RULE_FRONT;
	s->back = 0;
	s->timeleft = rule_slice(s, t);
	s->dispwait = 0;
	return RULE_BACK;
}

RULE int rule_waited_too_long(const struct rule_thread *s, const struct rule_tables *t)
{
	return rule_is_ts(s) && s->dispwait > rule_row(t, s->pri)->maxwait;
}

/* Boosts a thread that waited too long: before a sleep, at a wake-up, on the return to user mode. Returns 1 if it did. */
RULE int rule_boost_if_due(struct rule_thread *s, const struct rule_tables *t)
{
	if (!rule_waited_too_long(s, t))
		return 0;
	rule_move(s, rule_row(t, s->cpupri)->slpret);
	s->timeleft = rule_slice(s, t);
	return 1;
}

/* No wait of this length is too long by any table: rule_wakeup needs none then. */
RULE int rule_has_not_waited(const struct rule_thread *s)
{
	return !s->dispwait;
}

/* `same_tick`: it already ran during this clock tick. `t` may be missing after rule_has_not_waited; else a due boost is left out without it. */
RULE int rule_wakeup(struct rule_thread *s, const struct rule_tables *t, int same_tick)
{
	if (t && !rule_has_not_waited(s))
		rule_boost_if_due(s, t);
	s->back = 0;
	return rule_end_of(s, same_tick ? RULE_FRONT : RULE_BACK);
}

/* Adds seconds to dispwait, which saturates. */
RULE void rule_count(struct rule_thread *s, unsigned long long seconds)
{
	unsigned long long sum = s->dispwait + seconds;

	s->dispwait = sum > 0xffffffffULL ? 0xffffffffU : (unsigned int)sum;
}

RULE int rule_update_running(struct rule_thread *s, const struct rule_tables *t)
{
	if (!rule_is_ts(s))
		return 0;
	rule_count(s, 1);
	return rule_waited_too_long(s, t);
}

/* Sets cpupri to lwait, after too long a wait. */
RULE void rule_promote(struct rule_thread *s, const struct rule_tables *t)
{
	rule_move(s, rule_row(t, s->cpupri)->lwait);
}

RULE int rule_update_queued(struct rule_thread *s, const struct rule_tables *t)
{
	int before = s->pri;

	if (!rule_update_running(s, t))
		return 0;
	rule_promote(s, t);
	if (s->pri == before)
		return 0;
	s->timeleft = rule_slice(s, t);
	return 1;
}

/* Seconds until the thread is promoted at its present level, from `dispwait` on. */
RULE unsigned long long rule_until_promoted(const struct rule_thread *s, const struct rule_tables *t)
{
	unsigned int most = rule_row(t, s->pri)->maxwait;

	/* dispwait cannot exceed this limit: the thread is never promoted. */
	if (most == 0xffffffffU)
		return 0xffffffffffffffffULL;
	return most > s->dispwait ? (unsigned long long)most + 1 - s->dispwait : 1;
}

/* A function called in loops. For BPF the includer makes it a separate function, which is verified once instead of per iteration. */
#ifndef RULE_ROUND
#define RULE_ROUND RULE
#endif

/*
 * Applies one promotion to a thread that waits for `seconds`, if they suffice; else counts them. `queued`: refills the slice. Returns the
 * remaining seconds.
 */
RULE_ROUND unsigned long long rule_wait_one(struct rule_thread *s, const struct rule_tables *t, unsigned long long seconds, int queued)
{
	unsigned long long until;
	int before;

	if (!s || !t)
		return 0;
	until = rule_until_promoted(s, t);
	before = s->pri;
	if (seconds < until) {
		rule_count(s, seconds);
		return 0;
	}
	rule_promote(s, t);
	if (s->pri != before) {
		if (queued)
			s->timeleft = rule_slice(s, t);
		else
			s->back = 1;
	}
	return seconds - until;
}

/* Applies one promotion. Returns the seconds that it takes. */
RULE_ROUND unsigned long long rule_promote_one(struct rule_thread *s, const struct rule_tables *t)
{
	unsigned long long until;

	if (!s || !t)
		return 0;
	until = rule_until_promoted(s, t);
	rule_promote(s, t);
	return until;
}

/* After this many promotions a level has occurred twice, because there are only this many levels. */
#define RULE_ROUNDS RULE_TS_LEVELS

/*
 * Applies `seconds` once-per-second updates to a waiting thread; the result is the same as of single updates. A promotion depends on the
 * level alone, so after as many promotions as there are levels the sequence is periodic: whole periods are skipped.
 */
RULE void rule_wait(struct rule_thread *s, const struct rule_tables *t, unsigned long long seconds, int queued)
{
	unsigned long long period = 0;
	int i, first;

	if (!rule_is_ts(s))
		return;
	RULE_FOR(i, RULE_ROUNDS) {
		if (!seconds)
			return;
		seconds = rule_wait_one(s, t, seconds, queued);
	}
	if (!seconds)
		return;
	first = s->cpupri;
	RULE_FOR(i, RULE_ROUNDS) {
		period += rule_promote_one(s, t);
		if (s->cpupri == first)
			break;
	}
	if (period)
		seconds %= period;
	RULE_FOR(i, RULE_ROUNDS) {
		if (!seconds)
			return;
		seconds = rule_wait_one(s, t, seconds, queued);
	}
}

RULE void rule_update_asleep(struct rule_thread *s, const struct rule_tables *t, unsigned long long seconds)
{
	rule_wait(s, t, seconds, 0);
}

/* The thread yields its CPU. */
RULE int rule_yield(struct rule_thread *s, const struct rule_tables *t)
{
	if (s->timeleft <= 0) {
		rule_expire(s, t);
		s->timeleft = rule_slice(s, t);
	}
	s->back = 0;
	return RULE_BACK;
}

RULE void rule_fork_child(struct rule_thread *child, const struct rule_thread *parent, const struct rule_tables *t)
{
	*child = *parent;
	child->dispwait = 0;
	child->back = 0;
	child->timeleft = rule_slice(child, t);
}

/*
 * The parent pays for its child: in TS and IA with the level of an ended slice. Returns 1 if it gives up its CPU and goes to the back, so
 * that the child runs first.
 */
RULE int rule_fork_parent(struct rule_thread *s, const struct rule_tables *t)
{
	if (rule_is_ts(s)) {
		rule_expire(s, t);
		s->timeleft = rule_slice(s, t);
	} else if (s->klass != RULE_FX) {
		return 0;
	}
	s->back = 0;
	return 1;
}

/* Stores the parameters that a user may set, without the consequences. */
RULE void rule_store(struct rule_thread *s, int uprilim, int upri, int foreground, long long quantum)
{
	if (rule_is_ts(s)) {
		s->uprilim = rule_clamp(uprilim, -RULE_UPRI_MAX, RULE_UPRI_MAX);
		s->upri = rule_clamp(upri, -RULE_UPRI_MAX, s->uprilim);
		s->boost = rule_ia_boost(s->klass, foreground);
		rule_level(s);
	} else if (s->klass == RULE_FX) {
		s->uprilim = rule_clamp(uprilim, 0, RULE_FX_TOP);
		s->upri = s->pri = rule_clamp(upri, 0, s->uprilim);
		s->quantum = quantum;
	}
}

/* Parameters have changed: starts a new wait. Returns the queue end for a queued thread. */
RULE int rule_changed(struct rule_thread *s, const struct rule_tables *t, int place)
{
	s->dispwait = 0;
	if (place == RULE_QUEUED || place == RULE_RUNNING)
		s->timeleft = rule_slice(s, t);
	else
		s->back = 1;
	return rule_end_of(s, RULE_BACK);
}

/*
 * The process group of an IA thread enters or leaves the foreground of its terminal. `place` and the result are as in rule_set. No effect
 * if the boost is already right, or for other classes.
 */
RULE int rule_foreground(struct rule_thread *s, const struct rule_tables *t, int foreground, int place)
{
	if (s->klass != RULE_IA || (s->boost > 0) == !!foreground)
		return RULE_STAYS;
	s->boost = rule_ia_boost(s->klass, foreground);
	rule_level(s);
	return rule_changed(s, t, place);
}

/*
 * A user sets parameters or another class. `place` is the thread's place; RULE_OUTRANKED refers to the state after `rule_store`. Prepares
 * the next `rule_preempt`, and sets the slice. Returns the queue end for a queued thread; for other places it has no meaning.
 */
RULE int rule_set(struct rule_thread *s, const struct rule_tables *t, int klass, int uprilim, int upri, int foreground,
		  long long quantum, int place)
{
	int before = s->pri;

	if (s->klass != klass) {
		rule_enter(s, t, klass, uprilim, upri, foreground, quantum);
		return RULE_BACK;
	}
	rule_store(s, uprilim, upri, foreground, quantum);
	if (s->klass == RULE_FX) {
		s->timeleft = rule_slice(s, t);
		return s->pri == before ? RULE_STAYS : RULE_BACK;
	}
	return rule_is_ts(s) ? rule_changed(s, t, place) : RULE_STAYS;
}

/* The user priority for a nice value from -20 to 19: three per step, -57 to 60. */
RULE int rule_nice(int nice)
{
	return -3 * rule_clamp(nice, -20, 19);
}

/*
 * The key of a thread in a queue ordered by key, smallest first: higher levels first. Within a level, the back is first come, first served
 * (equal keys keep their order of arrival), and the front is last come, first served (`arrival`, in any unit that grows).
 */
#define RULE_KEY_SHIFT 48
#define RULE_KEY_BACK (1ULL << 47)

RULE unsigned long long rule_key(int pri, int end, unsigned long long arrival)
{
	unsigned long long level = (unsigned long long)(127 - rule_clamp(pri, RULE_BACKGROUND, 127));

	return level << RULE_KEY_SHIFT |
	       (end == RULE_BACK ? RULE_KEY_BACK : RULE_KEY_BACK - 1 - (arrival & (RULE_KEY_BACK - 1)));
}

RULE int rule_key_pri(unsigned long long key)
{
	return 127 - (int)(key >> RULE_KEY_SHIFT);
}

#endif
