/* Passes random bytes, as states and tables, through every rule. A sanitizer traps undefined behaviour; levels must stay in range. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>

enum { TABLES = 400, EVENTS = 500 };

static unsigned long long state = 88172645463325252ULL;

static unsigned long long random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void random_bytes(void *at, unsigned long size)
{
	unsigned char *bytes = at;
	unsigned long i;

	for (i = 0; i < size; i++)
		bytes[i] = (unsigned char)(random_number() >> 32);
}

static int below(unsigned int limit)
{
	return (int)((random_number() >> 32) % limit);
}

/* Mostly values that occur, else arbitrary bytes. */
static void random_thread(struct rule_thread *s)
{
	static const int classes[] = { RULE_SYS, RULE_TS, RULE_FX, RULE_IA, RULE_IDLE, 3 };

	random_bytes(s, sizeof(*s));
	s->klass = classes[below(6)];
	s->cpupri = below(RULE_TS_LEVELS);
	s->pri = rule_is_ts(s) ? below(RULE_TS_LEVELS) : below(RULE_FX_LEVELS);
	s->back = below(2);
	if (below(2)) {
		s->timeleft = below(50);
		s->dispwait = below(4);
		s->upri = below(121) - 60;
		s->uprilim = below(121) - 60;
		s->boost = 10 * (below(3) - 1);
	}
}

static void random_tables(struct rule_tables *t)
{
	int i;

	random_bytes(t, sizeof(*t));
	if (below(4) == 0)
		return;
	for (i = 0; i < RULE_TS_LEVELS; i++) {
		t->ts[i].quantum = 1 + below(40);
		t->ts[i].tqexp = below(RULE_TS_LEVELS);
		t->ts[i].slpret = below(RULE_TS_LEVELS);
		t->ts[i].lwait = below(RULE_TS_LEVELS);
		t->ts[i].maxwait = below(4);
	}
}

static void check(const struct rule_thread *s, const char *rule)
{
	int lowest = s->klass == RULE_TS || s->klass == RULE_IA || s->klass == RULE_FX ? 0 : RULE_BACKGROUND;
	int highest = rule_is_ts(s) ? RULE_TS_TOP : s->klass == RULE_FX ? RULE_FX_TOP : RULE_SYS_HIGHEST;

	if (s->cpupri < 0 || s->cpupri > RULE_TS_TOP || s->pri < lowest || s->pri > highest) {
		printf("%s leads to level %d of class %d, system part %d\n", rule, s->pri, s->klass, s->cpupri);
		exit(1);
	}
}

#define RULE_CALL(call) \
	do { \
		struct rule_thread s = *before; \
		call; \
		check(&s, #call); \
	} while (0)

static void every_rule(const struct rule_thread *before, const struct rule_tables *t)
{
	int a = (int)random_number(), b = (int)random_number(), odd = below(2), place = below(4);
	int klass = before->klass == RULE_TS ? RULE_TS : below(6);
	long long number = (long long)random_number();
	unsigned long long seconds = random_number() >> below(64);

	RULE_CALL(rule_enter(&s, t, klass, a, b, odd, number));
	RULE_CALL(rule_expire(&s, t));
	RULE_CALL(rule_charge(&s, t, number));
	RULE_CALL(rule_surrender(&s));
	RULE_CALL(rule_preempt(&s, t));
	RULE_CALL(rule_boost_if_due(&s, t));
	RULE_CALL(rule_has_not_waited(&s));
	RULE_CALL(rule_wakeup(&s, t, odd));
	RULE_CALL(rule_foreground(&s, t, odd, RULE_QUEUED));
	RULE_CALL(rule_update_running(&s, t));
	RULE_CALL(rule_update_queued(&s, t));
	RULE_CALL(rule_wait(&s, t, seconds, odd));
	RULE_CALL(rule_update_asleep(&s, t, seconds));
	RULE_CALL(rule_yield(&s, t));
	RULE_CALL(rule_fork_child(&s, before, t));
	RULE_CALL(rule_fork_parent(&s, t));
	RULE_CALL(rule_set(&s, t, klass, a, b, odd, number, place));
	RULE_CALL(rule_store(&s, a, b, odd, number));
	if (rule_nice(a) < -57 || rule_nice(a) > 60 || rule_key_pri(rule_key(a, odd, seconds)) > 127)
		exit(1);
	if (rule_fx_quantum(t, a) == 0 && rule_end_of(before, odd) == RULE_STAYS)
		exit(1);
}

int main(int arguments, char **names)
{
	struct rule_tables t;
	struct rule_thread s;
	int i, j;

	/* With an argument: an undefined sum, to prove that the sanitizer traps. */
	if (arguments > 1) {
		volatile int sum = 0x7fffffff;

		sum = sum + (names[1][0] - '0');
		return 0;
	}
	for (i = 0; i < TABLES; i++) {
		random_tables(&t);
		for (j = 0; j < EVENTS; j++) {
			random_thread(&s);
			every_rule(&s, &t);
		}
	}
	return 0;
}
