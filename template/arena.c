/* Memory of one rendering (arena.h). */
#include "template/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 };

typedef struct TplBlock {
    struct TplBlock *next;
    size_t           used, room;
    alignas(max_align_t) char bytes[];
} TplBlock;

void *rp_tpl_alloc(TplArena *a, size_t bytes) {
    const size_t align = alignof(max_align_t);
    if (bytes > a->limit - a->used || bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + align - 1) / align * align + (bytes == 0 ? align : 0);
    if (a->blocks == NULL || a->blocks->room - a->blocks->used < bytes) {
        const size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        TplBlock    *b    = malloc(sizeof *b + room);
        if (b == NULL) return NULL;
        *b = (TplBlock){.next = a->blocks, .room = room};
        if (bytes > BLOCK_BYTES / 4 && a->blocks != NULL) { /* keep filling the block that has room */
            b->next         = a->blocks->next;
            a->blocks->next = b;
            b->used         = bytes;
            a->used += bytes < a->limit - a->used ? bytes : a->limit - a->used;
            return memset(b->bytes, 0, bytes);
        }
        a->blocks = b;
    }
    char *p = a->blocks->bytes + a->blocks->used;
    a->blocks->used += bytes;
    a->used += bytes < a->limit - a->used ? bytes : a->limit - a->used;
    return memset(p, 0, bytes);
}

RpStatus rp_tpl_no_memory(const TplArena *a) {
    return rp_fail(RP_E_NOMEM, "out of memory for a template (%zu of at most %zu bytes are in use)", a->used, a->limit);
}

void rp_tpl_arena_free(TplArena *a) {
    while (a->blocks != NULL) {
        TplBlock *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    a->used = 0;
}
