/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The rules of the scheduling classes TS, IA and FX: what an event does to the state of one thread, by the dispatch tables.
 *
 * The rules know no kernel, no clock and no queue. They are compiled twice: for BPF, where they schedule a running machine (a slice is in
 * nanoseconds), and for the host, where the same random events go through them and through the simulator (a slice is in clock ticks).
 * Their source is the reference of Solaris' scheduler, sections 3.2 to 3.6; where the reference names a step, the name is kept.
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
 * For the verifier of BPF: no loop without a constant bound, no pointer arithmetic, no memory but what is handed in. For the same reason a
 * level is limited where it indexes a table, and where a table names it: any tables and any state lead to levels, and no sum overflows.
 */
#ifndef MILLPOND_RULES_H
#define MILLPOND_RULES_H

enum {
	RULE_TS_LEVELS = 60,
	RULE_TS_TOP = 59,
	/* The system's part of the priority of a thread that enters TS or IA. */
	RULE_TS_ENTRY = 29,
	RULE_FX_LEVELS = 61,
	RULE_FX_TOP = 60,
	/* The user's part is at most this, and at least its negative. */
	RULE_UPRI_MAX = 60,
	/* What the foreground is worth in IA, and the background costs. */
	RULE_IA_BOOST = 10,
	/* Below every level: threads that run only where nothing else wants to. */
	RULE_BACKGROUND = -1,
	RULE_SYS_LOWEST = 60,
	RULE_SYS_HIGHEST = 99,
};

/* The classes by the numbers that Solaris gives them; the last one is what Linux calls SCHED_IDLE. */
enum rule_class {
	RULE_SYS = 0,
	RULE_TS = 1,
	RULE_FX = 2,
	RULE_IA = 4,
	RULE_IDLE = 5,
};

/* Where a thread goes among the equals of its level. */
enum rule_end {
	RULE_FRONT = 0,
	RULE_BACK = 1,
	/* It keeps its place; of a change by a user alone. */
	RULE_STAYS = 2,
};

/* Where a thread is when a user changes it. */
enum rule_place {
	RULE_ASLEEP = 0,
	RULE_QUEUED = 1,
	RULE_RUNNING = 2,
	/* It runs, and after the change something better waits for its CPU. */
	RULE_OUTRANKED = 3,
};

#define RULE_FOREVER 0x7fffffffffffffffLL

/* A level of the table of TS and IA. */
struct rule_ts_row {
	/* The slice of this level of the system's part, and the level after it was used up. */
	long long quantum;
	int tqexp;
	/* The level after too long a wait: back in user mode, and waiting or asleep. */
	int slpret;
	int lwait;
	/* More seconds than these, counted at this level of the sum, are too long a wait. */
	unsigned int maxwait;
};

struct rule_tables {
	struct rule_ts_row ts[RULE_TS_LEVELS];
	/* The slice of each level of FX, for who asks for none. */
	long long fx[RULE_FX_LEVELS];
	/* The slice of threads of the kernel, and of those that run when nothing else wants to. */
	long long sys;
};

struct rule_thread {
	/* What is left of the slice; below 0 when it was overrun. */
	long long timeleft;
	/* FX: the slice. */
	long long quantum;
	/* TS, IA: seconds since the slice began, as the update counts them. */
	unsigned int dispwait;
	/* enum rule_class */
	int klass;
	/* TS, IA: the system's part, the user's part, its limit, and what being in the foreground is worth. */
	int cpupri;
	int upri;
	int uprilim;
	int boost;
	/* The level: -1 to 99. Of TS and IA the sum of the parts, 0 to 59. */
	int pri;
	/* 1: when it leaves its CPU it goes behind its equals, with a full slice. */
	int back;
};

#define RULE static inline __attribute__((always_inline, unused))

/* A loop over `i` from 0 to below a constant. BPF has one of its own, whose rounds are not verified one by one. */
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

/* The level that results from the parts. */
RULE void rule_level(struct rule_thread *s)
{
	long long sum = (long long)s->cpupri + s->upri + s->boost;

	s->pri = sum < 0 ? 0 : sum > RULE_TS_TOP ? RULE_TS_TOP : (int)sum;
}

/* The system's part becomes one that a table names, and a new wait begins. */
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

/* The end at which a thread of IA is queued; others say it themselves. */
RULE int rule_end_of(const struct rule_thread *s, int otherwise)
{
	return s->klass != RULE_IA ? otherwise : s->boost > 0 ? RULE_FRONT : RULE_BACK;
}

/* The slice of an FX level for who names none. */
RULE long long rule_fx_quantum(const struct rule_tables *t, int level)
{
	unsigned int at = level;

	if (at >= RULE_FX_LEVELS)
		at = RULE_FX_TOP;
	return t->fx[at];
}

/*
 * Enters a class. TS, IA, FX: `uprilim` and `upri`; IA: whether it is in the foreground; FX: the slice. SYS: `upri` is the level. The limits are those of
 * the class, and the priority's limit is the given one.
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

/* The slice was used up: the system's part falls. The slice is filled later. */
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
	/* Without a sign: no number that a thread could begin with makes this undefined. */
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

/* Leaves its CPU against its will: what was not used of the slice stays, unless it goes to the back. */
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

/* The boost that a thread gets which waited too long: when it sleeps, wakes up, or returns to user mode. 1: it got it. */
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

/* Seconds that passed; more than the counter holds are as many as it holds. */
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

/* The system's part becomes that of a thread that waited long. */
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

/* Seconds that one stay at a level takes before the thread is promoted, from `dispwait` on. */
RULE unsigned long long rule_until_promoted(const struct rule_thread *s, const struct rule_tables *t)
{
	unsigned int most = rule_row(t, s->pri)->maxwait;

	/* No count is more than this one: it is never promoted. */
	if (most == 0xffffffffU)
		return 0xffffffffffffffffULL;
	return most > s->dispwait ? (unsigned long long)most + 1 - s->dispwait : 1;
}

/* A function that loops call. BPF has it apart, where it is verified once and not for each round. */
#ifndef RULE_ROUND
#define RULE_ROUND RULE
#endif

/*
 * One promotion of a thread that waits for `seconds` more, if that is long enough for it; else the seconds are counted. `queued`: its slice is filled.
 * Gives the seconds that are left.
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

/* The seconds that one promotion takes. */
RULE_ROUND unsigned long long rule_promote_one(struct rule_thread *s, const struct rule_tables *t)
{
	unsigned long long until;

	if (!s || !t)
		return 0;
	until = rule_until_promoted(s, t);
	rule_promote(s, t);
	return until;
}

/* After so many promotions a thread goes through levels that it has been at: there are no more levels than these. */
#define RULE_ROUNDS RULE_TS_LEVELS

/*
 * So many updates at once of a thread that waits: the same as one after the other. What a promotion leads to depends on the level alone, so
 * that after as many promotions as there are levels the rest repeats itself: whole repetitions are left out.
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

/* It lets others go first. */
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

/* The parent pays for a child: in TS and IA a level. 1: it gives up its CPU and goes to the back, so that the child goes first. */
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

/* What a user may set, without what follows from it. */
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

/* Parameters were changed: a new wait begins. Gives where a thread that is queued goes. */
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
 * The process group of a thread of IA came to the foreground of its terminal, or left it (section 3.5). `place` and what it gives are those of rule_set.
 * Nothing happens to a thread that has it already, or is of another class.
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
 * A user sets parameters, or another class. `place` is where the thread is; whether something better waits is asked of the state that
 * `rule_store` makes. Sets what `rule_preempt` does later, and the slice. Gives where a thread that is queued goes; other places ignore it.
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

/* The user's part for `nice`, -20 to 19: three for each, -57 to 60. */
RULE int rule_nice(int nice)
{
	return -3 * rule_clamp(nice, -20, 19);
}

/*
 * The key of a thread in a queue that is ordered by key, the smallest first: by level, then first come, first served among those at the
 * back (equal keys stay in the order of arrival); at the front, who came last goes first (`arrival`, in any unit that grows).
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
