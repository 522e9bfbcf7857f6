/* The attention kernels in plain C (attention.h), the online softmax of a tile, and the choice of the kernels for this
 * CPU. */
#include "fallback/attention/attention.h"

#include "fallback/simd/float.h"

/* Converts 16 elements of a row of the KV cache, from element i on. */
typedef void Convert(const char *row, int64_t i, float *y);

RP_BODY void convert_f16(const char *row, int64_t i, float *y) {
    const uint16_t *x = (const uint16_t *)(const void *)row + i;
    for (int l = 0; l < ATTENTION_LANES; l++) y[l] = rp_f16_to_f32(x[l]);
}

RP_BODY void convert_q8_0(const char *row, int64_t i, float *y) {
    const BlockQ8_0 *b = (const BlockQ8_0 *)(const void *)row + i / 32;
    for (int l = 0; l < ATTENTION_LANES; l++) y[l] = (float)b->qs[i % 32 + l] * rp_f16_to_f32(b->d);
}

RP_BODY void convert_f32(const char *row, int64_t i, float *y) {
    memcpy(y, (const float *)(const void *)row + i, ATTENTION_LANES * sizeof *y);
}

/* The same, with zeros after the end of the row (not in q8_0, whose rows are whole blocks). */
RP_BODY void load_row(const char *row, int64_t i, int64_t dim, Convert *convert, float *y) {
    if (convert == convert_q8_0 || i + ATTENTION_LANES <= dim) {
        convert(row, i, y);
        return;
    }
    if (convert == convert_f32) {
        memset(y, 0, ATTENTION_LANES * sizeof *y);
        memcpy(y, (const float *)(const void *)row + i, (size_t)(dim - i) * sizeof *y);
        return;
    }
    uint16_t rest[ATTENTION_LANES] = {0};
    memcpy(rest, (const uint16_t *)(const void *)row + i, (size_t)(dim - i) * sizeof rest[0]);
    convert((const char *)rest, 0, y);
}

/* The upper half of the lanes is added to the lower half until one is left. Overwrites s. */
RP_BODY float reduce16(float *s) {
    for (int l = 0; l < 8; l++) s[l] += s[l + 8];
    for (int l = 0; l < 4; l++) s[l] += s[l + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

RP_BODY void scores_body(const AttentionTile *t, Convert *convert) {
    for (int h = 0; h < t->n_heads; h++)
        for (int j = 0; j < t->n; j++) {
            float dot[ATTENTION_LANES] = {0.0f};
            for (int64_t i = 0; i < t->dim; i += ATTENTION_LANES) {
                float k[ATTENTION_LANES];
                load_row(t->k + (size_t)j * t->k_row, i, t->dim, convert, k);
                for (int l = 0; l < ATTENTION_LANES; l++) dot[l] = fmaf(t->heads[h].q[i + l], k[l], dot[l]);
            }
            t->heads[h].p[j] = t->scale * reduce16(dot);
        }
}

RP_BODY void values_body(const AttentionTile *t, Convert *convert) {
    for (int h = 0; h < t->n_heads; h++)
        for (int64_t i = 0; i < t->dim; i += ATTENTION_LANES) {
            float *acc = t->heads[h].acc + i;
            for (int l = 0; l < ATTENTION_LANES; l++) acc[l] *= t->heads[h].rescale;
            for (int j = 0; j < t->n; j++) {
                float v[ATTENTION_LANES];
                load_row(t->v + (size_t)j * t->v_row, i, t->dim, convert, v);
                for (int l = 0; l < ATTENTION_LANES; l++) acc[l] = fmaf(v[l], t->heads[h].p[j], acc[l]);
            }
        }
}

static void scores_f16_plain(const AttentionTile *t) { scores_body(t, convert_f16); }
static void values_f16_plain(const AttentionTile *t) { values_body(t, convert_f16); }
static void scores_q8_0_plain(const AttentionTile *t) { scores_body(t, convert_q8_0); }
static void values_q8_0_plain(const AttentionTile *t) { values_body(t, convert_q8_0); }
static void scores_f32_plain(const AttentionTile *t) { scores_body(t, convert_f32); }
static void values_f32_plain(const AttentionTile *t) { values_body(t, convert_f32); }

/* Maps the bits of a float to an integer in the same order, and back: compilers vectorise the maximum of integers,
 * but not that of floats, whose NaNs must be kept. */
RP_BODY int32_t in_order(uint32_t bits) { return (int32_t)(bits ^ ((bits & 0x80000000u) != 0 ? 0x7fffffffu : 0u)); }

/* The largest of a tile's scores and `max`; NaN if one of them is NaN. */
RP_BODY float largest(const float *p, float max) {
    int32_t  most = in_order(rp_f32_to_bits(max));
    uint32_t nan  = (uint32_t)(max != max);
    for (int j = 0; j < ATTENTION_TILE; j++) {
        const uint32_t bits = rp_f32_to_bits(p[j]);
        const int32_t  at   = in_order(bits);
        most                = at > most ? at : most;
        nan |= (uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    }
    return nan != 0 ? NAN : rp_bits_to_f32((uint32_t)in_order((uint32_t)most));
}

/* The update of max, rescale and sum in attention.c; p turns from scores into weights. Scores of missing positions are
 * -infinity, weight 0. `base` is the new maximum, or 0 while all scores are -infinity: their difference would be
 * NaN. */
RP_BODY void weights_body(AttentionHead *head, int n) {
    float s[ATTENTION_LANES] = {0.0f};
    for (int j = n; j < ATTENTION_TILE; j++) head->p[j] = -INFINITY;
    const float max = largest(head->p, head->max), base = max == -INFINITY ? 0.0f : max;
    for (int j = 0; j < ATTENTION_TILE; j++) head->p[j] = rp_expf(head->p[j] - base);
    for (int j = 0; j < ATTENTION_TILE; j += ATTENTION_LANES)
        for (int l = 0; l < ATTENTION_LANES; l++) s[l] += head->p[j + l];
    head->rescale = rp_expf(head->max - base);
    head->sum     = fmaf(head->sum, head->rescale, reduce16(s));
    head->max     = max;
}
RP_VARIANTS(weights, (AttentionHead * head, int n), (head, n))

static void weights_common(const AttentionTile *t) {
    for (int h = 0; h < t->n_heads; h++) weights(&t->heads[h], t->heads[h].n);
}

RP_BODY void merge_body(float *acc, float *max, float *sum, const float *chunk, float chunk_max, float chunk_sum,
                        int64_t dim) {
    const float high    = chunk_max > *max || chunk_max != chunk_max ? chunk_max : *max;
    const float base    = high == -INFINITY ? 0.0f : high;
    const float rescale = rp_expf(*max - base), chunk_rescale = rp_expf(chunk_max - base);
    for (int64_t i = 0; i < dim; i++) acc[i] = fmaf(chunk[i], chunk_rescale, acc[i] * rescale);
    *sum = fmaf(chunk_sum, chunk_rescale, *sum * rescale);
    *max = high;
}
RP_VARIANTS(merge,
            (float *acc, float *max, float *sum, const float *chunk, float chunk_max, float chunk_sum, int64_t dim),
            (acc, max, sum, chunk, chunk_max, chunk_sum, dim))

void rp_attention_merge(float *acc, float *max, float *sum, const float *chunk, float chunk_max, float chunk_sum,
                        int64_t dim) {
    merge(acc, max, sum, chunk, chunk_max, chunk_sum, dim);
}

AttentionKernels rp_attention_kernels(RpDtype type) {
    AttentionKernels k = {.scores = scores_f16_plain, .values = values_f16_plain};
    if (type == RP_Q8_0) k = (AttentionKernels){.scores = scores_q8_0_plain, .values = values_q8_0_plain};
    if (type == RP_F32) k = (AttentionKernels){.scores = scores_f32_plain, .values = values_f32_plain};
#if defined(RP_X86)
    const RpCpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) k = rp_attention_avx512(type);
    if (isa == RP_ISA_AVX2) k = rp_attention_avx2(type);
#elif defined(__aarch64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) k = rp_attention_neon(type);
#endif
    if (k.weights == NULL) k.weights = weights_common;
    return k;
}
