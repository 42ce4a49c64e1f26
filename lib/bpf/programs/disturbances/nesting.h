/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Time accounting of one CPU. At the bottom of the stack is the running thread, above it the interrupt that interrupted it, and so on. Each
 * instant belongs to the top of the stack: when a frame ends, the time of the frames above it is not its own.
 *
 *     thread   ====|                                  |=====        start .. end without inner
 *     interrupt    |------|               |-----------|             inner of the thread
 *     timer               |+++++|                                   inner of the interrupt
 *
 * A CPU is at home when it is idle or runs the job. A stretch is the time from leaving home until the return; its culprit is its longest
 * part.
 *
 * A file that includes this defines charge() and tell_stretch(). This header uses nothing of the kernel, so that it can be tested in user
 * space.
 */
#ifndef MILLPOND_NESTING_H
#define MILLPOND_NESTING_H

/* One frame for the thread, seven above it. A power of two, because indices are masked. */
#define PLACES 8

/* The activity that has the CPU. Kind 0 is home: the job, or idle. */
struct what {
	__u64 kind;
	__u64 name;
	__u64 words[2];
	__u64 sender;
};

struct frame {
	struct what what;
	/* Distinguishes activities of one kind: the end must have the id of the beginning. */
	__u64 id;
	__u64 start;
	__u64 inner;
};

struct state {
	/* Whether the CPU is watched. */
	__u64 on;
	/* Frames above the thread. */
	__u64 depth;
	/* When the CPU left home; 0 while it is at home. */
	__u64 away;
	/* The longest part of the stretch, and its activity. */
	__u64 worst;
	struct what culprit;
	/* Activities that did not fit into the stack. */
	__u64 deep;
	struct frame frames[PLACES];
};

/* Charges the activity that ends with its own time. */
static void charge(const struct what *what, __u64 own, __u64 start);
/* The CPU is at home again: reports the stretch. */
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

/* Closes a frame: charges its own time, which may be the longest part of the stretch. */
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

/* An activity interrupts the top of the stack. The depth is written first: an interrupt of this function then uses the next frame. */
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

/* An activity ends. One that is not on top is ignored: it began before the watch, or did not fit. */
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

/* An activity whose duration is known only at its end, and which lies within the top of the stack. */
static __always_inline void within(struct state *state, __u64 now, const struct what *what, __u64 length)
{
	struct frame *frame = place(state, state->depth);
	__u64 most = minus(minus(now, frame->start), frame->inner);

	if (length > most)
		length = most;
	frame->inner += length;
	charge(what, length, now - length);
}

/* The CPU switches to another thread. The frames above the thread end, because they belong to the previous thread. */
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
