/* Quantisation mixes. The rules of Q4_K_M and Q5_K_M and the numbers of general.file_type are those of
 * llama.cpp (src/llama-quant.cpp), without its special cases for single models and expert counts. Q4_K and
 * Q5_K have the numbers of Q4_K_S and Q5_K_S. First match wins:
 *
 *     vectors, norms, biases, router, taps      f32
 *     output.weight, tied token_embd.weight     `output`
 *     token_embd.weight                         `others`
 *     attn_v, ffn_down(_exps) of better layers  `better`, if the mix has one
 *     ffn_*_exps                                `base`
 *     all else                                  `others`
 *
 * Each weight type but the IQ1 to IQ3 is a mix, whose file_type and output come from its row (base/dtypes.h). The mixes
 * with the names of those have rules of their own (quant_mix_low.c). MXFP4 in a model with
 * experts has `others` of its own (rp_quant_mix_experts).
 * Rows that are not whole blocks of the type: Q8_0 if they are whole blocks of 32, else f16. */
#include "model/convert/quant_mix.h"

#include "reprise/convert.h"

#include "base/dtypes.h"
#include "model/convert/quant_mix_low.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define X(NAME, ...) LOW_##NAME,
enum { LOW_NONE, RP_LOW_MIXES(X) };
#undef X

/* clang-format off */
static const QuantMix mixes[] = {
    {"F32", RP_F32, RP_F32, RP_F32, RP_F32, 0, LOW_NONE},
    {"F16", RP_F16, RP_F16, RP_F16, RP_F16, 1, LOW_NONE},
    {"BF16", RP_BF16, RP_BF16, RP_BF16, RP_BF16, 32, LOW_NONE},
#define X(ID, name, sub, offset, has_min, top, from, end, file_type, output, ...)                            \
    {#ID, RP_##ID, RP_##ID, RP_##output, RP_##ID, file_type, LOW_NONE},
    RP_DIRECT_QUANTS(X) RP_SEARCHED_QUANTS(X)
#undef X
    {"Q4_K_M", RP_Q4_K, RP_Q6_K, RP_Q6_K, RP_Q4_K, 15, LOW_NONE},
    {"Q5_K_M", RP_Q5_K, RP_Q6_K, RP_Q6_K, RP_Q5_K, 17, LOW_NONE},
#define X(NAME, base, output, file_type) \
    {#NAME, RP_##base, RP_##base, RP_##output, RP_##base, file_type, LOW_##NAME},
    RP_LOW_MIXES(X)
#undef X
};
/* clang-format on */

enum { N_MIXES = sizeof mixes / sizeof mixes[0] };

/* MXFP4 beside experts. */
static const QuantMix mxfp4_experts = {"MXFP4", RP_MXFP4, RP_MXFP4, RP_Q8_0, RP_Q8_0, 38, LOW_NONE};

const QuantMix *rp_quant_mix_experts(const QuantMix *mix) { return mix->base == RP_MXFP4 ? &mxfp4_experts : mix; }

const char *rp_convert_type_name(int i) { return i >= 0 && i < N_MIXES ? mixes[i].name : NULL; }

uint32_t rp_quant_mix_file_type(const QuantMix *mix) { return mix->file_type; }

RpStatus rp_quant_mix_find(const char *name, const QuantMix **out) {
    char   known[1024] = "";
    size_t n           = 0;
    for (int i = 0; i < N_MIXES; i++) {
        if (strcasecmp(name, mixes[i].name) == 0) {
            *out = &mixes[i];
            return RP_OK;
        }
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", mixes[i].name);
    }
    return rp_fail(RP_E_ARG, "'%.32s' is not a weight type (there are %s)", name, known);
}

QuantMix rp_quant_mix_custom(RpDtype type) {
    return (QuantMix){rp_dtype_name(type), type, type, type, type, RP_MIX_NO_FILE_TYPE, LOW_NONE};
}

static bool has(RpGgufString name, const char *text) { return memmem(name.ptr, name.len, text, strlen(text)) != NULL; }

int32_t rp_mix_layer(RpGgufString name) {
    int32_t layer = 0;
    for (size_t i = 4; i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9' && layer < 1 << 24; i++)
        layer = 10 * layer + (name.ptr[i] - '0');
    return name.len > 4 && memcmp(name.ptr, "blk.", 4) == 0 ? layer : 0;
}

/* llama.cpp's use_more_bits: the first and the last eighth of the layers, and every third of those between.
 * Example, 32 layers: 0..3, then 6, 9, 12, ... 27, then 28..31. */
static bool better_layer(RpGgufString name, int32_t n_layer) {
    const int32_t layer = rp_mix_layer(name);
    return layer < n_layer / 8 || layer >= 7 * n_layer / 8 || (layer - n_layer / 8) % 3 == 2;
}

/* The type by the rules above, before row lengths are considered. */
static RpDtype wanted(const QuantMix *mix, const QuantMixModel *m, RpGgufString name) {
    if (has(name, "output.weight") && !has(name, "blk.")) return mix->output;
    if (has(name, "token_embd.weight")) return m->tied ? mix->output : mix->others;
    if ((has(name, "attn_v") || has(name, "ffn_down")) && better_layer(name, m->n_layer) && mix->better != mix->base)
        return mix->better;
    return has(name, "_exps.") ? mix->base : mix->others;
}

bool rp_mix_is_float(RpGgufString name, const int64_t ne[RP_MAX_DIMS]) {
    const bool vector = (ne[0] == 1 || ne[1] == 1) && ne[2] == 1 && ne[3] == 1;
    return vector || has(name, "ffn_gate_inp") || has(name, ".bias") || has(name, "_norm") || has(name, "conv1d") ||
           has(name, "shortconv.conv.") || has(name, "position_embd.weight") || has(name, "token_types.weight");
}

RpDtype rp_quant_mix_type(const QuantMix *mix, const QuantMixModel *m, RpGgufString name, const int64_t ne[RP_MAX_DIMS],
                          int32_t before) {
    if (rp_mix_is_float(name, ne)) return RP_F32;
    if (mix->low != LOW_NONE) return rp_low_mix_type(mix->low - 1, m, name, ne[0], rp_mix_layer(name), before);
    const RpDtype type = wanted(mix, m, name);
    if (ne[0] % rp_dtype_info(type)->block_elems == 0) return type;
    return ne[0] % rp_dtype_info(RP_Q8_0)->block_elems == 0 ? RP_Q8_0 : RP_F16;
}

bool rp_mix_needs_importance(RpDtype type, RpGgufString name) {
    const RpMixPart part = rp_mix_part(name);
    if (part == RP_MIX_OUTPUT || part == RP_MIX_EMBEDDING) return false;
    return type == RP_IQ1_S || type == RP_IQ1_M || type == RP_IQ2_XXS || type == RP_IQ2_XS || type == RP_IQ2_S ||
           type == RP_IQ3_XXS;
}
