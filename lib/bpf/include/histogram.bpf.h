/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Histograms of times: eight buckets per doubling, bounds of 2^(i/8) s. lib/model/src/histogram.rs explains them and computes the same
 * buckets.
 */
#ifndef MILLPOND_HISTOGRAM_BPF_H
#define MILLPOND_HISTOGRAM_BPF_H

#define HISTOGRAM_BUCKETS 273

struct histogram {
	__u64 counts[HISTOGRAM_BUCKETS];
	/* The sum of all times, in nanoseconds. */
	__u64 sum;
};

/* The longest time with a bucket of its own: 2^34 units of 2^-30 s, 16 s. */
#define LONGEST (1ULL << 34)

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u64 units = ns > LONGEST ? LONGEST : ns;
	__u32 octave = 0;
	__u64 head;

	units += (units * 316718722ULL) >> 32;
	if (units > LONGEST)
		units = LONGEST;
	if (!units)
		units = 1;
	head = units;
	if (head >> 32) {
		octave += 32;
		head >>= 32;
	}
	if (head >> 16) {
		octave += 16;
		head >>= 16;
	}
	if (head >> 8) {
		octave += 8;
		head >>= 8;
	}
	if (head >> 4) {
		octave += 4;
		head >>= 4;
	}
	if (head >> 2) {
		octave += 2;
		head >>= 2;
	}
	octave += head >> 1;
	head = (units << (63 - octave)) >> 32;
	return octave * 8 + (head > 2147483648ULL) + (head > 2341847523ULL) + (head > 2553802833ULL) + (head > 2784941737ULL) +
	       (head > 3037000499ULL) + (head > 3311872529ULL) + (head > 3611622602ULL) + (head > 3938502375ULL);
}

/* Records a time. Not atomic: each histogram has one writer at a time. */
static __always_inline void record_time(struct histogram *histogram, __u64 ns)
{
	__u32 bucket = bucket_of(ns);

	if (bucket < HISTOGRAM_BUCKETS)
		histogram->counts[bucket]++;
	histogram->sum += ns;
}

#endif
