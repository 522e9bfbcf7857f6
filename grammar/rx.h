/* rx.h - regular expressions over bytes, as hash-consed nodes with derivatives (Brzozowski, JACM 1964; Owens, Reppy,
 * Turon, JFP 2009). Equal expressions have equal numbers, so a derivative is computed once for each node and class of
 * bytes. Intersection, complement and counted repetition cost nothing until a text reaches them.
 *
 *     derivative of e by byte b:  { w : b w in L(e) }
 *     a text is in L(e) if the derivative by all of its bytes is nullable
 */
#ifndef GRAMMAR_RX_H
#define GRAMMAR_RX_H

#include "grammar/grow.h"

#include <stdbool.h>

typedef uint32_t Rx;

enum { RX_NONE = 0, RX_EMPTY_TEXT = 1, RX_ALL = 2, RX_FIRST = 2 }; /* no text; the empty text; every text */

static const uint32_t RX_NO_LIMIT = UINT32_MAX;

typedef enum RxKind {
    RX_KIND_NONE,
    RX_KIND_EMPTY_TEXT,
    RX_KIND_SET,     /* a byte of sets[a] */
    RX_KIND_CAT,     /* a, then b */
    RX_KIND_ALT,     /* one of lists[a .. a+b) */
    RX_KIND_AND,     /* all of lists[a .. a+b) */
    RX_KIND_NOT,     /* any text that is not in a */
    RX_KIND_REPEAT,  /* a, from lo to hi times */
    RX_KIND_MULTIPLE /* the rest of a decimal number whose value is a multiple of lo * 10^-hi; a: the remainder so far,
                        b: 0 before the point, else 1 + fraction digits read */
} RxKind;

typedef struct RxNode {
    uint8_t  kind;
    bool     nullable;
    bool     is_boolean; /* contains AND, NOT or MULTIPLE: may have no text without being RX_NONE */
    bool     any_char;   /* contains every safe character of a JSON string (vocab.h) as one whole text */
    bool     is_finite;  /* has finitely many texts */
    uint8_t  alive;      /* of is_boolean: 0 not known, 1 has a text, 2 has none */
    uint16_t depth;      /* bounds the recursion of derivatives */
    uint32_t a, b, lo, hi;
} RxNode;

typedef struct ByteSet {
    uint64_t bits[4];
} ByteSet;

/* All expressions of a grammar. `status` is the first error: from then on every function gives RX_NONE. */
typedef struct RxPool {
    RpStatus   status;
    RxNode    *nodes;
    size_t     room;
    IndexTable table; /* of nodes; its n is their number */
    ByteSet   *sets;
    size_t     n_sets, set_room;
    Rx        *lists;
    size_t     n_lists, list_room;
    Rx        *scratch; /* operands of the ALT or AND in the making */
    size_t     n_scratch, scratch_room;
    uint32_t  *memo; /* [memo_mask + 1][3]: node, class, derivative; a cache, overwritten on collisions */
    size_t     memo_mask;
    uint8_t    class_of[256];
    uint8_t    byte_of[256]; /* a byte of each class */
    int        n_classes;    /* one for each byte until rp_rx_classes */
} RxPool;

RP_NODISCARD RpStatus rp_rx_open(RxPool *p);
void                  rp_rx_close(RxPool *p);

Rx rp_rx_set(RxPool *p, const ByteSet *set);
Rx rp_rx_byte(RxPool *p, unsigned char byte);
Rx rp_rx_range(RxPool *p, unsigned lo, unsigned hi); /* one byte of lo..hi */
Rx rp_rx_text(RxPool *p, const char *text, size_t n);
Rx rp_rx_cat(RxPool *p, Rx a, Rx b);
Rx rp_rx_alt(RxPool *p, const Rx *list, size_t n);
Rx rp_rx_alt2(RxPool *p, Rx a, Rx b);
Rx rp_rx_and(RxPool *p, Rx a, Rx b);
Rx rp_rx_not(RxPool *p, Rx a);
Rx rp_rx_repeat(RxPool *p, Rx a, uint32_t lo, uint32_t hi);
Rx rp_rx_multiple(RxPool *p, uint32_t divisor, uint32_t decimals);
Rx rp_rx_except(RxPool *p, Rx a, Rx b); /* texts of a that are not in b */

Rx rp_rx_not_empty(RxPool *p, Rx e); /* texts of e but the empty one */

/* Fixes the classes of bytes that no expression tells apart. No set may be added afterwards. */
RP_NODISCARD RpStatus rp_rx_classes(RxPool *p);

/* Whether a text is in L(e), before the classes are fixed. */
bool rp_rx_match(RxPool *p, Rx e, const char *text, size_t n);

/* The derivative by a class of bytes. */
Rx rp_rx_derive(RxPool *p, Rx e, int class);

/* False if no text is in L(e). A search of at most a few thousand derivatives; true if it does not end before. */
bool rp_rx_alive(RxPool *p, Rx e);

/* The number of a node of which everything but the operands of a list is given. For makers. */
Rx rp_rx_intern(RxPool *p, RxNode n);

/* Says that e has every safe character of a JSON string. */
static inline void rp_rx_mark_any_char(RxPool *p, Rx e) {
    if (p->status == RP_OK) p->nodes[e].any_char = true;
}

static inline const RxNode *rp_rx_node(const RxPool *p, Rx e) { return &p->nodes[e]; }

#endif
