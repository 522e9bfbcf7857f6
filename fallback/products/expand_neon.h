/* expand_neon.h - loads for NEON of RP_EXPANDED_QUANTS (fallback/quants/expand.h). */
#ifndef FALLBACK_PRODUCTS_EXPAND_NEON_H
#define FALLBACK_PRODUCTS_EXPAND_NEON_H

/* Blocks of 32 begin with their scale; a quarter is one of them, else 64 elements. */
#define EXPANDED(ID, name, ...)                                                                                        \
    enum { LEFT_##name = 0, STRIDED_##name = 0 };                                                                      \
    INLINE void quarter_##name(const char *p, int quarter, int8x16_t *v) {                                             \
        const Block##ID *b = (const Block##ID *)(const void *)p;                                                       \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            expand_##name##_neon(b + quarter, 0, v);                                                                   \
        } else {                                                                                                       \
            expand_##name##_neon(b, 2 * quarter, v);                                                                   \
            expand_##name##_neon(b, 2 * quarter + 1, v + 2);                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void scales_##name(const char *p, int n_subs, float32x4_t *scale, float32x4_t *min) {                       \
        float s[MAX_KSTEPS * RP_KSTEP_SUBS], m[MAX_KSTEPS * RP_KSTEP_SUBS];                                            \
        if (RP_##ID##_ELEMS == 32) {                                                                                   \
            *scale = halves_of_blocks(p, RP_##ID##_BYTES, n_subs);                                                     \
            return;                                                                                                    \
        }                                                                                                              \
        sub_scales_##name((const Block##ID *)(const void *)p, s, m);                                                   \
        for (int h = 0; h < RP_LOAD_KSTEPS(ID); h++) {                                                                 \
            scale[h] = vld1q_f32(s + RP_KSTEP_SUBS * h);                                                               \
            if (RP_##ID##_HAS_MIN) min[h] = vld1q_f32(m + RP_KSTEP_SUBS * h);                                          \
        }                                                                                                              \
    }
RP_EXPANDED_QUANTS(EXPANDED)
#undef EXPANDED

#endif
