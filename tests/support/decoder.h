/* decoder.h - the decode step of a model as graph, plan and executor, for tests that work below a session. The
 * device is that of REPRISE_DEVICE. */
#ifndef TESTS_DECODER_H
#define TESTS_DECODER_H

#include "tests/support/golden.h"

#include "reprise/convert.h"
#include "reprise/step.h"

enum { DECODER_CTX = 16, DECODER_VOCAB = 512, DECODER_WORDS = RP_STEP_WORDS + 8 };

typedef struct Decoder {
    ComputeGraph     *graph;
    ExecPlan         *plan;
    RpExecutor       *exec;
    const TensorNode *step; /* the step state, if the graph samples */
    size_t            n_vocab;
} Decoder;

/* Graph and plan only. samples: the graph takes the token from the step state and samples the next one into it. */
static inline void decoder_plan(const RpModel *m, bool samples, Decoder *d) {
    *d = (Decoder){.n_vocab = (size_t)rp_model_info(m)->n_vocab};
    cr_assert_leq(d->n_vocab, (size_t)DECODER_VOCAB);
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = DECODER_CTX, .draws = samples, .n_recent = 8},
                      &d->graph));
    OK(rp_graph_optimize(d->graph, ""));
    OK(rp_plan_new(d->graph, &d->plan));
    d->step = samples ? rp_graph_find(d->graph, "step") : NULL;
}

static inline Decoder decoder_open(const RpModel *m, RpExecMode mode, bool samples) {
    Decoder d;
    decoder_plan(m, samples, &d);
    OK(rp_executor_open(d.plan, &(RpExecutorOptions){.n_threads = 1, .mode = mode, .step = d.step}, &d.exec));
    const RpExecutorInfo info = rp_executor_info(d.exec);
    if (strcmp(info.device, "cpu") != 0) cr_assert_str_eq(info.reason, "", "%s", info.reason);
    return d;
}

static inline void decoder_close(Decoder *d) {
    rp_executor_free(d->exec);
    rp_plan_free(d->plan);
    rp_graph_free(d->graph);
}

/* Runs one token at the position; the graph must not sample. */
static inline RpStatus decoder_try(Decoder *d, int32_t token, int32_t pos) {
    *(int32_t *)rp_executor_data(d->exec, rp_graph_find(d->graph, "tokens"))   = token;
    *(int32_t *)rp_executor_data(d->exec, rp_graph_find(d->graph, "pos"))      = pos;
    *(int32_t *)rp_executor_data(d->exec, rp_graph_find(d->graph, "out_rows")) = 0;
    return rp_executor_run(d->exec);
}

static inline const float *decoder_run(Decoder *d, int32_t token, int32_t pos) {
    OK(decoder_try(d, token, pos));
    return rp_executor_data(d->exec, rp_graph_find(d->graph, "logits"));
}

/* The words of a step state at the beginning of a reply. */
static inline void decoder_step(int32_t *words, int32_t token, int32_t pos) {
    const RpStepState s = {.token          = token,
                           .pos            = pos,
                           .temperature    = 0.9f,
                           .top_p          = 1.0f,
                           .repeat_penalty = 1.2f,
                           .repeat_last_n  = 8,
                           .seed_low       = 11};
    memset(words, 0, DECODER_WORDS * sizeof *words);
    memcpy(words, &s, sizeof s);
}

/* A reply of n tokens; returns the first failure. */
static inline RpStatus decoder_reply(Decoder *d, int32_t token, int32_t n, int32_t *out) {
    int32_t words[DECODER_WORDS];
    decoder_step(words, token, 0);
    RP_TRY(rp_executor_reply_begin(
        d->exec, &(RpReplyOptions){.state = words, .n_state = DECODER_WORDS, .max_tokens = n, .n_ctx = DECODER_CTX}));
    for (int32_t i = 0; i < n; i++) RP_TRY(rp_executor_reply_next(d->exec, &out[i]));
    return rp_executor_reply_end(d->exec, NULL);
}

/* A synthetic model: the same shapes for every seed, but other weights. */
static inline RpModel *decoder_synth(const char *type, uint64_t seed) {
    char     path[64];
    RpModel *m;
    snprintf(path, sizeof path, "/tmp/rp-decoder-%d.gguf", (int)getpid());
    OK(rp_synth("tiny", &(RpSynthOptions){.type = type, .seed = seed}, path));
    OK(rp_model_open(path, NULL, &m));
    remove(path); /* it stays mapped */
    return m;
}

#endif
