/* arena.h - memory of one rendering: blocks that grow, freed together. The sum is bounded. */
#ifndef TEMPLATE_ARENA_H
#define TEMPLATE_ARENA_H

#include "reprise/status.h"

#include <stddef.h>

/* Zero-initialise it; `limit` is the most bytes it hands out. */
typedef struct TplArena {
    struct TplBlock *blocks; /* the first one is being filled */
    size_t           used, limit;
} TplArena;

/* `bytes` zeroed bytes, aligned for every type; NULL: out of memory, or above the limit. */
void    *rp_tpl_alloc(TplArena *a, size_t bytes);
RpStatus rp_tpl_no_memory(const TplArena *a); /* RP_E_NOMEM, with the reason why rp_tpl_alloc gave NULL */
void     rp_tpl_arena_free(TplArena *a);

/* Sets `pointer` to zeroed memory for n elements, or returns from the calling function with an error. */
#define TPL_NEW(pointer, arena, n)                                                                                     \
    do {                                                                                                               \
        (pointer) = rp_tpl_alloc((arena), (size_t)(n) * sizeof *(pointer));                                            \
        if ((pointer) == NULL) return rp_tpl_no_memory(arena);                                                         \
    } while (0)

#endif
