/* model.h - open a model file: checked weights, configuration, tokenizer, and the graphs that decode it.
 *
 *   Model *m;
 *   RP_TRY(rp_model_open("model.gguf", NULL, &m));
 *   printf("%s, %d layers\n", rp_model_info(m)->arch, rp_model_info(m)->n_layer);
 *   rp_model_free(m);
 *
 * The weights stay where the file is mapped; nothing is copied. A model is read-only once open and may serve any
 * number of sessions, from different threads.
 */
#ifndef REPRISE_MODEL_H
#define REPRISE_MODEL_H

#include "reprise/gguf.h"
#include "reprise/graph.h"
#include "reprise/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Model Model;

typedef struct ModelInfo {
    const char *arch;       /* "llama", ... */
    const char *name;       /* general.name, or "" */
    int32_t     n_vocab, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int32_t     n_ctx_train;
    int32_t     window, n_layer_local; /* so many layers attend to the last `window` positions only; 0: none */
    int32_t     n_expert, n_expert_used; /* of a layer, and of those for one token; 0: no experts */
    int64_t     n_params, n_params_active; /* active: of the matrices that one token goes through */
    size_t      weight_bytes;              /* of all tensors */
    size_t      decode_weight_bytes; /* read for one token: every matrix, of the experts the chosen ones, one row of the
                                        embedding */
} ModelInfo;

typedef struct ModelOptions {
    /* Called now and then while pages of the file are read in, with bytes done and in all; return false to stop with
     * RP_E_CANCELLED. NULL: pages are read when first used. */
    bool (*progress)(size_t done, size_t total, void *user);
    void  *user;
} ModelOptions;

/* `options` may be NULL. RP_E_IO, RP_E_FORMAT, RP_E_UNSUPPORTED (architecture, tensor type, tokenizer: by name),
 * RP_E_SHAPE (a tensor, both shapes). */
RP_NODISCARD RpStatus rp_model_open(const char *path, const ModelOptions *options, Model **out);

/* The same over memory that the caller keeps until rp_model_free; `name` stands for the path in errors. */
RP_NODISCARD RpStatus rp_model_open_memory(const void *data, size_t bytes, const char *name, Model **out);
void                  rp_model_free(Model *m);

const ModelInfo *rp_model_info(const Model *m);
const GgufFile  *rp_model_file(const Model *m);

/* The model's tokenizer; NULL for a file without one (tokenizer.ggml.model absent), which can still be run on ids. */
const Tokenizer *rp_model_tokenizer(const Model *m);

typedef struct ModelGraphOptions {
    int32_t n_tok; /* tokens of a step */
    int32_t n_ctx; /* positions of the caches */
    int32_t n_out; /* tokens that get logits; 0: 1 */
    RpDtype kv_type; /* of keys and values: RP_F16, RP_F32 (0) stands for it too, or RP_Q8_0 */
    bool    expert_ids; /* the ids of the chosen experts are outputs */
    bool    draws;      /* one token a step, which begins with the token of the step state and draws the next into it */
    int32_t n_recent;   /* of `draws`: room for recent tokens in the step state */
} ModelGraphOptions;

/* The graph of one step over n_tok tokens with caches for n_ctx positions, finished but not optimised; the caller
 * frees it, before the model. Inputs: "tokens" i32 [n_tok], "pos" i32 [n_tok] (-1: padding, computes nothing of
 * use), "out_rows" i32 [n_out] (which of the tokens get logits). Output: "logits" f32 [n_vocab, n_out]. States:
 * "k.<layer>", "v.<layer>" of kv_type [n_head_kv*head_dim, n_ctx], with latent attention "latent.<layer>" f16
 * [kv_lora, n_ctx] and "k_rope.<layer>" f16 [rotated, n_ctx]. With expert_ids
 * those of a layer with experts are an output too: "blk.<layer>.experts" i32 [n_expert_used, n_tok].
 * With `draws` there are no inputs; token and position are those of the state "step" (step.h), i32 [words], and the last
 * node draws the next token into it.
 * RP_E_UNSUPPORTED for a cache of q8_0 with heads that are no whole blocks of 32, or with latent attention. RP_E_ARG for
 * another type of cache, and where n_tok or n_ctx is not positive, n_out negative, or several tokens are to be drawn at once. */
RP_NODISCARD RpStatus rp_model_graph(const Model *m, const ModelGraphOptions *options, ComputeGraph **out);

/* Architectures that can be opened, for help texts: NULL past the last. */
const char *rp_arch_name(int i);

#ifdef __cplusplus
}
#endif
#endif
