/* slots.h - what the checks of recurrent ops share. Their state is a matrix with one row, a slot, for each position
 * whose state is kept. The source slots, i32 [1+t], says which are used (ops/private.h). */
#ifndef OPS_RECURRENT_SLOTS_H
#define OPS_RECURRENT_SLOTS_H

#include "ops/op.h"

/* f32 [n,rows,t] with contiguous rows. */
bool rp_is_rows(const RpTensorView *v, int64_t n, int64_t rows, int64_t t);

/* n contiguous f32, of any shape. */
bool rp_is_vector(const RpTensorView *v, int64_t n);

/* NULL, or what must be: a state f32 [n,slots] with contiguous rows, slots for t tokens, and starts, if not NULL. */
const char *rp_slots_problem(const RpTensorView *state, const RpTensorView *slots, const RpTensorView *starts,
                             int64_t n, int64_t t);

#endif
