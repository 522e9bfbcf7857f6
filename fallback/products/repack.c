/* Writing and reading the repacked layout in plain C (repack.h). */
#include "fallback/products/repack.h"

#include "fallback/simd/float.h"

enum { ROWS = RP_PANEL_ROWS };

#define X(ID, name)                                                                                                    \
    static_assert(sizeof(Repacked##ID) % 32 == 0, #name ": vectors of 32 bytes are aligned");                          \
    static_assert(RP_REPACKED_MAX_N % RP_##ID##_ELEMS == 0, #name ": the longest row is whole blocks");
RP_REPACKED(X)
#undef X

size_t rp_repacked_bytes(RpDtype dtype) {
#define X(ID, name) [RP_##ID]                 = sizeof(Repacked##ID),
    static const size_t table[RP_DTYPE_COUNT] = {RP_REPACKED(X)};
#undef X
    return (unsigned)dtype < RP_DTYPE_COUNT ? table[dtype] : 0;
}

bool rp_is_repacked(const RpTensorView *w) {
    const size_t bytes = rp_repacked_bytes(w->dtype);
    return bytes > 0 && w->nb[0] == bytes;
}

bool rp_can_repack(const RpTensorView *w) {
    return rp_repacked_bytes(w->dtype) > 0 && w->nb[0] == (size_t)rp_dtype_info(w->dtype)->block_bytes &&
           w->ne[1] % ROWS == 0 && w->ne[0] > 0 && w->ne[0] <= RP_REPACKED_MAX_N && rp_view_rows(w) > 0;
}

RpTensorView rp_repacked_view(const RpTensorView *w, void *data) {
    RpTensorView v = {.data = data, .dtype = w->dtype, .nb = {rp_repacked_bytes(w->dtype)}};
    memcpy(v.ne, w->ne, sizeof v.ne);
    v.nb[1] = v.nb[0] / ROWS * (size_t)(w->ne[0] / rp_dtype_info(w->dtype)->block_elems);
    for (int i = 2; i < RP_MAX_DIMS; i++) v.nb[i] = v.nb[i - 1] * (size_t)v.ne[i - 1];
    return v;
}

size_t rp_repacked_copy_bytes(const RpTensorView *w) {
    const size_t align = 64, bytes = (size_t)rp_view_rows(w) * rp_repacked_view(w, NULL).nb[1];
    return (bytes + align - 1) / align * align;
}

/* ---- to the repacked layout: row r of a block. Quads of Q4 and Q8 have the bytes of the file ---- */

RP_BODY void put_quad(uint8_t *to, const void *quad) { memcpy(to, quad, RP_QUAD); }

RP_BODY void put_q4_0(const BlockQ4_0 *b, int r, RepackedQ4_0 *to) {
    to->d[r] = b->d;
    for (int k = 0; k < 4; k++) put_quad(to->q[k][r], b->qs + RP_QUAD * k);
}

RP_BODY void put_q4_1(const BlockQ4_1 *b, int r, RepackedQ4_1 *to) {
    to->d[r] = b->d;
    to->m[r] = b->m;
    for (int k = 0; k < 4; k++) put_quad(to->q[k][r], b->qs + RP_QUAD * k);
}

RP_BODY uint32_t quad_of(const uint8_t *p) {
    uint32_t q;
    memcpy(&q, p, sizeof q);
    return q;
}

/* Bit i of qh belongs to element i. */
RP_BODY void put_fifth_bits(const uint8_t *qh, uint8_t *to) {
    const uint32_t bits = quad_of(qh);
    for (int e = 0; e < RP_QUAD; e++) {
        uint32_t high = 0;
        for (int k = 0; k < 8; k++) high |= (bits >> (RP_QUAD * k + e) & 1) << k;
        to[e] = (uint8_t)high;
    }
}

RP_BODY void put_q5_0(const BlockQ5_0 *b, int r, RepackedQ5_0 *to) {
    to->d[r] = b->d;
    put_fifth_bits(b->qh, to->high[r]);
    for (int k = 0; k < 4; k++) put_quad(to->q[k][r], b->qs + RP_QUAD * k);
}

RP_BODY void put_q5_1(const BlockQ5_1 *b, int r, RepackedQ5_1 *to) {
    to->d[r] = b->d;
    to->m[r] = b->m;
    put_fifth_bits(b->qh, to->high[r]);
    for (int k = 0; k < 4; k++) put_quad(to->q[k][r], b->qs + RP_QUAD * k);
}

RP_BODY void put_q8_0(const BlockQ8_0 *b, int r, RepackedQ8_0 *to) {
    to->d[r] = b->d;
    for (int k = 0; k < 8; k++) memcpy(to->q[k][r], b->qs + RP_QUAD * k, RP_QUAD);
}

RP_BODY void put_six_bits(const uint8_t *s, int r, uint8_t (*scale)[ROWS], uint8_t (*min)[ROWS]) {
    for (int u = 0; u < 8; u++) rp_six_bits(s, u, &scale[u][r], &min[u][r]);
}

RP_BODY void put_q4_k(const BlockQ4_K *b, int r, RepackedQ4_K *to) {
    to->d[r]    = b->d;
    to->dmin[r] = b->dmin;
    put_six_bits(b->scales, r, to->scale, to->min);
    for (int p = 0; p < 4; p++)
        for (int k = 0; k < 8; k++) put_quad(to->q[p][k][r], b->qs + 32 * p + RP_QUAD * k);
}

/* Bits of all four bytes of a quad: `mask` of a, moved to the right, or with a negative shift to the left. */
RP_BODY uint32_t bits_of(uint32_t a, uint32_t mask, int shift) {
    const uint32_t bits = a & mask * 0x01010101u;
    return shift < 0 ? bits << -shift : bits >> shift;
}

/* Bit u of qh[k] belongs to element k of sub-block u. */
RP_BODY void put_q5_k(const BlockQ5_K *b, int r, RepackedQ5_K *to) {
    to->d[r]    = b->d;
    to->dmin[r] = b->dmin;
    put_six_bits(b->scales, r, to->scale, to->min);
    for (int p = 0; p < 4; p++)
        for (int k = 0; k < 8; k++) put_quad(to->low[p][k][r], b->qs + 32 * p + RP_QUAD * k);
    for (int k = 0; k < 8; k += 2)
        for (int h = 0; h < 2; h++) { /* bits 4h to 4h + 3 of two quads */
            const uint32_t even = quad_of(b->qh + RP_QUAD * k), odd = quad_of(b->qh + RP_QUAD * (k + 1));
            const uint32_t bits = bits_of(even, 15u << 4 * h, 4 * h) | bits_of(odd, 15u << 4 * h, 4 * h - 4);
            put_quad(to->high[h][k / 2][r], &bits);
        }
}

/* Sub-blocks 8h to 8h + 7 are half h of the block (BlockQ6_K). 16 bytes e of part g of ql, where g and e are 0 or 1,
 * have sub-block 2g + e in their low nibbles and 4 + 2g + e in their high ones. 16 bytes e of qh have two bits of each
 * of them, from bits 2g and 4 + 2g on. */
RP_BODY void put_half_q6_k(const BlockQ6_K *b, int h, int k, int r, RepackedQ6_K *to) {
    const uint8_t *ql = b->ql + 64 * h + RP_QUAD * k, *qh = b->qh + 32 * h + RP_QUAD * k;
    const uint32_t h0 = quad_of(qh), h1 = quad_of(qh + 16);
    for (int g = 0; g < 2; g++) {
        const uint32_t a = quad_of(ql + 32 * g), c = quad_of(ql + 32 * g + 16);
        const uint32_t low = bits_of(a, 15, 0) | bits_of(c, 15, -4), high = bits_of(a, 240, 4) | bits_of(c, 240, 0);
        put_quad(to->low[4 * h + g][k][r], &low);
        put_quad(to->low[4 * h + 2 + g][k][r], &high);
    }
    const uint32_t first  = bits_of(h0, 3, 0) | bits_of(h1, 3, -2) | bits_of(h0, 12, -2) | bits_of(h1, 12, -4);
    const uint32_t second = bits_of(h0, 48, 4) | bits_of(h1, 48, 2) | bits_of(h0, 192, 2) | bits_of(h1, 192, 0);
    put_quad(to->high[2 * h][k][r], &first);
    put_quad(to->high[2 * h + 1][k][r], &second);
}

RP_BODY void put_q6_k(const BlockQ6_K *b, int r, RepackedQ6_K *to) {
    to->d[r] = b->d;
    for (int u = 0; u < 16; u++) to->scale[u][r] = b->scales[u];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++) put_half_q6_k(b, h, k, r, to);
}

RP_BODY void put_iq4_nl(const BlockIQ4_NL *b, int r, RepackedIQ4_NL *to) {
    to->d[r] = b->d;
    for (int k = 0; k < 4; k++) put_quad(to->q[k][r], b->qs + RP_QUAD * k);
}

RP_BODY void put_mxfp4(const BlockMXFP4 *b, int r, RepackedMXFP4 *to) {
    to->d[r] = (uint16_t)(rp_f32_to_bits(rp_mxfp4_half_scale(b->e)) >> 16);
    for (int k = 0; k < 4; k++) put_quad(to->q[k][r], b->qs + RP_QUAD * k);
}

/* The quads k of sub-blocks 4g to 4g + 3. */
RP_BODY void put_quads_q2_k(const BlockQ2_K *b, int g, int k, int r, RepackedQ2_K *to) {
    const uint8_t *qs    = b->qs + 32 * (g / 2) + RP_QUAD * k;
    const int      shift = 4 * (g % 2);
    uint32_t       q     = 0;
    for (int i = 0; i < 2; i++) {
        const uint32_t half = quad_of(qs + 16 * i) >> shift;
        q |= bits_of(half, 3, -2 * i) | bits_of(half, 12, -2 * i - 2);
    }
    put_quad(to->q[g][k][r], &q);
}

RP_BODY void put_q2_k(const BlockQ2_K *b, int r, RepackedQ2_K *to) {
    to->d[r]    = b->d;
    to->dmin[r] = b->dmin;
    for (int u = 0; u < 16; u++) to->scale[u][r] = b->scales[u];
    for (int g = 0; g < 4; g++)
        for (int k = 0; k < 4; k++) put_quads_q2_k(b, g, k, r, to);
}

/* Quads of row r, one behind the other in `quads`. */
RP_BODY void put_quads(const uint8_t *quads, int n_quads, int r, uint8_t *to) {
    for (int k = 0; k < n_quads; k++) put_quad(to + RP_QUAD * (ROWS * k + r), quads + RP_QUAD * k);
}

/* The indices of the 256 elements of row r, in sub-blocks of sub_elems. */
RP_BODY void put_indices(const uint8_t *index, int sub_elems, int r, uint8_t *to) {
    uint8_t quads[128];
    for (int p = 0; p < 128 / sub_elems; p++) {
        const uint8_t *even = index + 2 * sub_elems * p, *odd = even + sub_elems;
        for (int i = 0; i < sub_elems; i++) quads[sub_elems * p + i] = (uint8_t)(even[i] | odd[i] << 4);
    }
    put_quads(quads, 128 / RP_QUAD, r, to);
}

/* The file has the indices. */
RP_BODY void indices_iq4_xs(const BlockIQ4_XS *b, uint8_t *index) {
    for (int u = 0; u < 8; u++) rp_nibbles(b->qs + 16 * u, 16, index + 32 * u);
}

#define X(ID, name)                                                                                                    \
    static_assert(RP_##ID##_OFFSET == 128 && !RP_##ID##_HAS_MIN, #name ": q[] of offset 128, without minima");         \
    RP_BODY void indices_##name(const Block##ID *b, uint8_t *index) {                                                  \
        uint8_t q[RP_##ID##_ELEMS];                                                                                    \
        float   scale[RP_##ID##_ELEMS / RP_SUM_BLOCK], min[RP_##ID##_ELEMS / RP_SUM_BLOCK];                            \
        rp_dequantize_function(RP_##ID)(b, RP_##ID##_ELEMS, q, scale, min);                                            \
        for (int i = 0; i < RP_##ID##_ELEMS; i++)                                                                      \
            index[i] = (uint8_t)((uint8_t)(q[i] + ABOVE_##name - 128) >> SHIFT_##name);                                \
    }
RP_REPACKED_CODED(X)
#undef X

#define X(ID, name)                                                                                                    \
    RP_BODY void put_##name(const Block##ID *b, int r, Repacked##ID *to) {                                             \
        uint8_t index[256];                                                                                            \
        int8_t  s[256 / RP_##ID##_SUB];                                                                                \
        static_assert(RP_##ID##_ELEMS == 256, #name ": of a block");                                                   \
        to->d[r] = factors_##name(b, s);                                                                               \
        for (int u = 0; u < 256 / RP_##ID##_SUB; u++) to->scale[u][r] = s[u];                                          \
        indices_##name(b, index);                                                                                      \
        put_indices(index, RP_##ID##_SUB, r, to->q[0][0][0]);                                                          \
    }
RP_REPACKED_VALUES(X)
#undef X

/* q[] are the elements of a block, of offset 128. */
RP_BODY void put_ternary(uint16_t d, const uint8_t *q, int r, RepackedTernary *to) {
    uint8_t quads[64];
    to->d[r] = d;
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) { /* the same element of four sub-blocks */
            const uint8_t *of = q + 128 * h + i;
            quads[32 * h + i] =
                (uint8_t)((of[0] - 127) | (of[32] - 127) << 2 | (of[64] - 127) << 4 | (of[96] - 127) << 6);
        }
    put_quads(quads, 16, r, to->q[0][0][0]);
}

#define X(ID, name)                                                                                                    \
    RP_BODY void put_##name(const Block##ID *b, int r, Repacked##ID *to) {                                             \
        uint8_t q[RP_##ID##_ELEMS];                                                                                    \
        float   scale[RP_##ID##_ELEMS / RP_SUM_BLOCK], min[RP_##ID##_ELEMS / RP_SUM_BLOCK];                            \
        rp_dequantize_function(RP_##ID)(b, RP_##ID##_ELEMS, q, scale, min);                                            \
        put_ternary(b->d, q, r, to);                                                                                   \
    }
RP_REPACKED_TERNARY(X)
#undef X

/* A row group: 16 rows, `stride` bytes apart. */
#define X(ID, name)                                                                                                    \
    static void repack_##name(const char *rows, size_t stride, int64_t n, char *to) {                                  \
        for (int64_t b = 0; b < n / RP_##ID##_ELEMS; b++)                                                              \
            for (int r = 0; r < ROWS; r++)                                                                             \
                put_##name((const Block##ID *)(const void *)(rows + (size_t)r * stride) + b, r,                        \
                           (Repacked##ID *)(void *)to + b);                                                            \
    }
RP_REPACKED(X)
#undef X

void rp_repack(const RpTensorView *w, const RpTensorView *to, int64_t first, int64_t end) {
    typedef void Repack(const char *rows, size_t stride, int64_t n, char *to);
#define X(ID, name) [RP_##ID]                  = repack_##name,
    static Repack *const table[RP_DTYPE_COUNT] = {RP_REPACKED(X)};
#undef X
    for (int64_t g = first; g < end; g++)
        table[w->dtype](rp_view_row(w, g * ROWS), w->nb[1], w->ne[0], rp_view_row(to, g * ROWS));
}

/* ---- to panels ---- */

/* Quads [0, n_quads): 4 bits of `low` from `shift` on, plus, with `high`, 16 times 2 bits of it from `shift2` on. A
 * quad of a row is shifted as one word: x86 has no shifts of bytes. */
RP_BODY void unpack_quads(const uint8_t *restrict low, int shift, const uint8_t *restrict high, int shift2, int n_quads,
                          int less, uint8_t *restrict to) {
    for (int i = 0; i < n_quads * ROWS; i++) {
        uint32_t q, h = 0;
        memcpy(&q, low + RP_QUAD * i, RP_QUAD);
        if (high != NULL) memcpy(&h, high + RP_QUAD * i, RP_QUAD);
        q = (q >> shift & 0x0f0f0f0fu) | (h >> shift2 & 0x03030303u) << 4;
        memcpy(to + RP_QUAD * i, &q, RP_QUAD);
    }
    for (int i = 0; i < n_quads * ROWS * RP_QUAD && less != 0; i++) to[i] = (uint8_t)(to[i] - less);
}

RP_BODY float *scales_at(const QuantForm *form, char *sub) { return (float *)(void *)(sub + ROWS * form->sub_elems); }

/* gcc 12 unrolls loops of a known small length before it could vectorise them, unless it is told not to. */
RP_BODY void halves(const uint16_t *restrict d, float *restrict to) {
#pragma GCC  unroll 1
    for (int r = 0; r < ROWS; r++) to[r] = rp_f16_to_f32(d[r]);
}

/* -dmin of each row. */
RP_BODY void negated_halves(const uint16_t *restrict dmin, float *restrict to) {
    halves(dmin, to);
    for (int r = 0; r < ROWS; r++) to[r] = -to[r];
}

RP_BODY void scales_of_bytes(const float *restrict d, const uint8_t *restrict scale, float *restrict to) {
#pragma GCC  unroll 1
    for (int r = 0; r < ROWS; r++) to[r] = d[r] * (float)scale[r];
}

RP_BODY void scales_of_signed_bytes(const float *restrict d, const int8_t *restrict scale, float *restrict to) {
#pragma GCC  unroll 1
    for (int r = 0; r < ROWS; r++) to[r] = d[r] * (float)scale[r];
}

RP_BODY void unpack_q4_0(const RepackedQ4_0 *b, const QuantForm *form, int less, char *to) {
    unpack_quads(b->q[0][0], 0, NULL, 0, 4, less, (uint8_t *)to);
    unpack_quads(b->q[0][0], 4, NULL, 0, 4, less, (uint8_t *)to + sizeof b->q);
    halves(b->d, scales_at(form, to));
}

RP_BODY void unpack_q4_1(const RepackedQ4_1 *b, const QuantForm *form, int less, char *to) {
    unpack_quads(b->q[0][0], 0, NULL, 0, 4, less, (uint8_t *)to);
    unpack_quads(b->q[0][0], 4, NULL, 0, 4, less, (uint8_t *)to + sizeof b->q);
    halves(b->d, scales_at(form, to));
    halves(b->m, scales_at(form, to) + ROWS);
}

RP_BODY void unpack_fifth_bits(const uint8_t *restrict q, const uint8_t *restrict high, int less, char *restrict to) {
    for (int i = 0; i < 32 * ROWS; i++) {
        const int nibble = q[i % (16 * ROWS)] >> (i / (16 * ROWS) * 4) & 15;
        to[i]            = (char)(nibble + 16 * (high[i % (RP_QUAD * ROWS)] >> (i / (RP_QUAD * ROWS)) & 1) - less);
    }
}

RP_BODY void unpack_q5_0(const RepackedQ5_0 *b, const QuantForm *form, int less, char *to) {
    unpack_fifth_bits(b->q[0][0], b->high[0], less, to);
    halves(b->d, scales_at(form, to));
}

RP_BODY void unpack_q5_1(const RepackedQ5_1 *b, const QuantForm *form, int less, char *to) {
    unpack_fifth_bits(b->q[0][0], b->high[0], less, to);
    halves(b->d, scales_at(form, to));
    halves(b->m, scales_at(form, to) + ROWS);
}

RP_BODY void unpack_q8_0(const RepackedQ8_0 *b, const QuantForm *form, int less, char *to) {
    const int8_t *q = b->q[0][0];
    for (int i = 0; i < (int)sizeof b->q; i++) to[i] = (char)(q[i] + RP_Q8_0_OFFSET - less);
    halves(b->d, scales_at(form, to));
}

RP_BODY void unpack_q4_k(const RepackedQ4_K *b, const QuantForm *form, int less, char *to) {
    float d[ROWS], dmin[ROWS];
    halves(b->d, d);
    negated_halves(b->dmin, dmin);
    for (int u = 0; u < 8; u++, to += rp_panel_sub_bytes(form)) {
        float *scale = scales_at(form, to);
        unpack_quads(b->q[u / 2][0][0], 4 * (u % 2), NULL, 0, 8, less, (uint8_t *)to);
        scales_of_bytes(d, b->scale[u], scale);
        scales_of_bytes(dmin, b->min[u], scale + ROWS);
    }
}

RP_BODY void unpack_q6_k(const RepackedQ6_K *b, const QuantForm *form, int less, char *to) {
    float d[ROWS];
    halves(b->d, d);
    for (int u = 0; u < 16; u++, to += rp_panel_sub_bytes(form)) {
        float *scale = scales_at(form, to);
        unpack_quads(b->low[u / 2][0][0], 4 * (u % 2), b->high[u / 4][0][0], 2 * (u % 4), 4, less, (uint8_t *)to);
        scales_of_signed_bytes(d, b->scale[u], scale);
    }
}

RP_BODY void unpack_q5_k(const RepackedQ5_K *b, const QuantForm *form, int less, char *to) {
    float d[ROWS], dmin[ROWS];
    halves(b->d, d);
    negated_halves(b->dmin, dmin);
    for (int u = 0; u < 8; u++, to += rp_panel_sub_bytes(form)) {
        float         *scale = scales_at(form, to);
        const uint8_t *low = b->low[u / 2][0][0], *high = b->high[u / 4][0][0];
        for (int i = 0; i < 32 * ROWS; i++) {
            const int k = i / (RP_QUAD * ROWS), at = RP_QUAD * ROWS * (k / 2) + i % (RP_QUAD * ROWS);
            const int fifth = high[at] >> (u % 4 + 4 * (k % 2)) & 1;
            to[i]           = (char)((low[i] >> (4 * (u % 2)) & 15) + 16 * fifth - less);
        }
        scales_of_bytes(d, b->scale[u], scale);
        scales_of_bytes(dmin, b->min[u], scale + ROWS);
    }
}

RP_BODY void unpack_mxfp4(const RepackedMXFP4 *b, const QuantForm *form, int less, char *to) {
    const uint8_t *q = b->q[0][0];
    for (int i = 0; i < 32 * ROWS; i++) {
        const int nibble = q[i % (16 * ROWS)] >> (i / (16 * ROWS) * 4) & 15;
        to[i]            = (char)(rp_mxfp4_values[nibble] - less);
    }
    for (int r = 0; r < ROWS; r++) scales_at(form, to)[r] = rp_bf16_to_f32(b->d[r]);
}

/* Quads of sub-block u, whose nibbles are at q, as unsigned q of offset 128 less `less`. */
RP_BODY void unpack_values(const uint8_t *restrict q, int u, int sub_elems, const int8_t *values, int less,
                           uint8_t *restrict to) {
    for (int i = 0; i < sub_elems * ROWS; i++) to[i] = (uint8_t)(values[q[i] >> (4 * (u % 2)) & 15] + 128 - less);
}

RP_BODY void unpack_iq4_nl(const RepackedIQ4_NL *b, const QuantForm *form, int less, char *to) {
    for (int u = 0; u < 2; u++)
        unpack_values(b->q[0][0], u, 16, rp_iq4_values, less, (uint8_t *)to + u * (int)sizeof b->q);
    halves(b->d, scales_at(form, to));
}

/* Quads of sub-block u, whose two bits are at q, less `less`. */
RP_BODY void unpack_two_bits(const uint8_t *restrict q, int u, int sub_elems, int less, char *restrict to) {
    for (int i = 0; i < sub_elems * ROWS; i++) to[i] = (char)((q[i] >> (2 * (u % 4)) & 3) - less);
}

RP_BODY void unpack_q2_k(const RepackedQ2_K *b, const QuantForm *form, int less, char *to) {
    float d[ROWS], dmin[ROWS];
    halves(b->d, d);
    negated_halves(b->dmin, dmin);
    for (int u = 0; u < 16; u++, to += rp_panel_sub_bytes(form)) {
        unpack_two_bits(b->q[u / 4][0][0], u, 16, less, to);
        for (int r = 0; r < ROWS; r++) {
            scales_at(form, to)[r]        = d[r] * (float)(b->scale[u][r] & 15);
            scales_at(form, to)[ROWS + r] = dmin[r] * (float)(b->scale[u][r] >> 4);
        }
    }
}

#define X(ID, name)                                                                                                    \
    RP_BODY void unpack_##name(const Repacked##ID *b, const QuantForm *form, int less, char *to) {                     \
        float d[ROWS];                                                                                                 \
        halves(b->d, d);                                                                                               \
        for (int r = 0; r < ROWS; r++) d[r] *= unit_##name;                                                            \
        for (int u = 0; u < RP_##ID##_ELEMS / RP_##ID##_SUB; u++, to += rp_panel_sub_bytes(form)) {                    \
            unpack_values(b->q[u / 2][0][0], u, RP_##ID##_SUB, values_##name, less, (uint8_t *)to);                    \
            scales_of_signed_bytes(d, b->scale[u], scales_at(form, to));                                               \
        }                                                                                                              \
    }
RP_REPACKED_VALUES(X)
#undef X

RP_BODY void unpack_ternary(const RepackedTernary *b, const QuantForm *form, int less, char *to) {
    for (int u = 0; u < 8; u++, to += rp_panel_sub_bytes(form)) {
        unpack_two_bits(b->q[u / 4][0][0], u, 32, less - 127, to);
        halves(b->d, scales_at(form, to));
    }
}
#define X(ID, name)                                                                                                    \
    RP_BODY void unpack_##name(const Repacked##ID *b, const QuantForm *form, int less, char *to) {                     \
        unpack_ternary(b, form, less, to);                                                                             \
    }
RP_REPACKED_TERNARY(X)
#undef X

#define X(ID, name)                                                                                                    \
    static void panel_##name(const char *blocks, int64_t n, int less, const PrefetchStream *ahead, char *panel) {      \
        enum { SUBS = RP_##ID##_ELEMS / RP_##ID##_SUB };                                                               \
        const QuantForm form = RP_QUANT_FORM(ID);                                                                      \
        for (int64_t i = 0; i < n / RP_##ID##_ELEMS; i++, panel += SUBS * rp_panel_sub_bytes(&form)) {                 \
            rp_prefetch_subs(ahead, i *SUBS, SUBS);                                                                    \
            unpack_##name((const Repacked##ID *)(const void *)blocks + i, &form, less, panel);                         \
        }                                                                                                              \
    }
RP_REPACKED(X)
#undef X

/* `less` is subtracted from each quant. */
static void unpack_panel(RpDtype dtype, const char *blocks, int64_t n, int less, const PrefetchStream *ahead,
                         char *panel) {
    typedef void Unpack(const char *blocks, int64_t n, int less, const PrefetchStream *ahead, char *panel);
#define X(ID, name) [RP_##ID]                  = panel_##name,
    static Unpack *const table[RP_DTYPE_COUNT] = {RP_REPACKED(X)};
#undef X
    table[dtype](blocks, n, less, ahead, panel);
}

void rp_unpack_panel_plain(RpDtype dtype, const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel) {
    unpack_panel(dtype, blocks, n, 0, ahead, panel);
}

#if defined(__aarch64__)
void rp_unpack_panel_neon(RpDtype dtype, const char *blocks, int64_t n, const PrefetchStream *ahead, char *panel) {
    unpack_panel(dtype, blocks, n, rp_quant_form(dtype)->offset, ahead, panel);
}
#endif
