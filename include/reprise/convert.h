/* convert.h - model files made: of random weights, or of another file's weights in another type.
 *
 *   RP_TRY(rp_synth("nn-6.9b", &(SynthOptions){.type = "Q4_K_M", .seed = 1}, "nn.gguf"));
 *   RP_TRY(rp_requantize("model-f16.gguf", "model-q8_0.gguf", "Q8_0", NULL, NULL));
 *
 * Both write beside the wanted path and rename at the end: a file of that name is whole, or what it was before. Both
 * take one row of weights at a time, whatever the size of the model, beside the metadata.
 *
 * A type is F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4 (of the experts, Q8_0 elsewhere), or a
 * mix: Q4_K_M and Q5_K_M have Q6_K for the values and the down projection of every other layer or so. Vectors and
 * routers stay f32; the output matrix is Q6_K at least; a matrix whose rows are no whole blocks of its type is Q8_0, or
 * F16 where that does not fit either.
 */
#ifndef REPRISE_CONVERT_H
#define REPRISE_CONVERT_H

#include "reprise/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of tensor data written so far and in all; return false to stop with RP_E_CANCELLED. */
typedef bool ConvertProgress(size_t done, size_t total, void *user);

typedef struct SynthOptions {
    const char      *type; /* NULL: Q8_0 */
    uint64_t         seed; /* the same seed gives the same file, byte for byte */
    bool             hollow; /* no weights: zeros that take no room on the disk, for the shape alone */
    ConvertProgress *progress;
    void            *user;
} SynthOptions;

/* A model of random weights in the shape of a real one, scaled so that activations keep their size, with a tokenizer of
 * bytes. RP_E_ARG for a preset or type that there is none of (it names those there are), RP_E_IO. */
RP_NODISCARD RpStatus rp_synth(const char *preset, const SynthOptions *options, const char *path);

/* A preset without its weights: its graphs and plans can be made, at the cost of a few pages. Reading a weight gives
 * zeros. `type` as in SynthOptions. */
RP_NODISCARD RpStatus rp_model_open_preset(const char *preset, const char *type, Model **out);

/* NULL past the last. */
const char *rp_synth_preset_name(int i);
const char *rp_synth_preset_help(int i);

/* The tensors of `in`, which are f32, f16 or bf16, in another type; the metadata is copied. RP_E_UNSUPPORTED for a
 * tensor that is quantised already, by name. */
RP_NODISCARD RpStatus rp_requantize(const char *in, const char *out, const char *type, ConvertProgress *progress,
                                    void *user);

/* Names of types and mixes: NULL past the last. */
const char *rp_convert_type_name(int i);

#ifdef __cplusplus
}
#endif
#endif
