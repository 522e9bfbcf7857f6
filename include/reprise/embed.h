/* embed.h - embeddings of texts, and scores of documents for a query. An embedder runs a model over one text at a time
 * and pools the hidden states of its tokens into one vector.
 *
 *   RpEmbedder *e;
 *   float       v[1024];                          // at least rp_embedder_info(e).n_out
 *   RP_TRY(rp_embedder_open(model, NULL, &e));
 *   RP_TRY(rp_embed_text(e, text, strlen(text), v));
 *   rp_embedder_free(e);
 *
 * Encoders (RpModelInfo.bidirectional), whose tokens attend to all others, compute a text in one run. Decoders compute
 * it in chunks, with a KV cache. Results do not depend on the number of threads, on the instruction set, on the
 * context, or on the texts before (I8; on a GPU as in session.h).
 * One thread at a time may use an embedder. It borrows the model, which must outlive it.
 */
#ifndef REPRISE_EMBED_H
#define REPRISE_EMBED_H

#include "reprise/executor.h"
#include "reprise/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpEmbedder RpEmbedder;

/* How the hidden states h[t] of n tokens become a vector. */
typedef enum RpPooling {
    RP_POOLING_DEFAULT, /* as the file says (<arch>.pooling_type) */
    RP_POOLING_NONE,    /* every h[t] */
    RP_POOLING_MEAN,    /* (h[0] + ... + h[n-1]) / n */
    RP_POOLING_CLS,     /* h[0] */
    RP_POOLING_LAST,    /* h[n-1] */
    RP_POOLING_RANK     /* scores by the classification head of the file */
} RpPooling;

/* Norms of RpEmbedderOptions.normalize. p from 1 on: v / (sum_i |v[i]|^p)^(1/p); 2: v / sqrt(sum_i v[i]^2). */
enum {
    RP_NORMALIZE_DEFAULT = 0,  /* 2; of RP_POOLING_RANK: none */
    RP_NORMALIZE_NONE    = -1, /* v */
    RP_NORMALIZE_MAX     = -2  /* 32760 * v / max_i |v[i]|: the range of int16 */
};

typedef struct RpEmbedderOptions {
    int32_t   n_ctx;     /* tokens of the longest text; 0: the model's training context, at most 4096 */
    int       n_threads; /* 0: REPRISE_THREADS, or one per core */
    RpPooling pooling;
    int32_t   normalize; /* RP_NORMALIZE_, or p of a p-norm, at most 64 */
    int32_t
        dimensions; /* keep only this many numbers of a vector, the first ones, before it is normalised; 0: all. For models
                                  that were trained so (Kusupati et al. 2022, arXiv:2205.13147) */
    int32_t     prefill_chunk; /* of decoders, as in RpSessionOptions */
    const char *passes;        /* as in rp_graph_optimize; NULL: REPRISE_PASSES. Copied */
    const char *device;        /* this and the next three as in RpExecutorOptions */
    bool        require_cuda, require_graph, unused[2];
    RpExecMode  mode;
    const char *repack;  /* as in RpSessionOptions */
    const char *backend; /* as in RpExecutorOptions */
} RpEmbedderOptions;

/* `options` may be NULL for the defaults. The caller frees *out; on failure it is NULL.
 * RP_E_ARG for a context below 1 or beyond the training context, a bad pooling, norm or number of dimensions;
 * RP_E_UNSUPPORTED for a file that names no pooling where `pooling` does not either, and for RP_POOLING_RANK without
 * a classification head; RP_E_NOMEM; errors of rp_executor_open. */
RP_API RP_NODISCARD RpStatus        rp_embedder_open_sized(const RpModel *m, const RpEmbedderOptions *options,
                                                           size_t options_bytes, RpEmbedder **out);
RP_NODISCARD static inline RpStatus rp_embedder_open(const RpModel *m, const RpEmbedderOptions *options,
                                                     RpEmbedder **out) {
    return rp_embedder_open_sized(m, options, sizeof *options, out);
}
RP_API void rp_embedder_free(RpEmbedder *e); /* NULL is allowed */

typedef struct RpEmbedderInfo {
    int32_t     n_out;   /* numbers of a vector; of RP_POOLING_RANK: scores, one for each label */
    int32_t     n_ctx;   /* tokens of the longest text */
    RpPooling   pooling; /* in use */
    int32_t     n_threads;
    size_t      arena, kv;       /* bytes of intermediate tensors and of the KV cache, without weights */
    const char *device, *reason; /* as in RpExecutorInfo; valid as long as the embedder */
    bool        fell_back, unused[7];
    const char *backend;      /* as in RpExecutorInfo; valid as long as the embedder */
    size_t      repack_bytes; /* as in RpExecutorInfo */
} RpEmbedderInfo;

RP_API void                  rp_embedder_info_sized(const RpEmbedder *e, RpEmbedderInfo *out, size_t out_bytes);
static inline RpEmbedderInfo rp_embedder_info(const RpEmbedder *e) {
    RpEmbedderInfo info;
    rp_embedder_info_sized(e, &info, sizeof info);
    return info;
}

/* Computes the vector of n tokens: f32 [n_out], or [n][n_out] of RP_POOLING_NONE, in memory of the caller. The first
 * text of a length may plan and allocate for it. RP_E_ARG for no tokens and for an id outside the vocabulary,
 * RP_E_CONTEXT_FULL for more than n_ctx tokens, with both numbers; RP_E_NOMEM; errors of rp_executor_run. `out` then
 * means nothing. */
RP_API RP_NODISCARD RpStatus rp_embed(RpEmbedder *e, const int32_t *tokens, size_t n, float *out);

/* The same for a text of `len` bytes, which the model's tokenizer reads with the special tokens that the file asks for.
 * Control tokens that it spells are plain text. RP_E_ARG for an empty text and for RP_POOLING_NONE, whose result would
 * have an unknown length; RP_E_UNSUPPORTED for a model without a tokenizer; errors of rp_tokenize. */
RP_API RP_NODISCARD RpStatus rp_embed_text(RpEmbedder *e, const char *text, size_t len, float *out);

/* Scores a document for a query with the classification head of the file (RP_POOLING_RANK): higher is better. The
 * tokens are those of the template tokenizer.chat_template.rerank of the file, in which "{query}" and "{document}"
 * stand for the texts; without it:
 *     BOS query EOS SEP document EOS      without those that the file does not ask for (tokenizer.ggml.add_bos_token)
 *     [CLS] query [SEP] document [SEP]    with the tokenizer "bert"; types are 1 from the document on, if the model has
 *                                         two of them
 * *score is the first label's. RP_E_ARG for another pooling and for an empty query or document; else as
 * rp_embed_text. */
RP_API RP_NODISCARD RpStatus rp_rerank(RpEmbedder *e, const char *query, size_t query_len, const char *document,
                                       size_t document_len, float *score);

/* "default", "none", "mean", "cls", "last" or "rank"; "?" for no pooling. Static storage. */
RP_API const char *rp_pooling_name(RpPooling pooling);

/* RP_E_ARG for any other name. */
RP_API RP_NODISCARD RpStatus rp_pooling_from_name(const char *name, RpPooling *out);

#ifdef __cplusplus
}
#endif
#endif
