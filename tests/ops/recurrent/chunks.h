/* chunks.h - a recurrent op over tokens in chunks against all at once, bit for bit. */
#ifndef TESTS_OPS_RECURRENT_CHUNKS_H
#define TESTS_OPS_RECURRENT_CHUNKS_H

#include "tests/support/kernel_test.h"

enum { MAX_TOKENS = 16, SLOTS = 3, CHUNKED_TOKENS = 7 };

/* An op with CHUNKED_TOKENS tokens. args_of: the call for tokens first to first + n - 1 of `operands`. */
typedef struct ChunkedOp {
    RpOpKernel *kernel;
    RpOpArgs (*args_of)(const void *operands, int64_t first, int64_t n, int32_t *slots);
    const void  *operands;
    float       *y;
    const float *state;        /* [SLOTS][of_slot] */
    size_t       n_y, of_slot; /* floats: of all tokens, and of a slot */
} ChunkedOp;

/* The slot after the latest token is another one in each call, or with one_slot always the same. */
static inline void expect_chunks_alike(const ChunkedOp *op, bool one_slot) {
    static const int chunks[4][4] = {
        {7 },
        {  1, 1, 1, 4},
        { 2,  5},
        {  3,3, 1}
    };
    const size_t y_bytes = op->n_y * sizeof(float), state_bytes = op->of_slot * sizeof(float);
    float       *first = malloc(y_bytes), *last = malloc(state_bytes);
    for (int c = 0; c < 4; c++) {
        int32_t at = -1;
        memset(op->y, -1, y_bytes); /* NaN, so that each chunking must write all */
        for (int64_t t = 0, i = 0; t < CHUNKED_TOKENS; t += chunks[c][i++]) {
            const int32_t to = one_slot ? 1 : (at + 1) % SLOTS;
            int32_t       slots[MAX_TOKENS + 1];
            slots[0] = at;
            for (int64_t k = 1; k <= chunks[c][i]; k++) slots[k] = k == chunks[c][i] ? to : -1;
            const RpOpArgs args = op->args_of(op->operands, t, chunks[c][i], slots);
            run_variants(op->kernel, &args);
            at = to;
        }
        const float *state = op->state + (size_t)at * op->of_slot;
        if (c == 0) memcpy(first, op->y, y_bytes), memcpy(last, state, state_bytes);
        cr_expect_arr_eq(op->y, first, y_bytes, "chunks %d", c);
        cr_expect_arr_eq(state, last, state_bytes, "state after chunks %d", c);
    }
    free(first), free(last);
}

#endif
