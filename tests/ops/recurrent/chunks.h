/* chunks.h - a recurrent op over tokens in chunks against all at once, and tokens of several sequences against each
 * sequence alone, bit for bit. */
#ifndef TESTS_OPS_RECURRENT_CHUNKS_H
#define TESTS_OPS_RECURRENT_CHUNKS_H

#include "tests/support/kernel_test.h"

enum { MAX_TOKENS = 20, SLOTS = 3, CHUNKED_TOKENS = 7 };

/* slots[] (ops/private.h) of `tokens` tokens: state `from` before the first, and the state after the last one is kept
 * in slot 1. */
static inline void keep_last(int32_t slots[MAX_TOKENS + 1], int32_t from, int64_t tokens) {
    cr_assert(tokens <= MAX_TOKENS, "%d tokens", (int)tokens);
    slots[0] = from;
    for (int64_t t = 0; t < tokens; t++) slots[1 + t] = t + 1 == tokens ? 1 : -1;
}

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

/* One run, on the device in the suites of the device. */
static inline void run_here(RpOpKernel *kernel, const RpOpArgs *args) {
#ifdef RP_TEST_CUDA
    const size_t bytes  = rp_view_extent_bytes(&args->dst);
    void        *before = memcpy(malloc(bytes), args->dst.data, bytes);
    OK(cuda_run(kernel, args, before));
    free(before);
#else
    OK(run_workers(kernel, args, 2));
#endif
}

/* Three sequences in one call, and a token of padding: two in place, and one from zeros. `starts`: the source that says
 * where each token starts. */
static inline void expect_sequences_apart(const ChunkedOp *op, int starts) {
    static const int32_t first[] = {0, 1, 4, 6}, from[] = {1, -1, 0}, to[] = {1, 2, 0};
    const size_t of_token = op->n_y / CHUNKED_TOKENS * sizeof(float), bytes = SLOTS * op->of_slot * sizeof(float);
    float *const state  = (float *)(uintptr_t)op->state; /* the op writes to it */
    float       *before = memcpy(malloc(bytes), state, bytes), *together = malloc(bytes), *y = malloc(op->n_y * 4);
    int32_t      slots[CHUNKED_TOKENS + 1] = {-1}, start[CHUNKED_TOKENS];
    for (int s = 0; s < 3; s++)
        for (int32_t t = first[s]; t < first[s + 1]; t++)
            start[t] = t == first[s] ? from[s] : -2, slots[1 + t] = t + 1 == first[s + 1] ? to[s] : -1;
    start[6] = -1, slots[7] = -1;
    RpOpArgs args    = op->args_of(op->operands, 0, CHUNKED_TOKENS, slots);
    args.src[starts] = tensor(RP_I32, start, CHUNKED_TOKENS, 1, 1, 1);
    run_here(op->kernel, &args);
    memcpy(y, op->y, op->n_y * sizeof(float)), memcpy(together, state, bytes);
    for (int s = 0; s < 3; s++) {
        const int32_t n                          = first[s + 1] - first[s];
        int32_t       of_one[CHUNKED_TOKENS + 1] = {start[first[s]]};
        for (int32_t t = 1; t <= n; t++) of_one[t] = t == n ? to[s] : -1;
        memcpy(state, before, bytes);
        const RpOpArgs one = op->args_of(op->operands, first[s], n, of_one);
        run_here(op->kernel, &one);
        cr_expect_arr_eq((char *)y + (size_t)first[s] * of_token, (char *)op->y + (size_t)first[s] * of_token,
                         (size_t)n * of_token, "results of sequence %d", s);
        cr_expect_arr_eq(together + (size_t)to[s] * op->of_slot, state + (size_t)to[s] * op->of_slot,
                         op->of_slot * sizeof(float), "state after sequence %d", s);
    }
    for (size_t i = 0; i < of_token / 4; i++)
        cr_assert_eq(y[6 * of_token / 4 + i], 0.0f, "element %zu of the padding", i);
    free(before), free(together), free(y);
}

#endif
