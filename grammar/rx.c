/* Making expressions. Each maker brings its operands to one form, so that equal languages mostly have equal numbers
 * and the number of derivatives stays small. */
#include "grammar/rx.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 1 << 21, MAX_DEPTH = 4000, MEMO = 1 << 12 };

static Rx failed(RxPool *p, RpStatus st) {
    if (p->status == RP_OK) p->status = st;
    return RX_NONE;
}

static bool same(const RxNode *x, const RxNode *y) {
    return x->kind == y->kind && x->a == y->a && x->b == y->b && x->lo == y->lo && x->hi == y->hi;
}

/* The number of a node, which is added if it is new. Lists are compared by content by intern_list. */
Rx rp_rx_intern(RxPool *p, RxNode n) {
    if (p->status != RP_OK) return RX_NONE;
    const RpStatus st = rp_table_reserve(&p->table);
    if (st != RP_OK) return failed(p, st);
    const uint32_t h  = rp_mix(rp_mix(rp_mix(rp_mix(rp_mix(n.kind, n.a), n.b), n.lo), n.hi), 7);
    size_t         at = h & p->table.mask;
    for (; p->table.slots[at] != 0; at = (at + 1) & p->table.mask)
        if (p->table.hashes[p->table.slots[at] - 1] == h && same(&p->nodes[p->table.slots[at] - 1], &n))
            return p->table.slots[at] - 1;
    if (p->table.n >= MAX_NODES)
        return failed(p, rp_fail(RP_E_UNSUPPORTED, "grammar: more than %d regular expressions", MAX_NODES));
    if (n.depth > MAX_DEPTH)
        return failed(p, rp_fail(RP_E_UNSUPPORTED, "grammar: regular expressions nested deeper than %d", MAX_DEPTH));
    const RpStatus grown = RP_GROW(p->nodes, p->room, p->table.n + 1);
    if (grown != RP_OK) return failed(p, grown);
    p->nodes[p->table.n] = n;
    rp_table_put(&p->table, at, h);
    return (Rx)p->table.n - 1;
}

RpStatus rp_rx_open(RxPool *p) {
    *p      = (RxPool){.status = RP_OK};
    p->memo = calloc(3 * (size_t)MEMO, sizeof *p->memo);
    if (p->memo == NULL) return p->status = rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    p->memo_mask = MEMO - 1;
    p->n_classes = 256; /* until rp_rx_classes */
    for (int b = 0; b < 256; b++) p->class_of[b] = p->byte_of[b] = (uint8_t)b;
    (void)rp_rx_intern(p, (RxNode){.kind = RX_KIND_NONE, .is_finite = true});
    (void)rp_rx_intern(p, (RxNode){.kind = RX_KIND_EMPTY_TEXT, .nullable = true, .is_finite = true});
    (void)rp_rx_intern(p, (RxNode){.kind = RX_KIND_NOT, .nullable = true, .is_boolean = true, .a = RX_NONE});
    return p->status;
}

void rp_rx_close(RxPool *p) {
    rp_table_free(&p->table);
    free(p->nodes);
    free(p->sets);
    free(p->lists);
    free(p->scratch);
    free(p->memo);
    *p = (RxPool){.status = RP_E_STATE};
}

Rx rp_rx_set(RxPool *p, const ByteSet *set) {
    static const ByteSet none;
    if (memcmp(set, &none, sizeof none) == 0) return RX_NONE;
    for (size_t i = p->n_sets; i-- > 0;)
        if (memcmp(&p->sets[i], set, sizeof *set) == 0)
            return rp_rx_intern(p, (RxNode){.kind = RX_KIND_SET, .is_finite = true, .a = (uint32_t)i});
    const RpStatus st = RP_GROW(p->sets, p->set_room, p->n_sets + 1);
    if (st != RP_OK) return failed(p, st);
    p->sets[p->n_sets++] = *set;
    return rp_rx_intern(p, (RxNode){.kind = RX_KIND_SET, .is_finite = true, .a = (uint32_t)p->n_sets - 1});
}

Rx rp_rx_range(RxPool *p, unsigned lo, unsigned hi) {
    ByteSet s = {{0}};
    for (unsigned b = lo; b <= hi; b++) s.bits[b / 64] |= (uint64_t)1 << (b % 64);
    return rp_rx_set(p, &s);
}

Rx rp_rx_byte(RxPool *p, unsigned char byte) { return rp_rx_range(p, byte, byte); }

Rx rp_rx_text(RxPool *p, const char *text, size_t n) {
    Rx e = RX_EMPTY_TEXT;
    while (n-- > 0) e = rp_rx_cat(p, rp_rx_byte(p, (unsigned char)text[n]), e);
    return e;
}

static uint16_t deeper(uint16_t x, uint16_t y) { return (uint16_t)((x > y ? x : y) + 1); }

/* a is no sequence. Derivatives go down into b only if a is nullable. */
static Rx cat_node(RxPool *p, Rx a, Rx b) {
    if (p->status != RP_OK || a == RX_NONE || b == RX_NONE) return RX_NONE;
    if (a == RX_EMPTY_TEXT) return b;
    if (b == RX_EMPTY_TEXT) return a;
    const RxNode x = p->nodes[a], y = p->nodes[b];
    return rp_rx_intern(p, (RxNode){.kind       = RX_KIND_CAT,
                                    .nullable   = x.nullable && y.nullable,
                                    .is_boolean = x.is_boolean || y.is_boolean,
                                    .is_finite  = x.is_finite && y.is_finite,
                                    .depth      = x.nullable ? deeper(x.depth, y.depth) : (uint16_t)(x.depth + 1),
                                    .a          = a,
                                    .b          = b});
}

/* Nested to the right, so that the derivative of a long sequence touches its head only. */
Rx rp_rx_cat(RxPool *p, Rx a, Rx b) {
    if (p->status != RP_OK || a == RX_NONE || b == RX_NONE) return RX_NONE;
    const size_t from = p->n_scratch;
    while (p->nodes[a].kind == RX_KIND_CAT && b != RX_EMPTY_TEXT) {
        const RpStatus st = RP_GROW(p->scratch, p->scratch_room, p->n_scratch + 1);
        if (st != RP_OK) {
            p->n_scratch = from;
            return failed(p, st);
        }
        p->scratch[p->n_scratch++] = p->nodes[a].a;
        a                          = p->nodes[a].b;
    }
    b = cat_node(p, a, b);
    while (p->n_scratch > from) b = cat_node(p, p->scratch[--p->n_scratch], b);
    return b;
}

static int by_number(const void *a, const void *b) {
    const Rx x = *(const Rx *)a, y = *(const Rx *)b;
    return x < y ? -1 : x > y;
}

/* The operands of an ALT or AND go to scratch[from..], with those of nested ones instead of them. */
static void flatten(RxPool *p, RxKind kind, Rx e) {
    const RxNode *n  = &p->nodes[e];
    const size_t  k  = n->kind == kind ? n->b : 1;
    RpStatus      st = RP_GROW(p->scratch, p->scratch_room, p->n_scratch + k);
    if (st != RP_OK) {
        (void)failed(p, st);
        return;
    }
    if (n->kind == kind)
        memcpy(p->scratch + p->n_scratch, p->lists + n->a, k * sizeof *p->scratch);
    else
        p->scratch[p->n_scratch] = e;
    p->n_scratch += k;
}

/* All sets among scratch[from..n) become one: their union, or their intersection. */
static void merge_sets(RxPool *p, RxKind kind, size_t from) {
    ByteSet s;
    size_t  kept = from, n_sets = 0;
    for (size_t i = from; i < p->n_scratch; i++) n_sets += p->nodes[p->scratch[i]].kind == RX_KIND_SET;
    if (n_sets < 2) return;
    n_sets = 0;
    for (size_t i = from; i < p->n_scratch; i++) {
        const RxNode *n = &p->nodes[p->scratch[i]];
        if (n->kind != RX_KIND_SET) {
            p->scratch[kept++] = p->scratch[i];
            continue;
        }
        const ByteSet *other = &p->sets[n->a];
        if (n_sets++ == 0) s = *other;
        for (int w = 0; w < 4; w++)
            s.bits[w] = kind == RX_KIND_ALT ? s.bits[w] | other->bits[w] : s.bits[w] & other->bits[w];
    }
    p->n_scratch = kept;
    flatten(p, kind, rp_rx_set(p, &s)); /* within the room that the sets had */
}

/* Finds an equal list through the table: the hash of a list node is that of its operands. */
static Rx intern_list(RxPool *p, RxKind kind, const Rx *list, size_t n) {
    uint32_t h     = kind;
    RxNode   whole = {
          .kind = (uint8_t)kind, .nullable = kind == RX_KIND_AND, .is_finite = kind == RX_KIND_ALT, .b = (uint32_t)n};
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const RxNode *x = &p->nodes[list[i]];
        h               = rp_mix(h, list[i]);
        whole.nullable  = kind == RX_KIND_AND ? whole.nullable && x->nullable : whole.nullable || x->nullable;
        whole.is_boolean |= x->is_boolean;
        whole.is_finite = kind == RX_KIND_AND ? whole.is_finite || x->is_finite : whole.is_finite && x->is_finite;
        whole.depth     = deeper(whole.depth, x->depth);
        any |= x->any_char;
    }
    whole.is_boolean |= kind == RX_KIND_AND;
    whole.any_char    = kind == RX_KIND_ALT && any;
    const RpStatus st = rp_table_reserve(&p->table);
    if (st != RP_OK) return failed(p, st);
    size_t at = h & p->table.mask;
    for (; p->table.slots[at] != 0; at = (at + 1) & p->table.mask) {
        const Rx      e = p->table.slots[at] - 1;
        const RxNode *x = &p->nodes[e];
        if (p->table.hashes[e] == h && x->kind == kind && x->b == n &&
            memcmp(p->lists + x->a, list, n * sizeof *list) == 0)
            return e;
    }
    if (p->table.n >= MAX_NODES || whole.depth > MAX_DEPTH)
        return failed(p, rp_fail(RP_E_UNSUPPORTED, "grammar: more than %d regular expressions", MAX_NODES));
    RpStatus grown = RP_GROW(p->lists, p->list_room, p->n_lists + n);
    if (grown == RP_OK) grown = RP_GROW(p->nodes, p->room, p->table.n + 1);
    if (grown != RP_OK) return failed(p, grown);
    whole.a = (uint32_t)p->n_lists;
    memcpy(p->lists + p->n_lists, list, n * sizeof *list);
    p->n_lists += n;
    p->nodes[p->table.n] = whole;
    rp_table_put(&p->table, at, h);
    return (Rx)p->table.n - 1;
}

/* The ALT or AND of scratch[from..n_scratch), which it takes off. */
static Rx make_list(RxPool *p, RxKind kind, size_t from) {
    const Rx zero = kind == RX_KIND_ALT ? RX_ALL : RX_NONE; /* the operand that is the result by itself */
    const Rx unit = kind == RX_KIND_ALT ? RX_NONE : RX_ALL; /* the operand that changes nothing */
    if (p->status == RP_OK) merge_sets(p, kind, from);
    if (p->status != RP_OK) {
        p->n_scratch = from;
        return RX_NONE;
    }
    Rx    *list = p->scratch + from;
    size_t n = p->n_scratch - from, kept = 0;
    if (n == 2 && list[0] > list[1]) {
        const Rx swap = list[0];
        list[0] = list[1], list[1] = swap;
    } else if (n > 2) {
        qsort(list, n, sizeof *list, by_number);
    }
    p->n_scratch = from;
    for (size_t i = 0; i < n; i++) {
        if (list[i] == zero) return zero;
        if (list[i] != unit && (kept == 0 || list[kept - 1] != list[i])) list[kept++] = list[i];
    }
    if (kept == 0) return unit;
    if (kept == 1) return list[0];
    /* the empty text adds nothing to what has it already */
    if (kind == RX_KIND_ALT && list[0] == RX_EMPTY_TEXT)
        for (size_t i = 1; i < kept; i++)
            if (p->nodes[list[i]].nullable) return kept == 2 ? list[1] : intern_list(p, kind, list + 1, kept - 1);
    return intern_list(p, kind, list, kept);
}

Rx rp_rx_alt(RxPool *p, const Rx *list, size_t n) {
    const size_t from = p->n_scratch;
    for (size_t i = 0; i < n && p->status == RP_OK; i++) flatten(p, RX_KIND_ALT, list[i]);
    return make_list(p, RX_KIND_ALT, from);
}

Rx rp_rx_alt2(RxPool *p, Rx a, Rx b) {
    if (a == b || b == RX_NONE) return a;
    if (a == RX_NONE) return b;
    const Rx list[2] = {a, b};
    return rp_rx_alt(p, list, 2);
}

Rx rp_rx_and(RxPool *p, Rx a, Rx b) {
    if (p->status != RP_OK || a == RX_NONE || b == RX_NONE) return RX_NONE;
    if (a == b) return a;
    const size_t from = p->n_scratch;
    flatten(p, RX_KIND_AND, a);
    if (p->status == RP_OK) flatten(p, RX_KIND_AND, b);
    return make_list(p, RX_KIND_AND, from);
}

Rx rp_rx_not(RxPool *p, Rx a) {
    if (p->status != RP_OK) return RX_NONE;
    const RxNode x = p->nodes[a];
    if (a == RX_NONE) return RX_ALL;
    if (x.kind == RX_KIND_NOT) return x.a;
    return rp_rx_intern(p, (RxNode){.kind       = RX_KIND_NOT,
                                    .nullable   = !x.nullable,
                                    .is_boolean = true,
                                    .depth      = (uint16_t)(x.depth + 1),
                                    .a          = a});
}

Rx rp_rx_except(RxPool *p, Rx a, Rx b) { return b == RX_NONE ? a : rp_rx_and(p, a, rp_rx_not(p, b)); }

Rx rp_rx_repeat(RxPool *p, Rx a, uint32_t lo, uint32_t hi) {
    if (p->status != RP_OK) return RX_NONE;
    const RxNode x = p->nodes[a];
    if (x.nullable && lo <= hi) lo = 0; /* the missing repetitions are empty */
    if (lo > hi) return RX_NONE;
    if (hi == 0 || a == RX_EMPTY_TEXT) return RX_EMPTY_TEXT;
    if (a == RX_NONE) return lo == 0 ? RX_EMPTY_TEXT : RX_NONE;
    if (lo == 1 && hi == 1) return a;
    if (x.nullable && hi == 1) return a;
    if (x.kind == RX_KIND_REPEAT && x.lo == 0 && x.hi == RX_NO_LIMIT) return a;
    return rp_rx_intern(p, (RxNode){.kind       = RX_KIND_REPEAT,
                                    .nullable   = lo == 0,
                                    .is_boolean = x.is_boolean,
                                    .is_finite  = x.is_finite && hi != RX_NO_LIMIT,
                                    .depth      = (uint16_t)(x.depth + 1),
                                    .a          = a,
                                    .lo         = lo,
                                    .hi         = hi});
}

Rx rp_rx_multiple(RxPool *p, uint32_t divisor, uint32_t decimals) {
    for (unsigned b = '0'; b <= '9'; b++) (void)rp_rx_byte(p, (unsigned char)b); /* classes tell digits apart */
    (void)rp_rx_byte(p, '.');
    (void)rp_rx_byte(p, '-');
    return rp_rx_intern(
        p, (RxNode){.kind = RX_KIND_MULTIPLE, .nullable = true, .is_boolean = true, .lo = divisor, .hi = decimals});
}

Rx rp_rx_not_empty(RxPool *p, Rx e) {
    if (p->status != RP_OK) return RX_NONE;
    const RxNode x = p->nodes[e];
    if (!x.nullable) return e;
    if (x.kind == RX_KIND_REPEAT && !p->nodes[x.a].nullable) return rp_rx_repeat(p, x.a, 1, x.hi);
    return rp_rx_except(p, e, RX_EMPTY_TEXT);
}
