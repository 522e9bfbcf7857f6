/* model.h - open a model file: configuration, checked weights, tokenizer, and the graphs that decode it. The weights
 * stay in the mapped file and are not copied, unless RpModelOptions.copy is set. Do not change the file while the model
 * is open (gguf.h, "Files that change"); replacing it by a rename is harmless.
 *
 *   RpModel *m;
 *   RP_TRY(rp_model_open("model.gguf", NULL, &m));
 *   printf("%s, %d layers\n", rp_model_info(m)->arch, (int)rp_model_info(m)->n_layer);
 *   rp_model_free(m);
 *
 * A model is read-only once it is open and may serve any number of sessions, from different threads.
 */
#ifndef REPRISE_MODEL_H
#define REPRISE_MODEL_H

#include "reprise/gguf.h"
#include "reprise/graph.h"
#include "reprise/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpModel RpModel;

/* Later versions may add members (docs/api.md). */
typedef struct RpModelInfo {
    const char *arch; /* general.architecture: "llama", ... */
    const char *name; /* general.name as rp_visible_text shows it, or "" */
    int32_t     n_vocab, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int32_t     n_ctx_train;               /* positions that the model was trained for */
    int32_t     window, n_layer_local;     /* n_layer_local layers see only the last `window` positions; 0: none */
    int32_t     n_expert, n_expert_used;   /* experts of a layer, and how many each token uses; 0: no experts */
    int64_t     n_params, n_params_active; /* elements of all tensors, and of those that one token uses */
    size_t      weight_bytes;              /* of all tensors */
    /* Bytes read per token: all tensors, without the unused experts. Of an embedding that is not also the output matrix
     * only one row counts. */
    size_t decode_weight_bytes;
    /* A warning that the latest adapter may not fit: its vectors show that it was trained on another model of the same
     * shape (docs/training.md). NULL: no warning. */
    const char *adapter_warning;
    int32_t     n_layer_recurrent; /* layers of the n_layer that have a state of fixed size, most of them no KV cache */
    int32_t     n_layer_nextn;     /* further layers in the file, which predict further tokens (MTP) */
    int32_t     pooling;           /* RpPooling (embed.h) that the file names; 0: none */
    int32_t     n_label;           /* results of a classification head; 0: the file has none */
    bool        bidirectional;     /* tokens attend to later ones: texts have embeddings (embed.h), and no next token */
    bool        mtp;               /* the first of n_layer_nextn guesses tokens (engine.h) */
    bool        assistant; /* it guesses tokens of another model, whose caches it reads: RpEngineOptions.draft */
    bool        unused[5]; /* 0 */
} RpModelInfo;

typedef struct RpModelOptions {
    /* Or NULL: pages are then read when first used. Otherwise rp_model_open reads all tensors in and reports bytes done
     * and in all, at least every 4 MiB. Return false to stop with RP_E_CANCELLED. */
    bool (*progress)(size_t done, size_t total, void *user);
    void *user; /* handed to `progress` */
    /* Read the file into private memory instead of mapping it. This takes the memory of the whole file, and nothing
     * that happens to the file afterwards reaches the model (gguf.h, "Files that change"). */
    bool copy;
    bool unused[7]; /* 0 */
} RpModelOptions;

/* `options` may be NULL. The path is copied. The caller frees *out; on failure it is NULL. RP_E_IO, also for a file
 * that changes meanwhile; RP_E_FORMAT, RP_E_NOMEM; RP_E_SHAPE names a tensor and both shapes. RP_E_UNSUPPORTED names
 * the architecture, tensor type or tokenizer, or a tensor that the architecture does not use
 * (REPRISE_UNUSED_TENSORS). */
RP_API RP_NODISCARD RpStatus rp_model_open_sized(const char *path, const RpModelOptions *options, size_t options_bytes,
                                                 RpModel **out);
RP_NODISCARD static inline RpStatus rp_model_open(const char *path, const RpModelOptions *options, RpModel **out) {
    return rp_model_open_sized(path, options, sizeof *options, out);
}

/* Adds a LoRA adapter, which is applied whenever the model runs: y = w x + f * b (a x) for each adapted matrix w [n,m],
 * with a [n,rank] and b [rank,m] of any type, and f = scale * alpha / rank (scale, if the file has no alpha). `path` is
 * a GGUF file of llama.cpp's convert_lora_to_gguf.py or of a trainer (train.h); it stays open until rp_model_free.
 * Several adapters add up. Call it before the model makes a graph, a session or a trainer. The path is copied.
 * An adapter of a trainer names its base: the model must have the same tensors of the same shapes, in any types.
 * RP_E_FORMAT for another kind of file, another architecture, a damaged file (docs/training.md), a tensor that the
 * model does not have or one without its pair, a base of other tensors;
 * RP_E_SHAPE names the tensor and the shapes; RP_E_UNSUPPORTED for tensors of embeddings, norms and experts; RP_E_ARG
 * for a scale that is not finite; RP_E_IO, RP_E_NOMEM. The model is then as before. */
RP_API RP_NODISCARD RpStatus rp_model_add_adapter(RpModel *m, const char *path, float scale);

/* rp_model_open from memory, which it borrows until rp_model_free. `name` stands for the path in errors and is
 * copied. */
RP_API RP_NODISCARD RpStatus rp_model_open_memory(const void *data, size_t bytes, const char *name, RpModel **out);
RP_API void                  rp_model_free(RpModel *m); /* NULL is allowed; sessions and graphs of the model go first */

/* Owned by the model, with their texts; valid until rp_model_free. */
RP_API const RpModelInfo *rp_model_info(const RpModel *m);
RP_API const RpGgufFile  *rp_model_file(const RpModel *m);

/* Where the data of a weight of the model's graphs (rp_node_view) lies: returns the path of the file, owned by the
 * model, and sets *offset, in bytes. The file is the model file, a file of its directory or the file of an adapter.
 * NULL for data that is no part of a file: tensors that are joined or converted when a Hugging Face directory is
 * opened, and constants of the configuration. NULL for NULL. */
RP_API const char *rp_model_find_bytes(const RpModel *m, const void *data, size_t *offset);

/* Owned by the model. NULL for a file without a tokenizer (tokenizer.ggml.model absent or "none"): such a model can
 * still be run on ids. */
RP_API const RpTokenizer *rp_model_tokenizer(const RpModel *m);

typedef struct RpModelGraphOptions {
    int32_t n_tok;      /* tokens of a step */
    int32_t n_ctx;      /* positions of the KV cache */
    int32_t n_out;      /* tokens that get logits; 0: 1 */
    RpDtype kv_type;    /* of the KV cache: RP_F16 (also the meaning of RP_F32, which is 0) or RP_Q8_0 */
    bool    expert_ids; /* make the ids of the selected experts outputs */
    bool    draws;      /* the graph samples: it runs the token of the step state and samples the next one into it */
    int32_t n_recent;   /* with `draws`: room for recent tokens in the step state */
    int32_t n_states;   /* slots of recurrent states, for positions whose state is kept, at most 4096; 0: 1 */
    bool    embeddings; /* the graph ends with the hidden states instead of the logits */
    bool    hidden;     /* the hidden states of all tokens are a further output */
    bool    mtp;        /* the graph of the layer that predicts further tokens (RpModelInfo.mtp) */
    bool    unused;     /* 0 */
    int32_t n_seq;      /* sequences whose tokens a step may mix, at most 4096; 0: one, in a cache of n_ctx positions */
    int32_t block;      /* with n_seq: positions of a block of the cache, a multiple of 32 */
    int32_t n_blocks;   /* with n_seq: blocks of the cache, which the sequences share */
    const RpModel *target; /* the model that an assistant (RpModelInfo.assistant) guesses for; else NULL */
    /* With n_seq: blocks of the caches of layers with a window, which then have a table of their own; 0: they have the
     * blocks of the other layers. */
    int32_t n_window_blocks;
    int32_t unused_end; /* 0 */
} RpModelGraphOptions;

/* The graph of one step over n_tok tokens, finished but not optimised. The caller frees it, before the model.
 *   inputs   "tokens"   i32 [n_tok]
 *            "pos"      i32 [n_tok]   position of each token; -1: padding, stores nothing, its results mean nothing
 *            "out_rows" i32 [n_out]   indices of the tokens that get logits
 *            "slots"    i32 [n_tok+1], if a layer is recurrent: the slot of the state before the first token,
 *                       -1: zeros; then, for each token, the slot that the state after it goes to, -1: none. Tokens
 *                       behind the last one with a slot are padding
 *            with n_seq:
 *            "kv_rows"  i32 [n_tok]   row of the cache that each token is stored in; -1: none
 *            "seq"      i32 [n_tok]   sequence of each token, from 0 to n_seq - 1
 *            "table"    i32 [ceil(n_ctx/block), n_seq]: position i of sequence s is row
 *                       table[i/block, s]*block + i%block of the cache. Only blocks of positions that a token attends
 *                       to are read
 *            with n_window_blocks, for the layers with a window, of which there is one at least:
 *            "window_rows", "window_table" as "kv_rows" and "table", which are absent if no other layer has attention
 *            "starts"   i32 [n_tok], if a layer is recurrent: the slot of the state before a token, -1: zeros, -2: it
 *                       follows the token before it. slots[0] means nothing then
 *   output   "logits"   f32 [n_vocab, n_out]
 *            "blk.<layer>.experts" i32 [n_expert_used, n_tok], with expert_ids, for each layer with experts
 *   states   (with n_seq n_blocks*block rows for n_ctx, with n_window_blocks as many of these in layers with a window)
 *            "k.<layer>", "v.<layer>" of kv_type [head_dim, n_ctx, n_head_kv], for each layer with attention,
 *            or, with latent attention, "latent.<layer>" f16 [kv_lora, n_ctx], "k_rope.<layer>" f16 [rotated, n_ctx]
 *            "window.<layer>" f32 [(taps-1)*channels, n_states] and "delta.<layer>" f32 [dim*dim*heads, n_states] for
 *            each gated delta net; the first alone for each short convolution; with a selective scan the first, and
 *            "ssm.<layer>" f32 [state*dim*heads, n_states]
 * With `embeddings` the output is "embeddings" f32 [n_embd, n_out], the hidden states behind the last norm. A model
 * whose tokens attend to later ones (RpModelInfo.bidirectional) has such graphs only. They have no states, and the
 * inputs
 *            "last"     i32 [n_tok]   the last position that each token attends to; -1: padding
 *            "types"    i32 [n_tok]   type of each token, where the model has embeddings of types
 *            "mask"     f32 [n_tok, n_tok], where a window is shorter than n_tok: added to the scores of those layers,
 *                                     0 or -infinity
 * With `hidden` a further output is "hidden" f32 [n_embd, n_tok], the hidden states of all tokens behind the last norm.
 * With `mtp` the graph is that of the layer that predicts the token behind the next one (MTP):
 *     e = norm(embedding of the next token),  h = norm(hidden state of the token),  x = layer(eh_proj [e; h])
 *     hidden' = norm(x),  logits = output hidden'
 * "tokens" are the next tokens, the input "hidden" f32 [n_embd, n_tok] has the hidden states, "pos" is the position of
 * the token that each of these is of. The further output "next_hidden" f32 [n_embd, n_out] takes the place of the
 * hidden state where the token behind the predicted one is predicted. The cache is that of layer n_layer; there are no
 * recurrent states. At most 1024 tokens.
 * With `target` the graph is that of an assistant, which predicts like an MTP layer and has no cache:
 *     x = pre [sqrt(n) * embedding of the next token; hidden state],  x = layers(x),  logits = embedding norm(x),
 *     hidden' = post norm(x)
 * n is the n_embd of the target, whose embedding of the token and hidden state are meant, behind its last norm. Inputs
 * and outputs are those of `mtp`, of n elements. "pos" is the position of the next token, also of guesses behind it.
 * A further input "reach" i32 [n_tok] has the last position that is attended to, the one before. The states are
 * "k.<layer>" and "v.<layer>" of the last layer of the target with a window and of the last one without. The graph only
 * reads them: its executor shares that of a graph of the target (RpExecutorOptions.share), which fills them.
 * With `draws` there are no inputs. Token and position are read from the state "step", i32 [RP_STEP_WORDS +
 * n_recent] (step.h), and the last node samples the next token into it. The state "candidates" is scratch memory of
 * that node. Recurrent states are those of slot 0, updated in place.
 * RP_E_ARG for `mtp` or `hidden` with `draws` or `embeddings`, or both, and for an assistant with any of them; for a
 * target that the assistant does not fit, and for one of another model; for another cache type, n_tok or n_ctx below 1,
 * a negative n_out or n_recent, `draws` with more than one token or output or with n_seq, and blocks out of their
 * range. RP_E_UNSUPPORTED for a q8_0 cache with latent attention or heads that are not a multiple of 32, for a model
 * without any attention, with `mtp` for one without such a layer, for an assistant without a target, and for a
 * bidirectional one without `embeddings`, with `draws` or with n_seq. */
RP_API RP_NODISCARD RpStatus        rp_model_graph_sized(const RpModel *m, const RpModelGraphOptions *options,
                                                         size_t options_bytes, ComputeGraph **out);
RP_NODISCARD static inline RpStatus rp_model_graph(const RpModel *m, const RpModelGraphOptions *options,
                                                   ComputeGraph **out) {
    return rp_model_graph_sized(m, options, sizeof *options, out);
}

/* Name of the i-th architecture that can be opened; NULL past the last. Static storage. */
RP_API const char *rp_arch_name(int i);

#ifdef __cplusplus
}
#endif
#endif
