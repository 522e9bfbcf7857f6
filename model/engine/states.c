/* Slots of recurrent states (states.h). */
#include "model/engine/states.h"

#include <stdlib.h>

static void give(void *user, int32_t slot) { rp_states_give(user, slot); }

RpStatus rp_states_init(States *s, int32_t n, Blocks *b) {
    *s = (States){.n = n, .n_free = n};
    if (n == 0) return RP_OK;
    s->starts = calloc((size_t)n, sizeof *s->starts);
    s->used   = calloc((size_t)n, sizeof *s->used);
    s->free   = malloc((size_t)n * sizeof *s->free);
    if (s->starts == NULL || s->used == NULL || s->free == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for the %d states of an engine", n);
    for (int32_t i = 0; i < n; i++) s->free[i] = n - 1 - i;
    b->drop_state = give;
    b->states     = s;
    return RP_OK;
}

void rp_states_free(States *s) {
    free(s->starts);
    free(s->used);
    free(s->free);
    *s = (States){0};
}

void rp_states_give(States *s, int32_t slot) {
    if (slot != STATE_NONE) s->free[s->n_free++] = slot;
}

/* The block whose state was used the longest time ago, if more than `least` have one. */
static int32_t oldest_with_state(const States *s, const Blocks *b, int32_t least) {
    int32_t oldest = BLOCK_NONE, n = 0;
    for (int32_t i = 0; i < b->n; i++) {
        const int32_t slot = b->all[i].state;
        if (slot == STATE_NONE) continue;
        n++;
        if (s->starts[slot] == 0 && (oldest == BLOCK_NONE || s->used[slot] < s->used[b->all[oldest].state])) oldest = i;
    }
    return n > least ? oldest : BLOCK_NONE;
}

int32_t rp_states_take(States *s, Blocks *b, int32_t least) {
    if (s->n_free == 0) {
        const int32_t block = oldest_with_state(s, b, least);
        if (block == BLOCK_NONE) return STATE_NONE;
        rp_states_give(s, b->all[block].state);
        b->all[block].state = STATE_NONE;
    }
    return s->free[--s->n_free];
}

int32_t rp_states_reach(const States *s, const Blocks *b, const int32_t *path, int32_t n) {
    while (s->n > 0 && n > 0 && b->all[path[n - 1]].state == STATE_NONE) n--;
    return n;
}

void rp_states_start(States *s, int32_t slot) {
    s->starts[slot]++;
    s->used[slot] = ++s->clock;
}

void rp_states_keep(States *s, Blocks *b, int32_t block, int32_t slot) {
    if (b->all[block].state == STATE_NONE)
        b->all[block].state = slot;
    else
        rp_states_give(s, slot);
    s->used[b->all[block].state] = ++s->clock;
}
