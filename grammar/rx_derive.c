/* Derivatives, and whether an expression has a text at all. */
#include "grammar/rx.h"

#include <string.h>

enum { SEARCH_STEPS = 2000 };

RpStatus rp_rx_classes(RxPool *p) {
    if (p->status != RP_OK) return p->status;
    int n = 1;
    memset(p->class_of, 0, sizeof p->class_of);
    for (size_t s = 0; s < p->n_sets; s++) {
        int inside[256]; /* the class of those bytes of an old class that are in the set; -1: none yet */
        int members[256] = {0}, hits[256] = {0};
        for (int b = 0; b < 256; b++) {
            const bool in = (p->sets[s].bits[b / 64] >> (b % 64) & 1) != 0;
            members[p->class_of[b]]++;
            hits[p->class_of[b]] += in;
        }
        for (int c = 0; c < 256; c++) inside[c] = -1;
        for (int b = 0; b < 256; b++) {
            const int c = p->class_of[b];
            if ((p->sets[s].bits[b / 64] >> (b % 64) & 1) == 0 || hits[c] == members[c] || hits[c] == 0) continue;
            if (inside[c] < 0) inside[c] = n++;
            p->class_of[b] = (uint8_t)inside[c];
        }
    }
    p->n_classes = n;
    memset(p->memo, 0, 3 * (p->memo_mask + 1) * sizeof *p->memo);
    for (int b = 256; b-- > 0;) p->byte_of[p->class_of[b]] = (uint8_t)b;
    return RP_OK;
}

/* b counts the digits of the fraction that were read, plus 1; the remainder is that of all digits as one integer, of
 * the value times 10^digits. Digits beyond `hi` of the fraction must be 0. */
static uint32_t pow10_mod(uint32_t k, uint32_t m) {
    uint64_t x = 1 % m;
    while (k-- > 0) x = x * 10 % m;
    return (uint32_t)x;
}

static bool is_multiple(const RxNode *n, uint32_t rest, uint32_t state) {
    const uint32_t digits = state == 0 ? 0 : state - 1;
    return (uint64_t)rest * pow10_mod(n->hi - digits, n->lo) % n->lo == 0;
}

static Rx intern_multiple(RxPool *p, const RxNode *n, uint32_t rest, uint32_t state);

static Rx derive_multiple(RxPool *p, RxNode n, unsigned char byte) {
    if (byte == '-') return n.a == 0 && n.b == 0 ? intern_multiple(p, &n, 0, 0) : RX_NONE;
    if (byte == '.') return n.b == 0 ? intern_multiple(p, &n, n.a, 1) : RX_NONE;
    if (byte < '0' || byte > '9') return RX_NONE;
    if (n.b == n.hi + 1) return byte == '0' ? intern_multiple(p, &n, n.a, n.b) : RX_NONE;
    const uint32_t rest = (uint32_t)(((uint64_t)n.a * 10 + (unsigned)(byte - '0')) % n.lo);
    return intern_multiple(p, &n, rest, n.b == 0 ? 0 : n.b + 1);
}

static Rx intern_multiple(RxPool *p, const RxNode *n, uint32_t rest, uint32_t state) {
    return rp_rx_intern(p, (RxNode){.kind       = RX_KIND_MULTIPLE,
                                    .nullable   = is_multiple(n, rest, state),
                                    .is_boolean = true,
                                    .a          = rest,
                                    .b          = state,
                                    .lo         = n->lo,
                                    .hi         = n->hi});
}

static Rx derive_list(RxPool *p, RxNode n, int class) {
    Rx     result = RX_NONE;
    size_t k      = 0;
    Rx     few[64];
    for (uint32_t i = 0; i < n.b && p->status == RP_OK; i++) {
        const Rx d = rp_rx_derive(p, p->lists[n.a + i], class);
        if (n.kind == RX_KIND_AND) {
            if (d == RX_NONE) return RX_NONE;
            result = i == 0 ? d : rp_rx_and(p, result, d);
        } else if (d != RX_NONE) {
            few[k++] = d;
            if (k == sizeof few / sizeof few[0]) {
                few[0] = rp_rx_alt(p, few, k);
                k      = 1;
            }
        }
    }
    return n.kind == RX_KIND_AND ? result : k == 0 ? RX_NONE : k == 1 ? few[0] : rp_rx_alt(p, few, k);
}

static Rx derive(RxPool *p, RxNode n, int class) {
    const unsigned char byte = p->byte_of[class];
    switch ((RxKind)n.kind) {
    case RX_KIND_NONE:
    case RX_KIND_EMPTY_TEXT:
        return RX_NONE;
    case RX_KIND_SET:
        return (p->sets[n.a].bits[byte / 64] >> (byte % 64) & 1) != 0 ? RX_EMPTY_TEXT : RX_NONE;
    case RX_KIND_CAT: {
        const Rx   d        = rp_rx_cat(p, rp_rx_derive(p, n.a, class), n.b);
        const bool nullable = p->nodes[n.a].nullable;
        return nullable ? rp_rx_alt2(p, d, rp_rx_derive(p, n.b, class)) : d;
    }
    case RX_KIND_ALT:
    case RX_KIND_AND:
        return derive_list(p, n, class);
    case RX_KIND_NOT:
        return rp_rx_not(p, rp_rx_derive(p, n.a, class));
    case RX_KIND_REPEAT: {
        const Rx d = rp_rx_derive(p, n.a, class);
        if (d == RX_NONE) return RX_NONE;
        return rp_rx_cat(p, d,
                         rp_rx_repeat(p, n.a, n.lo > 0 ? n.lo - 1 : 0, n.hi == RX_NO_LIMIT ? RX_NO_LIMIT : n.hi - 1));
    }
    case RX_KIND_MULTIPLE:
        return derive_multiple(p, n, byte);
    }
    return RX_NONE;
}

Rx rp_rx_derive(RxPool *p, Rx e, int class) {
    if (e < RX_FIRST || p->status != RP_OK) return RX_NONE;
    const RxNode n = p->nodes[e];
    if (n.kind == RX_KIND_SET) return derive(p, n, class);
    uint32_t *m = p->memo + 3 * (rp_mix(e, (uint32_t) class) & p->memo_mask);
    if (m[0] == e && m[1] == (uint32_t) class) return m[2];
    const Rx d = derive(p, n, class);
    if (p->status != RP_OK) return RX_NONE;
    m[0] = e, m[1] = (uint32_t) class, m[2] = d;
    return d;
}

/* Depth first, as a counted repetition reaches its end sooner so. The state is the mark `alive` itself: 3 for what was
 * visited in this search. */
static bool search(RxPool *p, Rx e, int *left) {
    RxNode        *n  = &p->nodes[e];
    const RpStatus st = RP_GROW(p->scratch, p->scratch_room, p->n_scratch + 1);
    if (st != RP_OK) p->status = st;
    if (st != RP_OK || n->alive == 1 || n->nullable) return true;
    if (n->alive != 0) return false;
    if ((*left)-- <= 0) return true; /* may have a text */
    p->scratch[p->n_scratch++] = e;
    n->alive                   = 3;
    for (int c = 0; c < p->n_classes && p->status == RP_OK; c++) {
        const Rx d = rp_rx_derive(p, e, c);
        if (d != RX_NONE && d != e && search(p, d, left)) {
            p->nodes[e].alive = 1;
            return true;
        }
    }
    return false;
}

bool rp_rx_alive(RxPool *p, Rx e) {
    const RxNode n = p->nodes[e];
    if (e == RX_NONE) return false;
    if (!n.is_boolean || n.nullable) return true;
    if (n.alive == 1 || n.alive == 2) return n.alive == 1;
    if (n.kind == RX_KIND_CAT) return rp_rx_alive(p, n.a) && rp_rx_alive(p, n.b);
    if (n.kind == RX_KIND_ALT) {
        for (uint32_t i = 0; i < n.b; i++)
            if (rp_rx_alive(p, p->lists[n.a + i])) return true;
        return false;
    }
    int          left  = SEARCH_STEPS;
    const size_t from  = p->n_scratch;
    const bool   found = search(p, e, &left) || p->status != RP_OK;
    /* Without a text nothing that was visited has one. With one, what was visited on the way is looked at again. */
    for (; p->n_scratch > from; p->n_scratch--) {
        RxNode *visited = &p->nodes[p->scratch[p->n_scratch - 1]];
        if (visited->alive == 3) visited->alive = found ? 0 : 2;
    }
    if (p->status == RP_OK) p->nodes[e].alive = found ? 1 : 2;
    return found;
}

bool rp_rx_match(RxPool *p, Rx e, const char *text, size_t n) {
    for (size_t i = 0; i < n && e != RX_NONE; i++) e = rp_rx_derive(p, e, p->class_of[(unsigned char)text[i]]);
    return p->nodes[e].nullable;
}
