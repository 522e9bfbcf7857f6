/* Fuzz target: a damaged checkpoint is resumed and makes a step. Bytes of the input as in file_edit.h; the options are
 *     0 the training   1 bit 0: change_options, bit 1: recompute, bit 2: two micro-batches, bits 3-5: another option
 *     2 first token
 * A checkpoint may be refused. After a step that succeeds the next checkpoint resumes; after one that fails the loss is
 * that before it, unless the error says that the weights are lost. */
#include "tests/fuzz/file_edit.h"

#include "reprise/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed);
}

enum { BATCH = 1, SEQ = 4, MAX_ACCUMULATE = 2 };

/* A training, and its checkpoint after the first step. */
typedef struct Training {
    const char *model;
    int32_t     lora_rank;
    RpDtype     compute;
    RpGgufFile *checkpoint;
} Training;

/* clang-format off */
static Training trainings[] = {
    {.model = "llama-f32"},
    {.model = "llama-q4_0", .lora_rank = 2},
    {.model = "mixtral-f32"},
    {.model = "llama-f32", .compute = RP_BF16},
    {.model = "llama-f32", .lora_rank = 1},
};
/* clang-format on */

enum { N_TRAININGS = sizeof trainings / sizeof trainings[0] };

static RpTrainOptions options_of(const Training *t) {
    return (RpTrainOptions){.batch     = BATCH,
                            .seq       = SEQ,
                            .lr        = 1e-2f,
                            .n_threads = 1,
                            .device    = "cpu",
                            .lora_rank = t->lora_rank,
                            .compute   = t->compute};
}

static RpModel *open_model(const Training *t) {
    char     path[1024];
    RpModel *m;
    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/tiny/%s.gguf", t->model);
    fuzz_expect(rp_model_open(path, NULL, &m) == RP_OK, "the model");
    return m;
}

static const int32_t *tokens(int first, int32_t n_vocab) {
    static int32_t ids[MAX_ACCUMULATE * BATCH * (SEQ + 1)];
    for (int i = 0; i < MAX_ACCUMULATE * BATCH * (SEQ + 1); i++) ids[i] = (first + i * 7) % n_vocab;
    return ids;
}

/* Makes the checkpoints from which inputs start. */
static void begin(Training *t) {
    const RpTrainOptions o = options_of(t);
    RpModel             *m = open_model(t);
    RpTrainer           *trainer;
    char                 path[64];
    fuzz_path(path, "begin.gguf");
    fuzz_expect(rp_trainer_open(m, &o, &trainer) == RP_OK, "the trainer");
    fuzz_expect(rp_trainer_step(trainer, tokens(1, rp_model_info(m)->n_vocab), NULL) == RP_OK, "the first step");
    fuzz_expect(rp_trainer_save(trainer, path) == RP_OK, "the first checkpoint");
    fuzz_expect(rp_gguf_open(path, &t->checkpoint) == RP_OK, "it does not open");
    unlink(path); /* it stays mapped */
    rp_trainer_free(trainer);
    rp_model_free(m);
}

/* Opens the trainer of a checkpoint; RP_OK or why not. The model is to be freed after it. */
static RpStatus resume(const Training *t, const char *path, RpTrainOptions *o, RpModel **m, RpTrainer **trainer) {
    RpStatus st = RP_OK;
    *trainer    = NULL;
    *m          = NULL;
    if (t->lora_rank > 0) {
        *m         = open_model(t);
        o->adapter = path;
    } else {
        st                   = rp_model_open(path, NULL, m);
        const RpModelInfo *i = st == RP_OK ? rp_model_info(*m) : NULL;
        if (i != NULL &&
            (i->n_layer > 8 || i->n_vocab > 1024 || i->n_embd > 1024 || i->n_ff > 2048 || i->n_expert > 64))
            return RP_E_UNSUPPORTED; /* takes too long */
    }
    return st != RP_OK ? st : rp_trainer_open(*m, o, trainer);
}

static void free_both(RpTrainer *trainer, RpModel *m) {
    rp_trainer_free(trainer);
    rp_model_free(m);
}

static double loss_of(RpTrainer *trainer, const int32_t *ids) {
    double loss = 0.0;
    fuzz_expect(rp_trainer_evaluate(trainer, ids, 1, &loss) == RP_OK, "the loss");
    return loss;
}

/* A saved checkpoint can be resumed. */
static void check_save(const Training *t, RpTrainer *trainer, RpTrainOptions o) {
    char       path[64];
    RpModel   *m;
    RpTrainer *again;
    fuzz_path(path, "saved.gguf");
    if (rp_trainer_save(trainer, path) == RP_OK) {
        fuzz_expect(resume(t, path, &o, &m, &again) == RP_OK, "a checkpoint that was written cannot be resumed");
        fuzz_expect(rp_trainer_n_steps(again) == rp_trainer_n_steps(trainer), "its step");
        free_both(again, m);
        unlink(path);
    }
    fuzz_expect(access(path, F_OK) != 0, "a file is left behind after a failure");
}

static void step(const Training *t, RpTrainer *trainer, const RpModel *m, const RpTrainOptions *o, uint8_t first) {
    const int32_t *ids    = tokens(first, rp_model_info(m)->n_vocab);
    const double   before = loss_of(trainer, ids);
    const int64_t  n      = rp_trainer_n_steps(trainer);
    RpTrainResult  r;
    if (rp_trainer_step(trainer, ids, &r) == RP_OK) {
        fuzz_expect(isfinite(r.loss) && isfinite(r.grad_norm) && r.step == n + 1, "the result of a step");
        check_save(t, trainer, *o);
        return;
    }
    fuzz_expect(rp_trainer_n_steps(trainer) == n, "a step that failed counts");
    if (strstr(rp_last_error(), "are lost") != NULL) return;
    const double after = loss_of(trainer, ids);
    fuzz_expect(memcmp(&before, &after, sizeof after) == 0 || (isnan(before) && isnan(after)),
                "a step that failed changed the weights");
}

static RpTrainOptions changed(RpTrainOptions o, uint8_t how) {
    o.change_options = (how & 1) != 0;
    o.recompute      = (how & 2) != 0;
    o.accumulate     = (how & 4) != 0 ? MAX_ACCUMULATE : 0;
    if ((how >> 3) % 8 == 1) o.lr = 1e-3f;
    if ((how >> 3) % 8 == 2) o.weight_decay = 0.1f;
    if ((how >> 3) % 8 == 3) o.schedule = RP_TRAIN_COSINE, o.n_steps = 9;
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t    head[FUZZ_HEAD] = {0};
    char       path[64];
    FuzzFile   f;
    RpModel   *m;
    RpTrainer *trainer;
    memcpy(head, data, size < FUZZ_HEAD ? size : FUZZ_HEAD);
    setenv("REPRISE_PREFETCH", "none", 1), setenv("REPRISE_SPIN_US", "0", 1);
    Training *t = &trainings[head[0] % N_TRAININGS];
    if (t->checkpoint == NULL) begin(t);
    fuzz_path(path, "checkpoint.gguf");
    fuzz_file_make_from(&f, t->checkpoint, data, size);
    if (f.n <= FUZZ_MAX_BYTES) {
        RpTrainOptions o = changed(options_of(t), head[1]);
        fuzz_save(path, f.bytes, f.n);
        const RpStatus st = resume(t, path, &o, &m, &trainer);
        unlink(path);
        if (st == RP_OK) step(t, trainer, m, &o, head[2]);
        free_both(trainer, m);
    }
    fuzz_file_free(&f);
    return 0;
}
