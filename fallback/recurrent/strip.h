/* strip.h - what a token does to the state of a recurrent op: one pass that changes it and sums the output. */
#ifndef FALLBACK_RECURRENT_STRIP_H
#define FALLBACK_RECURRENT_STRIP_H

#include "fallback/simd/simd.h"

#include <math.h>
#include <stdint.h>

enum { STRIP = 16, STRIP_ROWS = 16 };

/* A block of a state S: row i begins at data + i * row. */
typedef struct StateBlock {
    float  *data; /* NULL: zeros */
    int64_t row;
} StateBlock;

/* Compilers keep float a[STRIP] in registers only if each loop over it is unrolled completely. */
#define EACH_LANE(l) _Pragma("GCC unroll 16") for (int l = 0; l < STRIP; l++)

/* What a token does to the rows of a state, in each lane l:
 *
 *     S[i,l] = g * S[i,l] + in[i] * u[l];   even[l] += out[i] * S[i,l] for even i, odd[l] for odd i */
typedef struct StateStep {
    const float *in, *out;   /* one element for each row */
    const float *u;          /* [lanes] */
    float       *even, *odd; /* [lanes] */
    float        g;
} StateStep;

/* Rows i to end - 1 of STRIP lanes from lane `at` on, two rows at a time: u and both sums stay in registers. The number
 * of rows is even. */
RP_BODY void rp_step_strip(const StateStep *step, StateBlock from, StateBlock to, int64_t i, int64_t end, int at) {
    float u[STRIP], even[STRIP], odd[STRIP];
    EACH_LANE(l) u[l]    = step->u[at + l];
    EACH_LANE(l) even[l] = step->even[at + l];
    EACH_LANE(l) odd[l]  = step->odd[at + l];
    for (; i < end; i += 2) {
        const float *a = from.data + i * from.row + at, *b = a + from.row;
        float       *to_a = to.data + i * to.row + at, *to_b = to_a + to.row, s[STRIP], r[STRIP];
        EACH_LANE(l) s[l]    = fmaf(step->in[i], u[l], step->g * a[l]);
        EACH_LANE(l) r[l]    = fmaf(step->in[i + 1], u[l], step->g * b[l]);
        EACH_LANE(l) to_a[l] = s[l];
        EACH_LANE(l) to_b[l] = r[l];
        EACH_LANE(l) even[l] = fmaf(step->out[i], s[l], even[l]);
        EACH_LANE(l) odd[l]  = fmaf(step->out[i + 1], r[l], odd[l]);
    }
    EACH_LANE(l) step->even[at + l] = even[l];
    EACH_LANE(l) step->odd[at + l]  = odd[l];
}

/* n rows: STRIP_ROWS rows of all lanes, then the next ones. n is even, `lanes` a multiple of STRIP. `from` and `to` may
 * be the same memory. */
RP_BODY void rp_step_state(const StateStep *step, StateBlock from, StateBlock to, int64_t n, int lanes) {
    for (int64_t i = 0; i < n; i += STRIP_ROWS)
        for (int at = 0; at < lanes; at += STRIP)
            rp_step_strip(step, from, to, i, n - i < STRIP_ROWS ? n : i + STRIP_ROWS, at);
}

#endif
