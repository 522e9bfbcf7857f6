/* states.h - the slots of an engine's recurrent states. A slot is free, or held: by a running request, for the state
 * after its latest token, or by a published block, for the state after that block. A block's slot is given up when one
 * is needed and none is free, unless a request that found it has still to start from it. */
#ifndef MODEL_ENGINE_STATES_H
#define MODEL_ENGINE_STATES_H

#include "model/engine/blocks.h"

typedef struct States {
    int32_t  n;      /* 0: the model has no recurrent state */
    int32_t *starts; /* [n]: requests that have still to start from a slot */
    int32_t *free;   /* [n_free] */
    int32_t  n_free;
} States;

/* n slots. RP_E_NOMEM; call rp_states_free also after a failure. Blocks that are dropped give their slots back. */
RP_NODISCARD RpStatus rp_states_init(States *s, int32_t n, Blocks *b);
void                  rp_states_free(States *s);

/* A slot; STATE_NONE: none is free, and none of a block can be given up. */
int32_t rp_states_take(States *s, Blocks *b);
void    rp_states_give(States *s, int32_t slot); /* STATE_NONE is allowed */

/* Puts the state in `slot` beside a published block. One of the same tokens may be there already: it stays. */
void rp_states_keep(States *s, Blocks *b, int32_t block, int32_t slot);

#endif
