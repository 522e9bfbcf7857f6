/* The states of a trainer in checkpoints that are read or written: the values that they may have, and their sources. */
#include "train/trainer.h"

#include <math.h>

const RpGgufFile *rp_trainer_origin(const RpTrainer *t) { return t->adapter == NULL ? t->model->file : t->origin; }

const char *rp_trainer_prefix(TrainState state) {
    static const char *const prefixes[] = {
        [STATE_WEIGHT] = "", [STATE_MEAN] = "train.m.", [STATE_SQUARES] = "train.v."};
    return prefixes[state];
}

int64_t rp_trainer_not_finite(const float *x, int64_t n) {
    int64_t i = 0;
    while (i < n && isfinite(x[i])) i++;
    return i;
}

static int64_t first_negative(const float *x, int64_t n) {
    int64_t i = 0;
    while (i < n && x[i] >= 0.0f) i++;
    return i;
}

RpStatus rp_trainer_check_state(const char *path, const TrainParam *p, TrainState state, const float *x,
                                RpStatus status) {
    int64_t     bad  = rp_trainer_not_finite(x, p->n);
    const char *want = "";
    if (bad == p->n && state == STATE_SQUARES) bad = first_negative(x, p->n), want = ": a mean of squares is 0 or more";
    if (bad == p->n) return RP_OK;
    return rp_fail(status, "%s: tensor %s%s has %g at element %lld%s", path, rp_trainer_prefix(state), p->name,
                   (double)x[bad], (long long)bad, want);
}

RpStatus rp_trainer_sum_base(RpTrainer *t) {
    return t->base_sums == NULL ? rp_adapter_sum_base(t->model, &t->base_sums) : RP_OK;
}
