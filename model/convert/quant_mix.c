/* Quantisation mixes: which tensor gets which type, and the number of the mix in general.file_type. All as in llama.cpp
 * (src/llama-quant.cpp, llama_tensor_get_type_impl); MXFP4 is its MXFP4_MOE, but the type of all matrices in models
 * without experts. First match wins:
 *
 *     vectors, norms, biases, router, taps   f32
 *     per_layer_model_proj                   a float type
 *     output.weight, tied token_embd         `output`
 *     token_embd.weight                      `embedding`
 *     attn_v, attn_qkv, attn_kv_b            `grouped` if 4 query heads or more share a key, else `value`
 *     attn_k, attn_q, attn_output            `key`, `query`, `attn_output`
 *     ffn_down                               `down`
 *     ffn_gate, ffn_up                       `middle` between the first and the last eighth of the layers
 *     all else                               `base`
 *
 * With 8 experts attention has finer types. Layers are counted by the matrices of a part (not all layers have
 * attention), in models with experts by the names of the tensors. */
#include "model/convert/quant_mix.h"

#include "reprise/convert.h"

#include "base/dtypes.h"
#include "base/limits.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The layers where a part has a finer type. use_more_bits of llama.cpp: the first and the last eighth, and every third
 * between. Example, 32 layers: 0..3, then 6, 9, 12, ... 27, then 28..31. */
typedef enum Where {
    NOWHERE,
    EVERYWHERE,
    FIRST_2,
    FIRST_4,
    FIRST_16TH,
    FIRST_8TH,
    FIRST_8TH_WITH_IMPORTANCE,
    FIRST_8TH_WITHOUT_IMPORTANCE,
    MORE_BITS,
    MORE_BITS_WITH_8_EXPERTS, /* and else the first eighth */
} Where;

typedef struct Finer {
    RpDtype type;
    Where   where;
    RpDtype elsewhere;
} Finer;

/* In members after `output` RP_F32, which is 0, stands for the base type. */
struct QuantMix {
    const char *name;
    uint32_t    file_type;
    RpDtype     base, output, embedding;
    Finer       value;
    RpDtype     grouped, query, key, attn_output, attn_output_8; /* attn_output_8: with 8 experts */
    Finer       down;
    RpDtype     middle;
    bool        low;              /* below 3 bits: other rules for experts */
    bool        needs_importance; /* matrices of the base type are useless without */
};

/* A type in these layers, the base type in the others. */
#define IN(WHERE, TYPE)                                                                                                \
    { TYPE, WHERE, RP_F32 }

/* Rules that several rows share. NO_RULES: all matrices have the base type, except for the output matrix. */
#define NO_RULES .low = false
#define Q3_K_M                                                                                                         \
    .value = {RP_Q5_K, FIRST_2, RP_Q4_K}, .attn_output = RP_Q4_K, .attn_output_8 = RP_Q5_K,                            \
    .down = {RP_Q5_K, FIRST_16TH, RP_Q4_K}
#define Q4_K_M .value = IN(MORE_BITS, RP_Q6_K), .attn_output_8 = RP_Q5_K, .down = IN(MORE_BITS, RP_Q6_K)
#define Q5_K_M .value = IN(MORE_BITS, RP_Q6_K), .down = IN(MORE_BITS, RP_Q6_K)
#define IQ4    .grouped = RP_Q5_K, .attn_output_8 = RP_Q5_K, .down = IN(FIRST_8TH_WITHOUT_IMPORTANCE, RP_Q5_K)
#define IQ3    .grouped = RP_Q4_K, .attn_output_8 = RP_Q5_K
#define LOW(TYPE)                                                                                                      \
    .low = true, .embedding = TYPE, .value = IN(EVERYWHERE, TYPE), .grouped = RP_Q4_K, .attn_output_8 = RP_Q5_K,       \
    .down = IN(FIRST_8TH, TYPE)

/* clang-format off */
static const QuantMix mixes[] = {
    {"F32",     0,  RP_F32,     RP_F32, NO_RULES},
    {"F16",     1,  RP_F16,     RP_F16, NO_RULES},
    {"BF16",    32, RP_BF16,    RP_BF16, NO_RULES},
    {"Q4_0",    2,  RP_Q4_0,    RP_Q6_K, .down = IN(FIRST_8TH_WITH_IMPORTANCE, RP_Q4_1)},
    {"Q5_0",    8,  RP_Q5_0,    RP_Q6_K, .down = IN(FIRST_8TH_WITH_IMPORTANCE, RP_Q5_1)},
    {"Q2_K",    10, RP_Q2_K,    RP_Q6_K, .value = IN(EVERYWHERE, RP_Q3_K), .grouped = RP_Q4_K, .attn_output = RP_Q3_K,
                                         .attn_output_8 = RP_Q5_K, .down = IN(EVERYWHERE, RP_Q3_K)},
    {"Q2_K_S",  21, RP_Q2_K,    RP_Q6_K, .grouped = RP_Q4_K, .down = IN(FIRST_8TH, RP_Q4_K),
                                         .needs_importance = true},
    {"Q3_K_S",  11, RP_Q3_K,    RP_Q6_K, .attn_output_8 = RP_Q5_K},
    {"Q3_K_M",  12, RP_Q3_K,    RP_Q6_K, Q3_K_M},
    {"Q3_K",    12, RP_Q3_K,    RP_Q6_K, Q3_K_M},
    {"Q3_K_L",  13, RP_Q3_K,    RP_Q6_K, .value = IN(EVERYWHERE, RP_Q5_K), .attn_output = RP_Q5_K,
                                         .down = IN(EVERYWHERE, RP_Q5_K)},
    {"Q4_K_S",  14, RP_Q4_K,    RP_Q6_K, .value = IN(FIRST_4, RP_Q5_K), .attn_output_8 = RP_Q5_K, .down = IN(FIRST_8TH, RP_Q5_K)},
    {"Q4_K_M",  15, RP_Q4_K,    RP_Q6_K, Q4_K_M},
    {"Q4_K",    15, RP_Q4_K,    RP_Q6_K, Q4_K_M},
    {"Q5_K_S",  16, RP_Q5_K,    RP_Q6_K, NO_RULES},
    {"Q5_K_M",  17, RP_Q5_K,    RP_Q6_K, Q5_K_M},
    {"Q5_K",    17, RP_Q5_K,    RP_Q6_K, Q5_K_M},
    {"Q2_0",    41, RP_Q2_0,    RP_Q6_K, .embedding = RP_Q4_K},
    {"TQ1_0",   36, RP_TQ1_0,   RP_Q6_K, .embedding = RP_Q4_K},
    {"TQ2_0",   37, RP_TQ2_0,   RP_Q6_K, .embedding = RP_Q4_K},
    {"IQ4_NL",  25, RP_IQ4_NL,  RP_Q6_K, IQ4},
    {"IQ4_XS",  30, RP_IQ4_XS,  RP_Q6_K, IQ4},
    {"IQ1_S",   24, RP_IQ1_S,   RP_Q5_K, LOW(RP_Q2_K), .attn_output = RP_IQ2_XXS},
    {"IQ1_M",   31, RP_IQ1_M,   RP_Q5_K, LOW(RP_Q2_K), .attn_output = RP_IQ2_XXS},
    {"IQ2_XXS", 19, RP_IQ2_XXS, RP_Q5_K, LOW(RP_Q2_K)},
    {"IQ2_XS",  20, RP_IQ2_XS,  RP_Q5_K, LOW(RP_Q2_K)},
    {"IQ2_S",   28, RP_IQ2_XS,  RP_Q5_K, LOW(RP_IQ3_S), .attn_output = RP_IQ3_S},
    {"IQ2_M",   29, RP_IQ2_S,   RP_Q5_K, LOW(RP_IQ3_S), .attn_output = RP_IQ3_S},
    {"IQ3_XXS", 23, RP_IQ3_XXS, RP_Q5_K, IQ3, .embedding = RP_IQ3_S, .query = RP_IQ2_S, .key = RP_IQ2_S, .attn_output = RP_IQ3_S},
    {"IQ3_XS",  22, RP_IQ3_S,   RP_Q6_K, IQ3, .query = RP_IQ3_XXS, .key = RP_IQ3_XXS, .middle = RP_IQ3_XXS},
    {"IQ3_S",   26, RP_IQ3_S,   RP_Q6_K, IQ3},
    {"IQ3_M",   27, RP_IQ3_S,   RP_Q6_K, IQ3, .value = IN(EVERYWHERE, RP_Q4_K), .attn_output = RP_Q4_K,
                                         .down = IN(MORE_BITS_WITH_8_EXPERTS, RP_Q4_K)},
};

/* The mixes of types without such a row. */
static const QuantMix of_types[] = {
#define X(ID, name, sub, offset, has_min, top, from, end, file_type, output, ...)                                      \
    {#ID, file_type, RP_##ID, RP_##output, NO_RULES},
    RP_DIRECT_QUANTS(X) RP_SEARCHED_QUANTS(X)
#undef X
};
/* clang-format on */

enum { N_MIXES = sizeof mixes / sizeof mixes[0], N_TYPES = sizeof of_types / sizeof of_types[0] };

static const QuantMix *find(const char *name) {
    for (int i = 0; i < N_MIXES; i++)
        if (strcasecmp(name, mixes[i].name) == 0) return &mixes[i];
    for (int i = 0; i < N_TYPES; i++)
        if (strcasecmp(name, of_types[i].name) == 0) return &of_types[i];
    return NULL;
}

const char *rp_convert_type_name(int i) {
    int at = N_MIXES;
    if (i < 0) return NULL;
    if (i < N_MIXES) return mixes[i].name;
    for (int t = 0; t < N_TYPES; t++)
        if (find(of_types[t].name) == &of_types[t] && at++ == i) return of_types[t].name;
    return NULL;
}

uint32_t rp_quant_mix_file_type(const QuantMix *mix) { return mix->file_type; }

RpDtype rp_quant_mix_base(const QuantMix *mix) { return mix->base; }

RpStatus rp_quant_mix_find(const char *name, const QuantMix **out) {
    char   known[1024] = "";
    size_t n           = 0;
    *out               = find(name);
    if (*out != NULL) return RP_OK;
    for (int i = 0; rp_convert_type_name(i) != NULL && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", rp_convert_type_name(i));
    return rp_fail(RP_E_ARG, "'%.32s' is not a weight type (there are %s)", name, known);
}

static bool has(RpGgufString name, const char *text) { return memmem(name.ptr, name.len, text, strlen(text)) != NULL; }

static bool is(RpGgufString name, const char *text) {
    return name.len == strlen(text) && memcmp(name.ptr, text, name.len) == 0;
}

RpMixPart rp_mix_part(RpGgufString name) {
    static const struct {
        const char *text;
        RpMixPart   part;
    } parts[] = {
        {"attn_qkv.weight",    RP_MIX_VALUE      },
        {"attn_kv_b.weight",   RP_MIX_VALUE      },
        {"attn_v.weight",      RP_MIX_VALUE      },
        {"attn_k.weight",      RP_MIX_KEY        },
        {"attn_q.weight",      RP_MIX_QUERY      },
        {"attn_output.weight", RP_MIX_ATTN_OUTPUT},
        {"ffn_up",             RP_MIX_UP         },
        {"ffn_gate",           RP_MIX_GATE       },
        {"ffn_down",           RP_MIX_DOWN       },
    };
    if (is(name, "output.weight")) return RP_MIX_OUTPUT;
    if (is(name, "token_embd.weight") || is(name, "per_layer_token_embd.weight")) return RP_MIX_EMBEDDING;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (has(name, parts[i].text)) return parts[i].part;
    return RP_MIX_OTHER;
}

int32_t rp_mix_layer(RpGgufString name) {
    int32_t layer = 0;
    for (size_t i = 4; i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9' && layer < 1 << 24; i++)
        layer = 10 * layer + (name.ptr[i] - '0');
    return name.len > 4 && memcmp(name.ptr, "blk.", 4) == 0 ? layer : 0;
}

static bool in_ends(int32_t at, int32_t n) { return at < n / 8 || at >= 7 * n / 8; }

static bool has_more_bits(int32_t at, int32_t n) { return in_ends(at, n) || (at - n / 8) % 3 == 2; }

/* Whether number `at` of n is one of those. */
static bool is_there(Where where, const QuantMixModel *m, int32_t at, int32_t n) {
    switch (where) {
    case NOWHERE:
        return false;
    case EVERYWHERE:
        return true;
    case FIRST_2:
        return at < 2;
    case FIRST_4:
        return at < 4;
    case FIRST_16TH:
        return at < n / 16;
    case FIRST_8TH:
        return at < n / 8;
    case FIRST_8TH_WITH_IMPORTANCE:
        return m->has_importance && at < n / 8;
    case FIRST_8TH_WITHOUT_IMPORTANCE:
        return !m->has_importance && at < n / 8;
    case MORE_BITS:
        return has_more_bits(at, n);
    case MORE_BITS_WITH_8_EXPERTS:
        return at < n / 8 || (m->n_expert == 8 && has_more_bits(at, n));
    }
    return false;
}

static RpDtype finer(const Finer *f, const QuantMixModel *m, int32_t at, int32_t n) {
    return is_there(f->where, m, at, n) ? f->type : f->elsewhere;
}

/* The values of attention: few and sensitive. */
static RpDtype value_type(const QuantMix *mix, const QuantMixModel *m, int32_t at) {
    const bool grouped = m->n_head_kv > 0 && m->n_head / m->n_head_kv >= 4;
    if (mix->low) return grouped || m->n_expert >= 4 ? mix->grouped : mix->value.type;
    if (m->n_expert == 8) return RP_Q8_0;
    RpDtype type = grouped && mix->grouped != RP_F32 ? mix->grouped : finer(&mix->value, m, at, m->n_value);
    if (type == RP_F32) type = mix->base;
    return m->is_70b && (type == RP_Q3_K || type == RP_Q4_K) ? RP_Q5_K : type;
}

/* The type of a matrix that is no embedding; RP_F32: the base type. */
static RpDtype layer_type(const QuantMix *mix, const QuantMixModel *m, RpGgufString name, int32_t before) {
    const bool    eight = m->n_expert == 8;
    const int32_t at    = m->n_expert > 1 && !mix->low ? rp_mix_layer(name) : before;
    switch (rp_mix_part(name)) {
    case RP_MIX_VALUE:
        return value_type(mix, m, before);
    case RP_MIX_KEY:
        return eight ? (mix->low ? RP_Q4_K : RP_Q8_0) : mix->key;
    case RP_MIX_QUERY:
        return mix->query;
    case RP_MIX_ATTN_OUTPUT:
        return eight ? mix->attn_output_8 : mix->attn_output;
    case RP_MIX_DOWN:
        return finer(&mix->down, m, at, m->n_layer);
    case RP_MIX_GATE:
    case RP_MIX_UP:
        return in_ends(at, m->n_layer) ? RP_F32 : mix->middle;
    default:
        return RP_F32;
    }
}

/* The type by the rules above, before row lengths are considered. */
static RpDtype wanted(const QuantMix *mix, const QuantMixModel *m, RpGgufString name, int64_t n, int32_t before) {
    const RpMixPart part = rp_mix_part(name);
    if (!rp_dtype_is_quant(mix->base)) return mix->base;
    if (part == RP_MIX_OUTPUT || (part == RP_MIX_EMBEDDING && m->tied))
        return n % rp_dtype_info(mix->base)->block_elems == 0 ? mix->output : RP_Q8_0;
    if (mix->base == RP_MXFP4 && m->n_expert > 0) return has(name, "_exps.") ? RP_MXFP4 : RP_Q8_0;
    const RpDtype type = part == RP_MIX_EMBEDDING ? mix->embedding : layer_type(mix, m, name, before);
    return type != RP_F32 ? type : mix->base;
}

bool rp_mix_is_float(RpGgufString name, const int64_t ne[RP_MAX_DIMS]) {
    const bool vector = (ne[0] == 1 || ne[1] == 1) && ne[2] == 1 && ne[3] == 1;
    return vector || has(name, "ffn_gate_inp") || has(name, ".bias") || has(name, "_norm") || has(name, "conv1d") ||
           has(name, "shortconv.conv.") || has(name, "position_embd.weight") || has(name, "token_types.weight");
}

bool rp_mix_is_kept(RpGgufString name) { return has(name, "per_layer_model_proj"); }

RpDtype rp_mix_for_rows(RpDtype type, int64_t n) {
    if (n % rp_dtype_info(type)->block_elems == 0) return type;
    if (n % 32 != 0) return RP_F16;
    if (type == RP_Q4_K) return RP_Q5_0;
    if (type == RP_Q5_K) return RP_Q5_1;
    if (type == RP_Q6_K) return RP_Q8_0;
    return strncmp(rp_dtype_name(type), "iq", 2) == 0 ? RP_IQ4_NL : RP_Q4_0;
}

RpDtype rp_pure_type(RpDtype type, RpGgufString name, const int64_t ne[RP_MAX_DIMS]) {
    if (rp_mix_is_float(name, ne)) return RP_F32;
    if (rp_mix_is_kept(name) && !rp_dtype_is_float(type)) return RP_BF16;
    return rp_mix_for_rows(type, ne[0]);
}

RpDtype rp_quant_mix_type(const QuantMix *mix, const QuantMixModel *m, RpGgufString name, const int64_t ne[RP_MAX_DIMS],
                          int32_t before) {
    if (m->pure || rp_mix_is_float(name, ne) || rp_mix_is_kept(name)) return rp_pure_type(mix->base, name, ne);
    return rp_mix_for_rows(wanted(mix, m, name, ne[0], before), ne[0]);
}

bool rp_mix_needs_importance(const QuantMix *mix, RpDtype type, RpGgufString name) {
    const RpMixPart part = rp_mix_part(name);
    if (part == RP_MIX_OUTPUT || part == RP_MIX_EMBEDDING) return false;
    if (mix != NULL && mix->needs_importance && type == mix->base) return true;
    return type == RP_IQ1_S || type == RP_IQ1_M || type == RP_IQ2_XXS || type == RP_IQ2_XS || type == RP_IQ2_S ||
           type == RP_IQ3_XXS;
}
