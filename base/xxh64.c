/* XXH64: four lanes take 8 bytes each of every 32, then they are merged with what is left. */
#include "base/xxh64.h"

#include <string.h>

static const uint64_t prime1 = 0x9e3779b185ebca87u, prime2 = 0xc2b2ae3d27d4eb4fu, prime3 = 0x165667b19e3779f9u,
                      prime4 = 0x85ebca77c2b2ae63u, prime5 = 0x27d4eb2f165667c5u;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t take(uint64_t lane, uint64_t word) { return rotate(lane + word * prime2, 31) * prime1; }

static uint64_t word_at(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static void take_block(uint64_t lanes[4], const unsigned char *p) {
    for (int i = 0; i < 4; i++) lanes[i] = take(lanes[i], word_at(p + 8 * i));
}

void rp_xxh64_begin(RpXxh64 *h) {
    *h = (RpXxh64){
        .lanes = {prime1 + prime2, prime2, 0, 0 - prime1}
    };
}

void rp_xxh64_add(RpXxh64 *h, const void *p, size_t n) {
    const unsigned char *bytes = p;
    const size_t         kept  = (size_t)(h->total % sizeof h->left);
    if (n == 0) return;
    h->total += n;
    if (kept + n < sizeof h->left) {
        memcpy(h->left + kept, bytes, n);
        return;
    }
    if (kept > 0) {
        const size_t first = sizeof h->left - kept;
        memcpy(h->left + kept, bytes, first);
        take_block(h->lanes, h->left);
        bytes += first, n -= first;
    }
    uint64_t lanes[4];
    memcpy(lanes, h->lanes, sizeof lanes); /* in registers: h->left could be an alias */
    for (; n >= sizeof h->left; bytes += sizeof h->left, n -= sizeof h->left) take_block(lanes, bytes);
    memcpy(h->lanes, lanes, sizeof lanes);
    memcpy(h->left, bytes, n);
}

uint64_t rp_xxh64_end(const RpXxh64 *h) {
    static const int     turns[4] = {1, 7, 12, 18};
    const unsigned char *p        = h->left;
    size_t               n        = (size_t)(h->total % sizeof h->left);
    uint64_t             x        = prime5;
    if (h->total >= sizeof h->left) {
        x = 0;
        for (int i = 0; i < 4; i++) x += rotate(h->lanes[i], turns[i]);
        for (int i = 0; i < 4; i++) x = (x ^ take(0, h->lanes[i])) * prime1 + prime4;
    }
    x += h->total;
    for (; n >= 8; p += 8, n -= 8) x = rotate(x ^ take(0, word_at(p)), 27) * prime1 + prime4;
    if (n >= 4) {
        uint32_t half;
        memcpy(&half, p, sizeof half);
        x = rotate(x ^ half * prime1, 23) * prime2 + prime3;
        p += 4, n -= 4;
    }
    for (; n > 0; p++, n--) x = rotate(x ^ *p * prime5, 11) * prime1;
    x = (x ^ x >> 33) * prime2;
    x = (x ^ x >> 29) * prime3;
    return x ^ x >> 32;
}

uint64_t rp_xxh64(const void *p, size_t n) {
    RpXxh64 h;
    rp_xxh64_begin(&h);
    if (p != NULL) rp_xxh64_add(&h, p, n);
    return rp_xxh64_end(&h);
}
