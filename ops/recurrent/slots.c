/* The state of recurrent ops (slots.h). */
#include "ops/recurrent/slots.h"

const char *rp_slots_problem(const RpTensorView *state, const RpTensorView *slots, int64_t n, int64_t t) {
    if (state->dtype != RP_F32 || state->ne[0] != n || rp_view_rows(state) != state->ne[1])
        return "the state must be an f32 matrix, a row for each slot";
    if (state->nb[0] != sizeof(float)) return "the rows of the state must be contiguous";
    if (slots->dtype != RP_I32 || slots->ne[0] != t + 1 || rp_view_rows(slots) != 1)
        return "slots must be i32, one before the first token and one for each token";
    return NULL;
}
