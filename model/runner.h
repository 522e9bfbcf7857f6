/* runner.h - the graphs of a session: each for so many tokens, with its plan and its executor. */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

#include "reprise/session.h"

enum { MAX_RUNNERS = 12, RECENT_TOKENS = 1024 };

typedef struct Runner {
    ModelGraphOptions o;
    ComputeGraph     *graph;
    ExecPlan         *plan;
    Executor         *executor;
    int32_t          *tokens, *pos, *out_rows;
    float            *logits; /* [n_out][n_vocab] */
    const int32_t **experts;  /* of each layer: ids [n_expert_used, n_tok] or NULL; NULL for models without */
    const TensorNode *step;   /* of a graph that draws its tokens */
} Runner;

struct Session {
    const Model *model;
    Runner       runners[MAX_RUNNERS]; /* longest chunk first, the last for one token */
    int          n_runners;
    Runner       score; /* logits for every token; opened when first used */
    Runner       draws; /* decodes by itself, on a device */
    char        *passes;
    int32_t      n_ctx, n_past;
    RpDtype      kv_type;
    float       *logits;           /* or NULL: of no token, */
    bool         logits_on_device; /* or where `draws` has left them */
    uint64_t    *expert_counts;    /* [n_layer][n_expert], or NULL */
    bool         replying;
    char         reason[320]; /* what was given up when it was opened */
    int32_t      end_tokens[RP_REPLY_MAX_END];
    size_t       n_end_tokens;
};

RP_NODISCARD RpStatus rp_runner_plan(Runner *r, const Model *m, const ModelGraphOptions *o,
                                     const char *passes);
RP_NODISCARD RpStatus rp_runner_open(Runner *r, const Model *m, const ExecutorOptions *options);
void                  rp_runner_close(Runner *r);

#endif
