/* The mixes of the IQ types below 4 bits: which tensor gets which type, as in llama.cpp (src/llama-quant.cpp).
 *
 *     output.weight, tied token_embd    IQ1 and IQ2, IQ3_XXS: Q5_K, else Q6_K
 *     token_embd.weight                 IQ1, IQ2_XXS, IQ2_XS: Q2_K, else IQ3_S
 *     attn_v, attn_qkv, attn_kv_b       Q4_K if 4 query heads or more share a key, else near the base
 *     attn_q, attn_k, attn_output       by the table below
 *     ffn_down                          better in the first eighth of the layers. Layers are counted by these tensors;
 *                                       by the name in the IQ3 mixes of models with experts
 *     ffn_gate, ffn_up                  IQ3_XS: IQ3_XXS between the first and the last eighth of the layers
 *     all else                          base
 *
 * With 8 experts attention has more bits. Rows that are not whole blocks of 256 get a type in blocks of 32. */
#include "model/convert/quant_mix_low.h"

#include <string.h>

#define X(NAME, ...) NAME,
typedef enum LowMix { RP_LOW_MIXES(X) } LowMix;
#undef X

/* value: if fewer than 4 query heads share a key. down: in the layers that have better ones. */
typedef struct LowRow {
    RpDtype base, output, embd, value, key, attn_output, down;
} LowRow;

static const LowRow rows[] = {
    [IQ1_S]   = {RP_IQ1_S,   RP_Q5_K, RP_Q2_K,  RP_Q2_K,    RP_IQ1_S,   RP_IQ2_XXS, RP_Q2_K   },
    [IQ1_M]   = {RP_IQ1_M,   RP_Q5_K, RP_Q2_K,  RP_Q2_K,    RP_IQ1_M,   RP_IQ2_XXS, RP_Q2_K   },
    [IQ2_XXS] = {RP_IQ2_XXS, RP_Q5_K, RP_Q2_K,  RP_Q2_K,    RP_IQ2_XXS, RP_IQ2_XXS, RP_Q2_K   },
    [IQ2_XS]  = {RP_IQ2_XS,  RP_Q5_K, RP_Q2_K,  RP_Q2_K,    RP_IQ2_XS,  RP_IQ2_XS,  RP_Q2_K   },
    [IQ2_S]   = {RP_IQ2_XS,  RP_Q5_K, RP_IQ3_S, RP_IQ3_S,   RP_IQ2_XS,  RP_IQ3_S,   RP_IQ3_S  },
    [IQ2_M]   = {RP_IQ2_S,   RP_Q5_K, RP_IQ3_S, RP_IQ3_S,   RP_IQ2_S,   RP_IQ3_S,   RP_IQ3_S  },
    [IQ3_XXS] = {RP_IQ3_XXS, RP_Q5_K, RP_IQ3_S, RP_IQ3_XXS, RP_IQ2_S,   RP_IQ3_S,   RP_IQ3_XXS},
    [IQ3_XS]  = {RP_IQ3_S,   RP_Q6_K, RP_IQ3_S, RP_IQ3_S,   RP_IQ3_XXS, RP_IQ3_S,   RP_IQ3_S  },
    [IQ3_S]   = {RP_IQ3_S,   RP_Q6_K, RP_IQ3_S, RP_IQ3_S,   RP_IQ3_S,   RP_IQ3_S,   RP_IQ3_S  },
    [IQ3_M]   = {RP_IQ3_S,   RP_Q6_K, RP_IQ3_S, RP_Q4_K,    RP_IQ3_S,   RP_Q4_K,    RP_Q4_K   },
};

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

/* The values of attention: few and sensitive. */
static RpDtype value_type(LowMix mix, const QuantMixModel *m) {
    const LowRow *row     = &rows[mix];
    const bool    grouped = m->n_head_kv > 0 && m->n_head / m->n_head_kv >= 4;
    if (mix <= IQ2_M) return grouped || m->n_expert >= 4 ? RP_Q4_K : row->value;
    if (m->n_expert == 8) return RP_Q8_0;
    const RpDtype type = grouped ? RP_Q4_K : row->value;
    return m->is_70b && type == RP_Q4_K ? RP_Q5_K : type;
}

static bool in_ends(int32_t at, int32_t n_layer) { return at < n_layer / 8 || at >= 7 * n_layer / 8; }

static RpDtype down_type(LowMix mix, const QuantMixModel *m, int32_t at) {
    const bool first = at < m->n_layer / 8;
    const bool more  = mix == IQ3_M && m->n_expert == 8 && (in_ends(at, m->n_layer) || (at - m->n_layer / 8) % 3 == 2);
    return first || more ? rows[mix].down : rows[mix].base;
}

/* Types in blocks of 32 for rows that have no whole blocks of 256. */
RpDtype rp_low_mix_for_rows(RpDtype type, int64_t n) {
    if (n % rp_dtype_info(type)->block_elems == 0) return type;
    if (n % 32 != 0) return RP_F16;
    switch (type) {
    case RP_Q2_K:
        return RP_Q4_0;
    case RP_Q4_K:
        return RP_Q5_0;
    case RP_Q5_K:
        return RP_Q5_1;
    case RP_Q6_K:
        return RP_Q8_0;
    default:
        return RP_IQ4_NL;
    }
}

RpDtype rp_low_mix_type(int number, const QuantMixModel *m, RpGgufString name, int64_t n, int32_t layer,
                        int32_t before) {
    const LowMix    mix   = (LowMix)number;
    const LowRow   *row   = &rows[mix];
    const RpMixPart part  = rp_mix_part(name);
    const bool      eight = m->n_expert == 8;
    const int32_t   at    = mix > IQ2_M && m->n_expert > 1 ? layer : before;
    RpDtype         type  = row->base;
    if (part == RP_MIX_OUTPUT || (part == RP_MIX_EMBEDDING && m->tied))
        return rp_low_mix_for_rows(n % 256 == 0 ? row->output : RP_Q8_0, n);
    switch (part) {
    case RP_MIX_EMBEDDING:
        type = row->embd;
        break;
    case RP_MIX_VALUE:
        type = value_type(mix, m);
        break;
    case RP_MIX_KEY:
        type = eight ? (mix <= IQ2_M ? RP_Q4_K : RP_Q8_0) : row->key;
        break;
    case RP_MIX_QUERY:
        type = mix >= IQ3_XXS ? row->key : row->base;
        break;
    case RP_MIX_ATTN_OUTPUT:
        type = eight ? RP_Q5_K : row->attn_output;
        break;
    case RP_MIX_DOWN:
        type = down_type(mix, m, at);
        break;
    case RP_MIX_GATE:
    case RP_MIX_UP:
        type = mix == IQ3_XS && !in_ends(at, m->n_layer) ? RP_IQ3_XXS : row->base;
        break;
    default:
        break;
    }
    return rp_low_mix_for_rows(type, n);
}
