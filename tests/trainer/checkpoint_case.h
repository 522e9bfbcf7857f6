/* checkpoint_case.h - the model and the options of the files in tests/golden/checkpoints. */
#ifndef TESTS_TRAINER_CHECKPOINT_CASE_H
#define TESTS_TRAINER_CHECKPOINT_CASE_H

#include "tests/trainer/checksums.h"
#include "tests/trainer/training.h"

#define FILES GOLDEN_DIR "checkpoints/"

static const RpTrainOptions whole = {
    .batch = 2, .seq = 8, .lr = 1e-3f, .beta2 = 0.95f, .weight_decay = 0.1f, .aux_loss = 0.01f, .n_threads = 2};

/* With an adapter that is resumed. */
static inline RpTrainOptions lora(const char *adapter) {
    RpTrainOptions o = whole;
    o.lora_rank = 2, o.lora_alpha = 3.0f, o.adapter = adapter;
    return o;
}

static inline RpModel *open_base(void) {
    RpModel *m;
    OK(rp_model_open(FILES "base.gguf", NULL, &m));
    return m;
}

static inline void close_both(RpTrainer *t, RpModel *m) {
    rp_trainer_free(t);
    rp_model_free(m);
}

#endif
