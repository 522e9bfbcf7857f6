/* repacked_unpack.h - unpacks repacked weights to a panel, for every instruction set. The file that includes it defines
 * before: INLINE, Header, RepackedType, and unpack_sub, which unpacks one sub-block. */
#ifndef FALLBACK_PRODUCTS_REPACKED_UNPACK_H
#define FALLBACK_PRODUCTS_REPACKED_UNPACK_H

/* n_subs sub-blocks of 16 rows. A k-step of types in blocks of 32 is several blocks, each with its header. */
INLINE void unpack(const RepackedType *t, const char *blocks, int64_t n_subs, const PrefetchStream *ahead,
                   char *panel) {
    for (int64_t u = 0; u < n_subs; u += RP_KSTEP_SUBS) {
        const char *first = blocks + (size_t)(u / t->subs) * t->bytes;
        const int   step  = t->subs > 1 ? (int)(u % t->subs) : 0;
        Header      h;
        rp_prefetch_subs(ahead, u, RP_KSTEP_SUBS);
        if (t->subs > 1) t->header(first, &h);
#pragma GCC unroll 4
        for (int j = 0; j < RP_KSTEP_SUBS; j++, panel += rp_panel_sub_bytes(&t->form)) {
            const char *block = t->subs > 1 ? first : first + (size_t)j * t->bytes;
            if (t->subs == 1 && u + j >= n_subs) break;
            if (t->subs == 1) t->header(block, &h);
            unpack_sub(t, block, &h, step + j, j, panel);
        }
    }
}

#endif
