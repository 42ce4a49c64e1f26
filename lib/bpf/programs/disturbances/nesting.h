/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Whose time it is on one processor. At the bottom there is the thread that runs; on top of it whatever interrupted it, and what interrupted
 * that. Each moment belongs to what is on top: when something ends, what lay on top of it meanwhile is not its own time.
 *
 *     thread   ====|                                  |=====        start .. end without inner
 *     interrupt    |------|               |-----------|             inner of the thread
 *     timer               |+++++|                                   inner of the interrupt
 *
 * A processor is at home when it is idle or runs the job. A stretch is the time from when it leaves home until it is back; its culprit is the part
 * of it that took longest.
 *
 * Whoever includes this defines charge() and tell_stretch(). There is nothing of the kernel in it, so that it can be tested outside.
 */
#ifndef MILLPOND_NESTING_H
#define MILLPOND_NESTING_H

/* One place for the thread, seven for what lies above. A power of two: places are found by masking. */
#define PLACES 8

/* What has the processor. Kind 0 is home: the job, or nobody. */
struct what {
	__u64 kind;
	__u64 name;
	__u64 words[2];
	__u64 sender;
};

struct frame {
	struct what what;
	/* Tells it from others of its kind: its end has to have the same. */
	__u64 id;
	__u64 start;
	__u64 inner;
};

struct state {
	/* Whether anybody watches. */
	__u64 on;
	/* How much lies above the thread. */
	__u64 depth;
	/* Since when the processor is not at home; 0 while it is. */
	__u64 away;
	/* The longest part of the stretch, and what that was. */
	__u64 worst;
	struct what culprit;
	/* What did not fit. */
	__u64 deep;
	struct frame frames[PLACES];
};

/* So much of its own time was spent by what ends now. */
static void charge(const struct what *what, __u64 own, __u64 start);
/* The processor is at home again. */
static void tell_stretch(struct state *state, __u64 start, __u64 length);

static __always_inline __u64 minus(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __always_inline struct frame *place(struct state *state, __u64 at)
{
	return &state->frames[at & (PLACES - 1)];
}

static __always_inline void leave_home(struct state *state, __u64 now)
{
	if (state->away)
		return;
	state->away = now;
	state->worst = 0;
}

static __always_inline void come_home(struct state *state, __u64 now)
{
	__u64 away = state->away;

	if (!away)
		return;
	state->away = 0;
	tell_stretch(state, away, minus(now, away));
}

/* Own time of a place until now. It is charged, and may be the longest part of the stretch. */
static __always_inline void settle(struct state *state, struct frame *frame, __u64 now)
{
	__u64 own = minus(minus(now, frame->start), frame->inner);

	if (!frame->what.kind)
		return;
	if (state->away && own >= state->worst) {
		state->worst = own;
		state->culprit = frame->what;
	}
	charge(&frame->what, own, frame->start);
}

/* Something interrupts what is on top. The depth comes first: an interrupt of this very function then lies above. */
static __always_inline void begin(struct state *state, __u64 now, const struct what *what, __u64 id)
{
	__u64 depth = state->depth;
	struct frame *frame;

	if (depth >= PLACES - 1) {
		state->deep++;
		return;
	}
	state->depth = depth + 1;
	frame = place(state, depth + 1);
	frame->what = *what;
	frame->id = id;
	frame->inner = 0;
	frame->start = now;
	leave_home(state, now);
}

/* It ends. What is not on top is none of ours: it began before us, or did not fit. */
static __always_inline void end(struct state *state, __u64 now, __u64 id)
{
	__u64 depth = state->depth;
	struct frame *frame = place(state, depth);

	if (!depth || depth >= PLACES || frame->id != id)
		return;
	settle(state, frame, now);
	place(state, depth - 1)->inner += minus(now, frame->start);
	state->depth = depth - 1;
	if (depth == 1 && !place(state, 0)->what.kind)
		come_home(state, now);
}

/* Time that is known at its end only, and lies within what is on top. */
static __always_inline void within(struct state *state, __u64 now, const struct what *what, __u64 length)
{
	struct frame *frame = place(state, state->depth);
	__u64 most = minus(minus(now, frame->start), frame->inner);

	if (length > most)
		length = most;
	frame->inner += length;
	charge(what, length, now - length);
}

/* The processor turns to another thread. What lay on top ends, for it belongs to the thread before. */
static __always_inline void turn(struct state *state, __u64 now, const struct what *next)
{
	struct frame *base = place(state, 0);

	for (int i = 0; i < PLACES; i++) {
		struct frame *frame = place(state, state->depth);

		if (!state->depth)
			break;
		settle(state, frame, now);
		place(state, state->depth - 1)->inner += minus(now, frame->start);
		state->depth--;
	}
	if (base->start)
		settle(state, base, now);
	if (next->kind)
		leave_home(state, now);
	else
		come_home(state, now);
	base->what = *next;
	base->inner = 0;
	base->start = now;
}

#endif
