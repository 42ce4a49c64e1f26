/* Each rule of rules.h as a linkable function, and the layout of its types. */
#include "rules.h"

#include <stddef.h>

/* Defines a function for a rule: its parameters, and the arguments to pass. */
#define HOST(type, name, parameters, arguments) \
	type millpond_##name parameters; \
	type millpond_##name parameters { return name arguments; }
#define HOST_VOID(name, parameters, arguments) \
	void millpond_##name parameters; \
	void millpond_##name parameters { name arguments; }

typedef struct rule_thread thread;
typedef const struct rule_thread seen;
typedef const struct rule_tables tables;
typedef const struct rule_ts_row row;
typedef unsigned long long count;

HOST(int, rule_clamp, (int value, int lowest, int highest), (value, lowest, highest))
HOST(row *, rule_row, (tables *t, int level), (t, level))
HOST(_Bool, rule_is_ts, (seen *s), (s))
HOST_VOID(rule_level, (thread *s), (s))
HOST_VOID(rule_move, (thread *s, int level), (s, level))
HOST(long long, rule_slice, (seen *s, tables *t), (s, t))
HOST(int, rule_ia_boost, (int klass, _Bool foreground), (klass, foreground))
HOST(int, rule_end_of, (seen *s, int otherwise), (s, otherwise))
HOST(long long, rule_fx_quantum, (tables *t, int level), (t, level))
HOST_VOID(rule_enter,
	  (thread *s, tables *t, int klass, int uprilim, int upri, _Bool foreground, long long quantum),
	  (s, t, klass, uprilim, upri, foreground, quantum))
HOST_VOID(rule_expire, (thread *s, tables *t), (s, t))
HOST(_Bool, rule_charge, (thread *s, tables *t, long long ran), (s, t, ran))
HOST_VOID(rule_surrender, (thread *s), (s))
HOST(int, rule_preempt, (thread *s, tables *t), (s, t))
HOST(_Bool, rule_waited_too_long, (seen *s, tables *t), (s, t))
HOST(_Bool, rule_boost_if_due, (thread *s, tables *t), (s, t))
HOST(_Bool, rule_has_not_waited, (seen *s), (s))
HOST(int, rule_wakeup, (thread *s, tables *t, _Bool same_tick), (s, t, same_tick))
HOST_VOID(rule_count, (thread *s, count seconds), (s, seconds))
HOST(_Bool, rule_update_running, (thread *s, tables *t), (s, t))
HOST_VOID(rule_promote, (thread *s, tables *t), (s, t))
HOST(_Bool, rule_update_queued, (thread *s, tables *t), (s, t))
HOST(count, rule_until_promoted, (seen *s, tables *t), (s, t))
HOST(count, rule_wait_one, (thread *s, tables *t, count seconds, _Bool queued), (s, t, seconds, queued))
HOST(count, rule_promote_one, (thread *s, tables *t), (s, t))
HOST_VOID(rule_wait, (thread *s, tables *t, count seconds, _Bool queued), (s, t, seconds, queued))
HOST_VOID(rule_update_asleep, (thread *s, tables *t, count seconds), (s, t, seconds))
HOST(int, rule_yield, (thread *s, tables *t), (s, t))
HOST_VOID(rule_fork_child, (thread *child, seen *parent, tables *t), (child, parent, t))
HOST(_Bool, rule_fork_parent, (thread *s, tables *t), (s, t))
HOST_VOID(rule_store, (thread *s, int uprilim, int upri, _Bool foreground, long long quantum),
	  (s, uprilim, upri, foreground, quantum))
HOST(int, rule_changed, (thread *s, tables *t, int place), (s, t, place))
HOST(int, rule_foreground, (thread *s, tables *t, _Bool foreground, int place), (s, t, foreground, place))
HOST(int, rule_set,
     (thread *s, tables *t, int klass, int uprilim, int upri, _Bool foreground, long long quantum, int place),
     (s, t, klass, uprilim, upri, foreground, quantum, place))
HOST(int, rule_nice, (int nice), (nice))
HOST(count, rule_key, (int pri, int end, count arrival), (pri, end, arrival))
HOST(int, rule_key_pri, (count key), (key))

_Static_assert(sizeof(long long) == 8 && sizeof(int) == 4, "BPF has these sizes");
_Static_assert(sizeof(struct rule_ts_row) == 24, "a row has no gap");
_Static_assert(sizeof(struct rule_tables) == 24 * RULE_TS_LEVELS + 8 * RULE_FX_LEVELS + 8, "tables have no gap");
_Static_assert(sizeof(struct rule_thread) == 48, "a thread has no gap");

/* Sizes and offsets, in the order of the test of the Rust types. */
extern const count millpond_rule_layout[];
const count millpond_rule_layout[] = {
	sizeof(struct rule_ts_row),
	offsetof(struct rule_ts_row, quantum),
	offsetof(struct rule_ts_row, tqexp),
	offsetof(struct rule_ts_row, slpret),
	offsetof(struct rule_ts_row, lwait),
	offsetof(struct rule_ts_row, maxwait),
	sizeof(struct rule_tables),
	offsetof(struct rule_tables, ts),
	offsetof(struct rule_tables, fx),
	offsetof(struct rule_tables, sys),
	sizeof(struct rule_thread),
	offsetof(struct rule_thread, timeleft),
	offsetof(struct rule_thread, quantum),
	offsetof(struct rule_thread, dispwait),
	offsetof(struct rule_thread, klass),
	offsetof(struct rule_thread, cpupri),
	offsetof(struct rule_thread, upri),
	offsetof(struct rule_thread, uprilim),
	offsetof(struct rule_thread, boost),
	offsetof(struct rule_thread, pri),
	offsetof(struct rule_thread, back),
};

/* Constants, in the order of that test. */
extern const long long millpond_rule_numbers[];
const long long millpond_rule_numbers[] = {
	RULE_TS_LEVELS, RULE_TS_TOP, RULE_TS_ENTRY, RULE_FX_LEVELS, RULE_FX_TOP, RULE_UPRI_MAX, RULE_IA_BOOST,
	RULE_BACKGROUND, RULE_SYS_LOWEST, RULE_SYS_HIGHEST, RULE_SYS, RULE_TS, RULE_FX, RULE_IA, RULE_IDLE,
	RULE_FRONT, RULE_BACK, RULE_STAYS, RULE_ASLEEP, RULE_QUEUED, RULE_RUNNING, RULE_OUTRANKED, RULE_FOREVER,
};
