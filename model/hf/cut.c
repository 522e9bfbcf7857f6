/* Weights that are made of a part of a tensor: the rule of each form (hf.h), and the copies. */
#include "model/hf/hf.h"

#include <string.h>

static HfCut cut2(int64_t n0, int64_t n1, int64_t step1, int64_t from) {
    return (HfCut){
        .ne = {n0, n1,    1, 1},
          .step = {1,  step1, 0, 0},
          .from = from, .shape = {n0, n1,    1, 1}
    };
}

static HfCut cut3(const int64_t ne[3], const int64_t step[3], int64_t from) {
    return (HfCut){
        .ne    = {ne[0],   ne[1],   ne[2],   1},
        .step  = {step[0], step[1], step[2], 0},
        .from  = from,
        .shape = {ne[0],   ne[1],   ne[2],   1}
    };
}

/* Halves of the experts' matrices of gate and up: of rows, or of columns, in turns or side by side. */
static bool cut_experts(const HfSizes *s, HfForm form, const int64_t ne[RP_MAX_DIMS], HfCut *out) {
    const int64_t n0 = ne[0], n1 = ne[1], n2 = ne[2];
    const bool    second =
        form == FORM_UP_ROWS || form == FORM_UP_COLUMNS || form == FORM_RIGHT_COLUMNS || form == FORM_ODD;
    if (ne[3] != 1) return false;
    const bool side_by_side = form == FORM_LEFT_COLUMNS || form == FORM_RIGHT_COLUMNS;
    if ((side_by_side || form == FORM_TO_EMBD) && n0 == n1) return false; /* transposed or not: both would fit */
    if (form == FORM_GATE_ROWS || form == FORM_UP_ROWS || (side_by_side && n0 == s->n_embd)) {
        *out = cut3((int64_t[]){n0, n1 / 2, n2}, (int64_t[]){1, n0, n0 * n1}, second ? n0 * (n1 / 2) : 0);
        return n1 % 2 == 0;
    }
    if (form == FORM_TO_EMBD && n1 == s->n_embd) {
        *out = cut3((int64_t[]){n0, n1, n2}, (int64_t[]){1, n0, n0 * n1}, 0);
        return true;
    }
    if (form == FORM_TRANSPOSED || form == FORM_TO_EMBD) {
        *out = cut3((int64_t[]){n1, n0, n2}, (int64_t[]){n0, 1, n0 * n1}, 0);
        return true;
    }
    if (form == FORM_EVEN || form == FORM_ODD) {
        *out         = cut2(n0 / 2, n1, n0, second);
        out->step[0] = 2;
        return n0 % 2 == 0 && n2 == 1;
    }
    *out = cut3((int64_t[]){n1, n0 / 2, n2}, (int64_t[]){n0, side_by_side ? 1 : 2, n0 * n1},
                second ? (side_by_side ? n0 / 2 : 1) : 0);
    return n0 % 2 == 0;
}

/* In blocks. */
static bool cut_mxfp4(HfForm form, const int64_t ne[RP_MAX_DIMS], HfCut *out) {
    const int64_t n = ne[1], rows = ne[2], every = form == FORM_MXFP4 ? 1 : 2;
    *out =
        cut3((int64_t[]){n, rows / every, ne[3]}, (int64_t[]){1, every * n, rows * n}, form == FORM_MXFP4_ODD ? n : 0);
    out->shape[0] = 32 * n;
    return ne[0] == 16 && rows % every == 0;
}

static bool cut_latent(const HfSizes *s, HfForm form, const int64_t ne[RP_MAX_DIMS], HfCut *out) {
    const int64_t n = ne[0], head = s->nope + s->value;
    if (form == FORM_LATENT_KEYS)
        *out = cut3((int64_t[]){s->nope, n, s->n_head}, (int64_t[]){n, 1, head * n}, 0);
    else
        *out = cut3((int64_t[]){n, s->value, s->n_head}, (int64_t[]){1, n, head * n}, s->nope * n);
    return ne[1] == s->n_head * head && ne[2] == 1 && ne[3] == 1;
}

/* Rows of each key head: key_dim of the query, as many of the key, v_dim of each of its value heads, and as many of
 * their gates. */
static bool cut_delta(const HfSizes *s, HfForm form, const int64_t ne[RP_MAX_DIMS], HfCut *out) {
    const int64_t n = ne[0], k = s->key_dim, v = s->n_value / s->n_key * s->v_dim, head = 2 * k + 2 * v;
    const int64_t from[] = {0, k, 2 * k, 2 * k + v};
    const bool    key    = form == FORM_DELTA_Q || form == FORM_DELTA_K;
    *out = cut3((int64_t[]){n, key ? k : v, s->n_key}, (int64_t[]){1, n, head * n}, from[form - FORM_DELTA_Q] * n);
    out->shape[1] *= out->shape[2];
    out->shape[2] = 1;
    return ne[1] == s->n_key * head && ne[2] == 1 && ne[3] == 1;
}

/* Heads of values in the order of GGUF: head r * n_key + k is head k * (n_value / n_key) + r of the file. Each has
 * `rows` rows of n elements. */
static HfCut tiled(const HfSizes *s, int64_t n, int64_t rows, int64_t from) {
    const int64_t ratio = s->n_value / s->n_key;
    return (HfCut){
        .ne    = {n, rows,              s->n_key,         ratio   },
        .step  = {1, n,                 ratio * rows * n, rows * n},
        .from  = from,
        .shape = {n, rows * s->n_value, 1,                1       }
    };
}

static bool cut_values(const HfSizes *s, HfForm form, const int64_t ne[RP_MAX_DIMS], HfCut *out) {
    const int64_t n = ne[0], rows = ne[1] * ne[2] * ne[3], keys = 2 * s->n_key * s->key_dim;
    const bool    all = rows == keys + s->n_value * s->v_dim;
    if (form == FORM_CONV || form == FORM_KEY_ROWS) {
        *out = cut2(n, form == FORM_CONV ? rows : keys, n, 0);
        return all;
    }
    if (form == FORM_VALUE_ROWS) {
        *out = tiled(s, n, s->v_dim, keys * n);
        return all;
    }
    if (form == FORM_TILED_ROWS) {
        *out = tiled(s, n, rows / s->n_value, 0);
        return rows % s->n_value == 0;
    }
    if (form == FORM_TILED_COLUMNS) {
        const HfCut c = tiled(s, s->v_dim, 1, 0);
        *out          = (HfCut){
                     .ne = {c.ne[0], c.ne[2],   c.ne[3],   rows},
                       .step = {1,       c.step[2], c.step[3], n   },
                       .shape = {n,       rows,      1,         1   }
        };
        return n == s->n_value * s->v_dim;
    }
    *out          = tiled(s, 1, 1, 0);
    out->shape[0] = out->shape[1];
    out->shape[1] = 1;
    return n == s->n_value && rows == 1;
}

/* All elements in their order, as a tensor of this or of another shape. */
static bool cut_whole(const HfSizes *s, HfForm form, const int64_t ne[RP_MAX_DIMS], HfCut *out) {
    const bool vector = ne[1] == 1 && ne[2] == 1 && ne[3] == 1;
    *out              = cut2(ne[0] * ne[1] * ne[2] * ne[3], 1, 0, 0);
    memcpy(out->shape, ne, sizeof out->shape);
    if (form == FORM_WHOLE || form == FORM_DECAY) return true;
    if (form == FORM_TAPS) {
        out->shape[1] = ne[2];
        out->shape[2] = 1;
        return ne[1] == 1 && ne[3] == 1;
    }
    const int64_t rows = form == FORM_GROUPS ? s->n_group : ne[0];
    if (!vector || rows < 1 || ne[0] % rows != 0) return false;
    out->shape[0] = ne[0] / rows;
    out->shape[1] = rows;
    return true;
}

bool rp_hf_cut(const HfSizes *s, HfForm form, const SafeTensor *t, HfCut *out) {
    const int64_t *ne = t->ne;
    if (form == FORM_POSITIONS) {
        *out = cut2(ne[0], ne[1] - s->n_padding, ne[0], s->n_padding * ne[0]);
        return ne[1] > s->n_padding && ne[2] == 1 && ne[3] == 1;
    }
    if (form == FORM_WHOLE || form >= FORM_DECAY) return cut_whole(s, form, ne, out);
    if (form <= FORM_ODD) return cut_experts(s, form, ne, out);
    if (form <= FORM_MXFP4_ODD) return cut_mxfp4(form, ne, out);
    if (form <= FORM_LATENT_VALUES) return cut_latent(s, form, ne, out);
    if (form <= FORM_DELTA_Z) return cut_delta(s, form, ne, out);
    return cut_values(s, form, ne, out);
}

void rp_hf_copy_cut(const HfCut *c, const void *in, size_t size, void *out) {
    char *to = out;
    for (int64_t i3 = 0; i3 < c->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < c->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < c->ne[1]; i1++) {
                const char *from =
                    (const char *)in + (size_t)(c->from + i1 * c->step[1] + i2 * c->step[2] + i3 * c->step[3]) * size;
                const size_t n    = c->step[0] == 1 ? 1 : (size_t)c->ne[0],
                             each = c->step[0] == 1 ? (size_t)c->ne[0] * size : size;
                for (size_t i0 = 0; i0 < n; i0++, to += each) memcpy(to, from + i0 * (size_t)c->step[0] * size, each);
            }
}

/* GGUF: a byte of the scale, then byte i has element i in its low half and element 16 + i in the high one. */
static void mxfp4_block(const unsigned char in[16], unsigned char scale, unsigned char out[17]) {
    out[0] = scale;
    for (int i = 0; i < 16; i++) {
        const int low = in[i / 2] >> 4 * (i % 2) & 15, high = in[8 + i / 2] >> 4 * (i % 2) & 15;
        out[1 + i] = (unsigned char)(low | high << 4);
    }
}

void rp_hf_copy_mxfp4(const HfCut *c, const unsigned char *blocks, const unsigned char *scales, unsigned char *out) {
    for (int64_t i2 = 0; i2 < c->ne[2]; i2++)
        for (int64_t i1 = 0; i1 < c->ne[1]; i1++)
            for (int64_t i0 = 0; i0 < c->ne[0]; i0++, out += 17) {
                const size_t at = (size_t)(c->from + i0 + i1 * c->step[1] + i2 * c->step[2]);
                mxfp4_block(blocks + 16 * at, scales[at], out);
            }
}
