#include "grammar/texts.h"

#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b) {
    const RpGgufString *x = a, *y = b;
    const size_t        n = x->len < y->len ? x->len : y->len;
    const int           c = n == 0 ? 0 : memcmp(x->ptr, y->ptr, n);
    return c != 0 ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* The rests behind the first `skip` bytes, which texts[0..n) have in common. */
static Rx rests(RxPool *p, const RpGgufString *t, size_t n, size_t skip) {
    const RpGgufString last   = t[n - 1];
    size_t             common = skip;
    while (common < t[0].len && common < last.len && t[0].ptr[common] == last.ptr[common]) common++;
    Rx all = RX_NONE;
    if (t[0].len == common) all = RX_EMPTY_TEXT;
    size_t i = 0;
    while (i < n && t[i].len == common) i++; /* equal texts */
    while (i < n) {
        size_t k = i;
        while (k < n && t[k].ptr[common] == t[i].ptr[common]) k++;
        const Rx head = rp_rx_byte(p, (unsigned char)t[i].ptr[common]);
        all           = rp_rx_alt2(p, all, rp_rx_cat(p, head, rests(p, t + i, k - i, common + 1)));
        i             = k;
    }
    return rp_rx_cat(p, rp_rx_text(p, t[0].ptr + skip, common - skip), all);
}

Rx rp_rx_texts(RxPool *p, RpGgufString *texts, size_t n) {
    if (n == 0) return RX_NONE;
    qsort(texts, n, sizeof *texts, by_bytes);
    return rests(p, texts, n, 0);
}
