/* states.h - the slots of an engine's recurrent states. A slot is free, or held: by a running request, for the state
 * after its latest token, or by a published block, for the state after that block. When a slot is needed and none is
 * free, the block with the least recently used state (kept or started from) gives up its slot. A block keeps its slot
 * while a request that found it has still to start from it. */
#ifndef MODEL_ENGINE_STATES_H
#define MODEL_ENGINE_STATES_H

#include "model/engine/blocks.h"

typedef struct States {
    int32_t   n;      /* 0: the model has no recurrent state */
    int32_t  *starts; /* [n]: requests that have still to start from a slot */
    uint64_t *used;   /* [n]: the larger, the later it was kept or started from */
    int32_t  *free;   /* [n_free] */
    int32_t   n_free;
    uint64_t  clock;
} States;

/* n slots. RP_E_NOMEM; call rp_states_free also after a failure. Blocks that are dropped give their slots back. */
RP_NODISCARD RpStatus rp_states_init(States *s, int32_t n, Blocks *b);
void                  rp_states_free(States *s);

/* Takes a slot; STATE_NONE: no slot is free, and no block can give up its slot, because `least` blocks keep theirs. */
int32_t rp_states_take(States *s, Blocks *b, int32_t least);
void    rp_states_give(States *s, int32_t slot); /* STATE_NONE is allowed */

/* How many of the first n blocks of a path a request can begin behind: all, or with recurrent states those up to the
 * last one that has a state. */
int32_t rp_states_reach(const States *s, const Blocks *b, const int32_t *path, int32_t n);

/* A request starts from the slot of a block. */
void rp_states_start(States *s, int32_t slot);

/* Attaches the state in `slot` to a published block. If the block already has a state, which is of the same tokens,
 * that is kept. */
void rp_states_keep(States *s, Blocks *b, int32_t block, int32_t slot);

#endif
