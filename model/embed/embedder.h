/* embedder.h - the inside of an RpEmbedder: runners for texts, or chunks, of some numbers of tokens, and the head that
 * turns a pooled vector into the result. */
#ifndef MODEL_EMBED_EMBEDDER_H
#define MODEL_EMBED_EMBEDDER_H

#include "model/model.h"

#include "reprise/embed.h"

enum { MAX_EMBED_RUNNERS = 256 };

typedef struct EmbedRunner {
    int32_t       n_tok, n_out;
    ComputeGraph *graph;
    ExecPlan     *plan;
    RpExecutor   *executor;
    /* inputs; NULL where the graph has none. mask: [n_tok][n_tok] */
    int32_t     *tokens, *pos, *out_rows, *slots, *last, *types;
    float       *mask;
    const float *out; /* hidden states [n_out][n_embd], or the result of the head */
} EmbedRunner;

struct RpEmbedder {
    const RpModel    *model;
    RpEmbedderOptions o;                          /* with defaults filled in */
    char             *passes;                     /* owned */
    EmbedRunner       runners[MAX_EMBED_RUNNERS]; /* [0] has the most tokens, and owns what all share */
    int               n_runners;
    EmbedRunner       head;       /* executor NULL: there is none */
    int32_t           n_head_out; /* numbers of a vector behind the head */
    RpPooling         row;        /* what the head reads: o.pooling, or what a classification head reads */
    double           *sum;        /* [n_embd] of RP_POOLING_MEAN */
    float            *pooled;     /* [n_embd] */
    float            *rows;   /* [n_tok][n_embd] of the longest run, where each state goes through a head; or NULL */
    RpTokenList       tokens; /* of the latest text */
};

/* The number of hidden states that a graph of n_tok tokens gives out. */
int32_t rp_embed_outputs(RpPooling pooling, int32_t n_tok);

/* The graph from a pooled vector "pooled" [n_embd] to the result "embedding"; *out is NULL if they are the same. */
RP_NODISCARD RpStatus rp_embed_head_graph(const RpModel *m, RpPooling pooling, ComputeGraph **out);

/* The first n of the numbers x, normalised: see RpEmbedderOptions.normalize. */
void rp_embed_normalize(const float *x, int32_t n, int32_t normalize, float *out);

/* Plans and opens a runner. Closing a zeroed runner is legal. */
RP_NODISCARD RpStatus rp_embed_runner_open(RpEmbedder *e, EmbedRunner *r, int32_t n_tok);
RP_NODISCARD RpStatus rp_embed_head_open(RpEmbedder *e);
void                  rp_embed_runner_close(EmbedRunner *r);

/* Computes the hidden states of all tokens, pools them and applies the head. Tokens from `second` on are of type 1. */
RP_NODISCARD RpStatus rp_embed_tokens(RpEmbedder *e, const int32_t *tokens, size_t n, size_t second, float *out);

#endif
