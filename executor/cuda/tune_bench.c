/* The chains of kernels that constants are measured with (tune_bench.h). */
#include "executor/cuda/tune_bench.h"

#include "base/kernels.h"
#include "base/tuning.h"

#include <string.h>

enum {
    MAX_N     = 4096, /* elements of a row: those of an 8B model */
    MIN_N     = 256,  /* a block of Q4_K */
    FFN       = 3,    /* rows of gate and up: FFN * n */
    VOCAB     = 16,   /* rows of the output matrix: VOCAB * n */
    L2_TIMES  = 16,   /* weights are at most L2_TIMES times as large as the L2 cache */
    L2_LEAST  = 2,    /* and at least L2_LEAST times, so that they do not stay in it */
    POSITIONS = 2,    /* of the context: POSITIONS * n */
    HEAD_DIM  = 128,  /* a query head */
    HEADS     = 4,    /* query heads of a KV head */
    FILL      = 0x11, /* bytes of weights: every f16 and f32 of them is a small normal number */
    RUNS      = 4     /* between two events, whose resolution is half a microsecond */
};

static size_t aligned(size_t bytes) { return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN; }

/* ---- memory ---- */

static size_t weight_bytes(int64_t n) {
    const int64_t rows = TUNE_LAYERS * (1 + 3 * FFN) + VOCAB; /* of n elements; a row of `down` counts as FFN rows */
    return rp_row_bytes(RP_Q4_K, n) * (size_t)(rows * n);
}

/* The largest power of two whose weights are within the limits; 0 if there is none. */
static int64_t row_length(size_t l2_bytes) {
    int64_t n = MAX_N;
    while (n > MIN_N && weight_bytes(n) > L2_TIMES * l2_bytes) n /= 2;
    return l2_bytes > 0 && weight_bytes(n) >= L2_LEAST * l2_bytes ? n : 0;
}

/* A tensor at the next free address. Without memory (NULL) only the bytes are counted. */
static RpTensorView tensor(TuneBench *b, RpDtype type, int64_t n0, int64_t n1, int64_t n2) {
    const int64_t ne[RP_MAX_DIMS] = {n0, n1, n2, 1};
    RpTensorView  v               = rp_view_contiguous(type, ne, b->memory != NULL ? b->memory + b->used : NULL);
    b->used += aligned(rp_view_extent_bytes(&v));
    return v;
}

/* Keys or values, as a KV cache has them. */
static RpTensorView cache(TuneBench *b, int64_t heads) { return tensor(b, RP_F16, HEAD_DIM, POSITIONS * b->n, heads); }

/* ---- chains ---- */

static TuneStep *next_step(TuneBench *b, TuneChain chain, TensorOp op, unsigned constant) {
    TuneStep *s = &b->steps[chain][b->n_steps[chain]++];
    memset(s, 0, sizeof *s);
    s->op          = op;
    s->constant    = constant;
    s->args.params = &s->params;
    return s;
}

/*     x -> linear -> y -> gate_up -> gated (q8_act) -> linear, plus y -> x */
static void add_layer(TuneBench *b, RpTensorView x, RpTensorView y, RpTensorView gated) {
    const RpColumnParams column = {.norm = 1, .eps = 1e-5f, .round = 1};
    TuneStep            *s      = next_step(b, TUNE_PRODUCTS, RP_OP_LINEAR, 1);
    s->args.linear.w            = tensor(b, RP_Q4_K, b->n, b->n, 1);
    s->args.linear.x            = x;
    s->args.dst                 = y;
    s->params.linear            = (RpLinearParams){.column = column, .scale = 1.0f};

    s                    = next_step(b, TUNE_PRODUCTS, RP_OP_GATE_UP, 3);
    s->args.gate_up.gate = tensor(b, RP_Q4_K, b->n, FFN * b->n, 1);
    s->args.gate_up.up   = tensor(b, RP_Q4_K, b->n, FFN * b->n, 1);
    s->args.gate_up.x    = y;
    s->args.dst          = gated;
    s->params.gate_up    = (RpGateUpParams){.column = column, .kind = RP_GATE_SILU, .dtype = RP_Q8_ACT};

    s                       = next_step(b, TUNE_PRODUCTS, RP_OP_LINEAR, 1);
    s->args.linear.w        = tensor(b, RP_Q4_K, FFN * b->n, b->n, 1);
    s->args.linear.x        = gated;
    s->args.linear.residual = y;
    s->args.dst             = x;
    s->params.linear        = (RpLinearParams){.scale = 1.0f};
}

static void add_products(TuneBench *b) {
    const RpTensorView x = tensor(b, RP_F32, b->n, 1, 1), y = tensor(b, RP_F32, b->n, 1, 1),
                       gated = tensor(b, RP_Q8_ACT, FFN * b->n, 1, 1), last = tensor(b, RP_Q8_ACT, b->n, 1, 1);
    for (int i = 0; i < TUNE_LAYERS; i++) add_layer(b, x, y, gated);
    TuneStep *s     = next_step(b, TUNE_PRODUCTS, RP_OP_QUANTIZE, 0);
    s->args.unary.x = x;
    s->args.dst     = last;

    s                 = next_step(b, TUNE_PRODUCTS, RP_OP_MUL_MAT, 1);
    s->args.mul_mat.w = tensor(b, RP_Q4_K, b->n, VOCAB * b->n, 1);
    s->args.mul_mat.x = last;
    s->args.dst       = tensor(b, RP_F32, VOCAB * b->n, 1, 1);
}

/* Attention of the last `tokens` positions of the context; `open` uploads them. */
static TuneStep *add_attention_of(TuneBench *b, TuneChain chain, RpTensorView k, RpTensorView v, int64_t tokens) {
    TuneStep *s           = next_step(b, chain, RP_OP_ATTENTION, 0);
    s->args.attention.q   = tensor(b, RP_F32, HEAD_DIM, tokens, b->n / HEAD_DIM);
    s->args.attention.k   = k;
    s->args.attention.v   = v;
    s->args.attention.pos = tensor(b, RP_I32, tokens, 1, 1);
    s->params.attention   = (RpAttentionParams){.scale = 0.1f, .dtype = RP_F32};
    return s;
}

static void add_attention(TuneBench *b) {
    const int64_t      heads = b->n / HEAD_DIM, kv_heads = heads > HEADS ? heads / HEADS : 1;
    const RpTensorView k = cache(b, kv_heads), v = cache(b, kv_heads);
    for (int i = 0; i < 2; i++) {
        const int64_t tokens = i == 0 ? TUNE_FEW_TOKENS : TUNE_TOKENS;
        TuneStep     *s      = add_attention_of(b, TUNE_ATTENTION, k, v, tokens);
        s->args.dst          = tensor(b, RP_F32, HEAD_DIM, heads, tokens);
    }
}

/* The caches of the chunks, and the weights of the products. */
static void add_tokens(TuneBench *b) {
    const RpOpArgs    *chunk = &b->steps[TUNE_ATTENTION][0].args;
    const RpTensorView heads = tensor(b, RP_Q8_ACT, b->n, 1, 1);
    for (int i = 0; i < TUNE_LAYERS; i++) {
        TuneStep *s               = add_attention_of(b, TUNE_TOKEN, chunk->attention.k, chunk->attention.v, 1);
        s->params.attention.dtype = RP_Q8_ACT;
        s->args.dst               = heads;
        for (int k = 0; k < 3; k++) {
            const TuneStep *of = &b->steps[TUNE_PRODUCTS][3 * i + k];
            s                  = next_step(b, TUNE_TOKEN, of->op, of->constant);
            s->params          = of->params;
            s->args            = of->args;
            s->args.params     = &s->params;
            if (k > 0) continue;
            s->args.linear.x        = heads;
            s->params.linear.column = (RpColumnParams){0};
        }
    }
}

static void add_chains(TuneBench *b) {
    b->used = 0;
    memset(b->n_steps, 0, sizeof b->n_steps);
    add_products(b);
    add_attention(b);
    add_tokens(b);
}

/* ---- launches ---- */

/* Returns the weights that attention, step i of the chain, prefetches. executor/plan_walk.c chooses them in the same
 * way. */
static RpNextWeights next_of(const TuneBench *b, TuneChain chain, int i, int64_t bytes) {
    RpNextWeights next = {0};
    for (int j = i + 1; j < b->n_steps[chain]; j++) {
        const TuneStep *s = &b->steps[chain][j];
        if (!rp_next_weights_add(&next, s->op, &s->args, s->constant, &bytes)) break;
    }
    return next;
}

/* Calls the launchers of a chain, for the stream or for a hook. */
static RpStatus walk(TuneBench *b, TuneChain chain, const RpCudaTuning *tuning,
                     RpStatus (*hook)(void *user, const RpKernelLaunch *l), void *user) {
    for (int i = 0; i < b->n_steps[chain]; i++) {
        const TuneStep     *s    = &b->steps[chain][i];
        const RpNextWeights next = next_of(b, chain, i, tuning->next_bytes);
        RpKernelCtx         ctx  = {.stream        = b->d->stream,
                                    .scratch       = b->scratch,
                                    .scratch_bytes = b->scratch_bytes,
                                    .overlap       = b->pdl,
                                    .constant      = s->constant,
                                    .nth           = 1,
                                    .launch        = hook,
                                    .user          = user,
                                    .tuning        = tuning,
                                    .op            = s->op,
                                    .next          = s->op == RP_OP_ATTENTION ? &next : NULL};
        RP_TRY(rp_cuda_kernel(s->op)(&s->args, &ctx));
    }
    return RP_OK;
}

/* Loads a kernel, which must not happen during a capture, and finds out whether it was compiled for programmatic
 * dependent launch. */
static RpStatus load(void *user, const RpKernelLaunch *l) {
    TuneBench                *b = user;
    struct cudaFuncAttributes a;
    RP_TRY(rp_cuda_check(b->d, cudaFuncGetAttributes(&a, l->function), "loading of a kernel"));
    b->pdl = b->pdl && a.ptxVersion >= 10 * CUDA_PDL_MAJOR && a.binaryVersion >= 10 * CUDA_PDL_MAJOR;
    return RP_OK;
}

static size_t scratch_bytes(const TuneBench *b, const RpCudaTuning *tuning) {
    size_t most = RP_SCRATCH_ZEROS;
    for (int chain = 0; chain < TUNE_CHAINS; chain++)
        for (int i = 0; i < b->n_steps[chain]; i++) {
            const RpKernelCtx ctx   = {.nth = 1, .tuning = tuning};
            const TuneStep   *s     = &b->steps[chain][i];
            const size_t      bytes = rp_cuda_scratch_bytes(s->op, &s->args, &ctx);
            if (bytes > most) most = bytes;
        }
    return most;
}

/* ---- opening ---- */

static RpStatus fill(TuneBench *b) {
    CudaDevice *d = b->d;
    int32_t     pos[TUNE_TOKENS];
    RP_TRY(rp_cuda_check(d, cudaMemsetAsync(b->memory, FILL, b->bytes - b->scratch_bytes, d->stream),
                         "memory of the measurement"));
    RP_TRY(rp_cuda_check(d, cudaMemsetAsync(b->scratch, 0, b->scratch_bytes, d->stream), "scratch memory"));
    RP_TRY(rp_cuda_check(d, cudaStreamSynchronize(d->stream), "memory of the measurement"));
    for (int i = 0; i < TUNE_TOKENS; i++) pos[i] = (int32_t)(POSITIONS * b->n) - TUNE_TOKENS + i;
    for (int chain = 0; chain < TUNE_CHAINS; chain++)
        for (int i = 0; i < b->n_steps[chain]; i++) {
            if (b->steps[chain][i].op != RP_OP_ATTENTION) continue;
            const RpTensorView *p = &b->steps[chain][i].args.attention.pos;
            RP_TRY(rp_cuda_check(d,
                                 cudaMemcpy(p->data, pos + TUNE_TOKENS - p->ne[0], (size_t)p->ne[0] * sizeof *pos,
                                            cudaMemcpyHostToDevice),
                                 "positions"));
        }
    return RP_OK;
}

static RpStatus take_memory(TuneBench *b, const RpCudaTuning *largest) {
    size_t have, whole;
    add_chains(b); /* without memory: the sizes */
    b->scratch_bytes = scratch_bytes(b, largest);
    b->bytes         = b->used + b->scratch_bytes;
    RP_TRY(rp_cuda_check(b->d, cudaMemGetInfo(&have, &whole), "memory of the device"));
    if (b->bytes > have / 2)
        return rp_fail(RP_E_NOMEM, "%zu MB would be used, and twice as many must be free: there are %zu",
                       b->bytes >> 20, have >> 20);
    RP_TRY(rp_cuda_alloc(b->d, b->bytes, "the measurement of constants", (void **)&b->memory));
    add_chains(b);
    b->scratch = b->memory + b->used;
    return RP_OK;
}

RpStatus rp_tune_bench_open(CudaDevice *d, size_t l2_bytes, int most_tokens, bool pdl, TuneBench *b) {
    RpCudaTuning largest = d->tuning;
    memset(b, 0, sizeof *b);
    b->d                 = d;
    b->n                 = row_length(l2_bytes);
    b->pdl               = pdl;
    largest.split_tokens = most_tokens;
    if (b->n == 0)
        return rp_fail(RP_E_UNSUPPORTED, "no weights of a size that an L2 cache of %zu bytes does not hold", l2_bytes);
    RP_TRY(take_memory(b, &largest));
    RP_TRY(fill(b));
    for (int chain = 0; chain < TUNE_CHAINS; chain++) RP_TRY(walk(b, (TuneChain)chain, &largest, load, b));
    RP_TRY(rp_cuda_check(d, cudaEventCreateWithFlags(&b->begin, cudaEventDefault), "event"));
    return rp_cuda_check(d, cudaEventCreateWithFlags(&b->end, cudaEventDefault), "event");
}

void rp_tune_bench_close(TuneBench *b) {
    if (b->begin != NULL) (void)cudaEventDestroy(b->begin);
    if (b->end != NULL) (void)cudaEventDestroy(b->end);
    if (b->memory != NULL) (void)cudaFree(b->memory);
}

/* ---- measuring ---- */

typedef struct Recording {
    TuneBench          *b;
    TuneChain           chain;
    const RpCudaTuning *tuning;
} Recording;

static RpStatus enqueue(void *arg) {
    const Recording *r = arg;
    return rp_cuda_named(r->b->d, walk(r->b, r->chain, r->tuning, NULL, NULL));
}

RpStatus rp_tune_bench_record(TuneBench *b, TuneChain chain, const RpCudaTuning *tuning, cudaGraphExec_t *out) {
    Recording   r     = {b, chain, tuning};
    cudaGraph_t graph = NULL;
    *out              = NULL;
    RpStatus st       = rp_cuda_record(b->d, NULL, enqueue, &r, "the measured kernels", &graph);
    if (st == RP_OK) st = rp_cuda_instantiate(b->d, graph, "the measured kernels", out);
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    return st;
}

RpStatus rp_tune_bench_time(TuneBench *b, cudaGraphExec_t chain, double *us) {
    CudaDevice *d = b->d;
    float       ms;
    RP_TRY(rp_cuda_check(d, cudaEventRecord(b->begin, d->stream), "event"));
    for (int i = 0; i < RUNS; i++)
        RP_TRY(rp_cuda_check(d, cudaGraphLaunch(chain, d->stream), "launch of the measured kernels"));
    RP_TRY(rp_cuda_check(d, cudaEventRecord(b->end, d->stream), "event"));
    RP_TRY(rp_cuda_check(d, cudaStreamSynchronize(d->stream), "measured kernels"));
    RP_TRY(rp_cuda_check(d, cudaEventElapsedTime(&ms, b->begin, b->end), "event"));
    *us = (double)ms * 1e3 / RUNS;
    return RP_OK;
}
