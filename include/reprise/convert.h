/* convert.h - write model files: with random weights in the shape of a real model, with the initial weights and the
 * tokenizer of a training, with the weights of another file quantised to another type, or with adapters merged into
 * them.
 *
 *   const RpSynthOptions options = {.type = "Q4_K_M", .seed = 1};
 *   RP_TRY(rp_synth("nn-6.9b", &options, "nn.gguf"));
 *   RP_TRY(rp_requantize("model-f16.gguf", "model-q8_0.gguf", "Q8_0", NULL, NULL));
 *
 * All functions write the file as a whole (file.h): after a failure the path holds what it held before. Texts are
 * borrowed for the call. Memory is taken for the metadata and a batch of rows, not for the whole model.
 *
 * A type is the name of a float type (F32, F16, BF16) or of a quantisation mix (rp_convert_type_name), in upper or
 * lower case. The mixes are those of llama.cpp's llama-quantize: most matrices have one type, and some a finer one.
 *   Q8_0, Q6_K, Q4_0   and others: the type of that name; the output matrix Q6_K or Q8_0
 *   Q4_K_M Q5_K_M      Q4_K and Q5_K, but Q6_K for the values of attention (attn_v, attn_qkv, attn_kv_b) and
 *                      ffn_down in the first and last eighth of the layers, and in every third layer between
 *   Q4_K_S, Q3_K_M ... rules of their own (model/convert/quant_mix.c has them all)
 *   Q3_K, Q4_K, Q5_K   Q3_K_M, Q4_K_M, Q5_K_M
 *   MXFP4              in a model with experts only these are MXFP4, other matrices Q8_0
 *   registered types   (extend.h) all matrices in that type, for rp_requantize and rp_merge_adapters
 * Vectors and routers stay f32. Rows that are not whole blocks of a type get a similar one in blocks of 32 (Q4_K: Q5_0,
 * Q5_K: Q5_1, Q6_K: Q8_0, Q2_K and Q3_K: Q4_0, IQ types: IQ4_NL), or else F16.
 */
#ifndef REPRISE_CONVERT_H
#define REPRISE_CONVERT_H

#include "reprise/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called after every row or batch of rows with the bytes of tensor data written so far and in all. Return false to stop
 * with RP_E_CANCELLED. */
typedef bool RpConvertProgress(size_t done, size_t total, void *user);

typedef struct RpSynthOptions {
    const char        *type;      /* NULL: Q8_0 */
    uint64_t           seed;      /* the same seed gives the same file, byte for byte */
    bool               hollow;    /* no weights: a hole in the file that reads as zeros and takes no disk space */
    RpConvertProgress *progress;  /* or NULL */
    void              *user;      /* handed to `progress` */
    bool               mtp;       /* with a further layer that predicts further tokens (RpModelInfo.mtp) */
    bool               pure;      /* as in RpRequantizeOptions */
    bool               unused[6]; /* 0 */
} RpSynthOptions;

/* Writes a model with random weights in the shape of a preset, with one token per byte. Weights are scaled by
 * 1/sqrt(row length), so that activations keep their size. `options` may be NULL.
 * RP_E_ARG for an unknown preset or type (the text lists the known ones) and for `mtp` with a family that cannot have
 * it; RP_E_IO, RP_E_NOMEM, RP_E_CANCELLED. */
RP_API RP_NODISCARD RpStatus rp_synth_sized(const char *preset, const RpSynthOptions *options, size_t options_bytes,
                                            const char *path);
RP_NODISCARD static inline RpStatus rp_synth(const char *preset, const RpSynthOptions *options, const char *path) {
    return rp_synth_sized(preset, options, sizeof *options, path);
}

/* Opens a preset without weights, through a hollow temporary file in TMPDIR. It costs a few pages of memory, and its
 * graphs and plans are those of the real model; weights read as zeros. `type` as in RpSynthOptions. The caller frees
 * *out with rp_model_free. Errors as rp_synth and rp_model_open. */
RP_API RP_NODISCARD RpStatus rp_model_open_preset(const char *preset, const char *type, RpModel **out);

/* Name and one-line description of preset i; NULL past the last. Static storage. */
RP_API const char *rp_synth_preset_name(int i);
RP_API const char *rp_synth_preset_help(int i);

typedef struct RpTrainTokenizerOptions {
    int32_t            n_vocab;  /* tokens, with the end token and 256 bytes, so at least 257; 0: 4096 */
    RpConvertProgress *progress; /* or NULL; called with bytes of texts, then with tokens */
    void              *user;     /* handed to `progress` */
} RpTrainTokenizerOptions;

/* Trains a byte-level BPE tokenizer ("gpt2", pre-tokenizer "gpt-2") on texts and writes it as a GGUF file without
 * tensors, which rp_tokenizer_new and rp_train_init read. Token 0 is "<|end|>", which begins a text and ends it; then
 * come the 256 bytes, then the results of merges. The merges are those of Hugging Face's tokenizers (BpeTrainer with
 * the byte alphabet). There are fewer than n_vocab tokens if each word of the texts is one token already. The same
 * texts give the same file. RP_E_ARG for a size below 257, or texts without bytes; RP_E_IO, RP_E_NOMEM, RP_E_CANCELLED.
 * `options` may be NULL.
 *
 *   const RpGgufString text = {"In the beginning", 16};
 *   RP_TRY(rp_train_tokenizer(&text, 1, NULL, "tokenizer.gguf"));
 *   const RpTrainInitOptions init = {.tokenizer = "tokenizer.gguf"};
 *   RP_TRY(rp_train_init("demo", &init, "untrained.gguf")); */
RP_API RP_NODISCARD RpStatus        rp_train_tokenizer_sized(const RpGgufString *texts, size_t n_texts,
                                                             const RpTrainTokenizerOptions *options, size_t options_bytes,
                                                             const char *path);
RP_NODISCARD static inline RpStatus rp_train_tokenizer(const RpGgufString *texts, size_t n_texts,
                                                       const RpTrainTokenizerOptions *options, const char *path) {
    return rp_train_tokenizer_sized(texts, n_texts, options, sizeof *options, path);
}

typedef struct RpTrainInitOptions {
    const char        *tokenizer; /* a GGUF file, whose tokenizer is copied and gives the vocabulary its size; NULL: one
                                     token per byte and the size of the preset */
    uint64_t           seed;      /* the same seed gives the same file, byte for byte */
    RpConvertProgress *progress;  /* or NULL */
    void              *user;      /* handed to `progress` */
} RpTrainInitOptions;

/* Writes a model in the shape of a preset, to be trained: matrices are normal with deviation 1/sqrt(row length), those
 * that add to the residual stream (attn_output, ffn_down) divided by sqrt(2 * layers); norms are 1, biases 0; all f32.
 * RP_E_ARG for an unknown preset, or if `path` is the tokenizer's; RP_E_UNSUPPORTED for a file without a tokenizer;
 * RP_E_IO, RP_E_NOMEM, RP_E_CANCELLED. `options` may be NULL. */
RP_API RP_NODISCARD RpStatus        rp_train_init_sized(const char *preset, const RpTrainInitOptions *options,
                                                        size_t options_bytes, const char *path);
RP_NODISCARD static inline RpStatus rp_train_init(const char *preset, const RpTrainInitOptions *options,
                                                  const char *path) {
    return rp_train_init_sized(preset, options, sizeof *options, path);
}

/* Copies a model file with its matrices quantised to `type`, by all cores; the metadata is copied. `progress` may
 * be NULL. `in` may be a Hugging Face directory. A file that is quantised already loses accuracy a second time,
 * except for tensors that have the wanted type: these are copied. RP_E_UNSUPPORTED, with the tensor, for a type
 * that cannot be dequantised; RP_E_ARG if `out` is the file `in`, also by a link, for an unknown type, or for a row
 * with NaN or infinity; RP_E_IO, RP_E_NOMEM, RP_E_CANCELLED; errors of rp_gguf_open. */
RP_API RP_NODISCARD RpStatus rp_requantize(const char *in, const char *out, const char *type,
                                           RpConvertProgress *progress, void *user);

typedef struct RpRequantizeOptions {
    const char        *imatrix;   /* a file of rp_imatrix or llama-imatrix (also a .dat), or NULL */
    RpConvertProgress *progress;  /* or NULL */
    void              *user;      /* handed to `progress` */
    bool               pure;      /* all matrices, the output matrix too, have the type that most have in the mix */
    bool               unused[7]; /* 0 */
} RpRequantizeOptions;

/* rp_requantize with an importance matrix: a quantiser that searches scales multiplies the squared error of a weight by
 * the mean square of the activations of its column (Q8_0, MXFP4, Q1_0 and TQ do not search). Weights without sums in
 * the file are quantised without them. The types IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S and IQ3_XXS need sums, as in
 * llama.cpp, except for embedding and output matrix: RP_E_ARG, with the tensor, if there are none. But weights for
 * which rp_imatrix gives no sums, in layers that predict further tokens and in the heads of latent attention, become
 * Q4_K. `options` may be NULL. Also RP_E_SHAPE, naming tensor and both shapes, for the importance matrix of another
 * model; RP_E_FORMAT if the file is no importance matrix or has sums that are not finite; and RP_E_ARG if `out` is that
 * file. */
RP_API RP_NODISCARD RpStatus        rp_requantize_with_sized(const char *in, const char *out, const char *type,
                                                             const RpRequantizeOptions *options, size_t options_bytes);
RP_NODISCARD static inline RpStatus rp_requantize_with(const char *in, const char *out, const char *type,
                                                       const RpRequantizeOptions *options) {
    return rp_requantize_with_sized(in, out, type, options, sizeof *options);
}

typedef struct RpImatrixOptions {
    int32_t            chunk;     /* tokens that are run from an empty context; 0: 512 */
    int32_t            n_threads; /* 0: REPRISE_THREADS, or one per core */
    const char        *device;    /* as in RpExecutorOptions */
    const char        *dataset;   /* name of the text, written to the file; or NULL */
    RpConvertProgress *progress;  /* or NULL; called with tokens */
    void              *user;      /* handed to `progress` */
} RpImatrixOptions;

/* Runs the model on n tokens, chunk by chunk, and writes the sums of the squares of the activations that each column of
 * a weight is multiplied with, in the GGUF format of llama.cpp's llama-imatrix. An incomplete last chunk is left out.
 * There are sums for the weights of layers, without the matrices of heads of latent attention, and for an output matrix
 * that is not the embedding. `options` may be NULL. RP_E_ARG for fewer tokens than a chunk, a chunk beyond the context
 * of the model, a token that it does not have, activations that are not finite, or if `path` is the file of the model;
 * RP_E_IO, RP_E_NOMEM, RP_E_CANCELLED; errors of rp_executor_open and rp_executor_run. */
RP_API RP_NODISCARD RpStatus        rp_imatrix_sized(const RpModel *m, const int32_t *ids, size_t n,
                                                     const RpImatrixOptions *options, size_t options_bytes, const char *path);
RP_NODISCARD static inline RpStatus rp_imatrix(const RpModel *m, const int32_t *ids, size_t n,
                                               const RpImatrixOptions *options, const char *path) {
    return rp_imatrix_sized(m, ids, n, options, sizeof *options, path);
}

/* Writes the model with its adapters (rp_model_add_adapter) added into the weights. An adapted matrix is written in
 * `type`, a name as f16 or q8_0; NULL: in its own type, which rounds again. All else is copied. `progress` may be NULL.
 * RP_E_ARG if `path` is the file of the model or of an adapter, for a model without an adapter, an unknown type, rows
 * that are not whole blocks of it, or a row that cannot be quantised; RP_E_UNSUPPORTED for a tensor of a type that
 * cannot be copied; RP_E_IO, RP_E_NOMEM, RP_E_CANCELLED. */
RP_API RP_NODISCARD RpStatus rp_merge_adapters(const RpModel *m, const char *path, const char *type,
                                               RpConvertProgress *progress, void *user);

/* Name of quantisation mix i; NULL past the last. Static storage. */
RP_API const char *rp_convert_type_name(int i);

#ifdef __cplusplus
}
#endif
#endif
