/* The options of a trainer in its checkpoints, as keys "train.<option>". A resume with other options would silently
 * give other bits, so it is refused unless RpTrainOptions.change_options is set.
 *
 * Options that cannot change a bit are not compared: n_steps and lr_end with a constant rate, warmup once it is
 * over, aux_loss without experts. A checkpoint without a key takes any value. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef enum OptionKind { WHOLE, NUMBER, SCHEDULE } OptionKind;

#define OPTION(name, kind)                                                                                             \
    { "train." #name, #name, kind, offsetof(RpTrainOptions, name) }

static const struct {
    const char *key, *name;
    OptionKind  kind;
    size_t      offset;
} options[] = {
    OPTION(batch, WHOLE),       OPTION(seq, WHOLE),       OPTION(accumulate, WHOLE),  OPTION(n_steps, WHOLE),
    OPTION(lr, NUMBER),         OPTION(lr_end, NUMBER),   OPTION(schedule, SCHEDULE), OPTION(warmup, WHOLE),
    OPTION(beta1, NUMBER),      OPTION(beta2, NUMBER),    OPTION(eps, NUMBER),        OPTION(weight_decay, NUMBER),
    OPTION(max_norm, NUMBER),   OPTION(aux_loss, NUMBER), OPTION(lora_rank, WHOLE),   OPTION(compute, WHOLE),
    OPTION(lora_alpha, NUMBER),
};

enum { N_OPTIONS = sizeof options / sizeof options[0] };

static const char seed_key[] = "train.seed"; /* decimal digits: it has 64 bits */

static double value_of(const RpTrainOptions *o, int i) {
    const char *at = (const char *)o + options[i].offset;
    int32_t     whole;
    float       number;
    memcpy(&whole, at, sizeof whole);
    memcpy(&number, at, sizeof number);
    return options[i].kind == NUMBER ? (double)number : (double)whole;
}

void rp_trainer_put_options(const RpTrainOptions *o, GgufWriter *w) {
    char seed[24];
    for (int i = 0; i < N_OPTIONS; i++) {
        const double value = value_of(o, i);
        if (options[i].kind == NUMBER)
            rp_gguf_put_f32(w, options[i].key, (float)value);
        else
            rp_gguf_put_u32(w, options[i].key, (uint32_t)value);
    }
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    rp_gguf_put_string(w, seed_key, seed);
}

/* The value in the checkpoint; without the key *value stays. */
static RpStatus read_option(const RpGgufFile *f, int i, double *value) {
    if (options[i].kind == NUMBER) {
        float number = (float)*value;
        RP_TRY(rp_gguf_get_f32(f, options[i].key, &number));
        *value = (double)number;
    } else {
        uint32_t whole = (uint32_t)*value;
        RP_TRY(rp_gguf_get_u32(f, options[i].key, &whole));
        *value = (double)whole;
    }
    return RP_OK;
}

static RpStatus refuse(const RpTrainer *t, const char *name, const char *now, const char *before) {
    return rp_fail(RP_E_ARG,
                   "%s: %s = %s, but the training before had %s = %s: resume with the same options, or set "
                   "change_options to go on with others",
                   rp_gguf_path(rp_trainer_origin(t)), name, now, name, before);
}

static void print_value(OptionKind kind, double value, char *buf, size_t size) {
    if (kind == SCHEDULE)
        snprintf(buf, size, "%s", value == (double)RP_TRAIN_COSINE ? "cosine" : "constant");
    else
        snprintf(buf, size, "%.9g", value);
}

/* Whether other values of an option give other bits from the next step on. */
static bool matters(const RpTrainer *t, int i, const double before[N_OPTIONS]) {
    bool constant = true;
    for (int k = 0; k < N_OPTIONS; k++)
        if (options[k].kind == SCHEDULE)
            constant = t->o.schedule == RP_TRAIN_CONSTANT && before[k] == (double)RP_TRAIN_CONSTANT;
    switch (options[i].offset) {
    case offsetof(RpTrainOptions, n_steps):
    case offsetof(RpTrainOptions, lr_end):
        return !constant;
    case offsetof(RpTrainOptions, warmup):
        return !constant || (double)t->step + 1.0 < fmax(before[i], (double)t->o.warmup);
    case offsetof(RpTrainOptions, aux_loss):
        return t->n_routed > 0;
    default:
        return true;
    }
}

static RpStatus compare_seed(const RpTrainer *t) {
    char         now[24], before[32];
    RpGgufString seed = {0};
    RP_TRY(rp_gguf_get_string(rp_trainer_origin(t), seed_key, &seed));
    snprintf(now, sizeof now, "%" PRIu64, t->o.seed);
    if (seed.ptr == NULL || (seed.len == strlen(now) && memcmp(seed.ptr, now, seed.len) == 0)) return RP_OK;
    snprintf(before, sizeof before, "%.*s", (int)(seed.len < 24 ? seed.len : 24), seed.ptr);
    return refuse(t, "seed", now, before);
}

RpStatus rp_trainer_compare_options(const RpTrainer *t) {
    double before[N_OPTIONS];
    if (t->o.change_options || rp_trainer_origin(t) == NULL) return RP_OK;
    for (int i = 0; i < N_OPTIONS; i++) {
        before[i] = value_of(&t->o, i);
        RP_TRY(read_option(rp_trainer_origin(t), i, &before[i]));
    }
    for (int i = 0; i < N_OPTIONS; i++) {
        char         was[32], is[32];
        const double now = value_of(&t->o, i);
        if (now == before[i] || !matters(t, i, before)) continue;
        print_value(options[i].kind, before[i], was, sizeof was);
        print_value(options[i].kind, now, is, sizeof is);
        return refuse(t, options[i].name, is, was);
    }
    return compare_seed(t);
}
