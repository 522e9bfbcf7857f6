/* The conditions that recurrent ops share (slots.h). */
#include "ops/recurrent/slots.h"

bool rp_is_rows(const RpTensorView *v, int64_t n, int64_t rows, int64_t t) {
    return v->dtype == RP_F32 && v->nb[0] == sizeof(float) && v->ne[0] == n && v->ne[1] == rows && v->ne[2] == t &&
           v->ne[3] == 1;
}

bool rp_is_vector(const RpTensorView *v, int64_t n) {
    return v->dtype == RP_F32 && rp_view_elems(v) == n && rp_view_is_contiguous(v);
}

const char *rp_slots_problem(const RpTensorView *state, const RpTensorView *slots, const RpTensorView *starts,
                             int64_t n, int64_t t) {
    if (state->dtype != RP_F32 || state->ne[0] != n || rp_view_rows(state) != state->ne[1])
        return "the state must be an f32 matrix, a row for each slot";
    if (state->nb[0] != sizeof(float)) return "the rows of the state must be contiguous";
    if (slots->dtype != RP_I32 || slots->ne[0] != t + 1 || rp_view_rows(slots) != 1)
        return "slots must be i32, one before the first token and one for each token";
    if (starts != NULL && (starts->dtype != RP_I32 || starts->ne[0] != t || rp_view_rows(starts) != 1))
        return "starts must be i32, one for each token";
    return NULL;
}
