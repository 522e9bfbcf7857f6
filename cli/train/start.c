/* The model with which a training begins: a checkpoint, a model file, or a preset with a trained or copied
 * tokenizer. Files that are needed only to open the model are written beside the output and lose their names when it
 * is open. */
#include "cli/convert.h"
#include "cli/train/train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };

/* Opens a new file for the path and drops it again. A device or a pipe is refused, as it cannot be replaced as a
 * whole. */
RpStatus cli_train_try_output(const char *path) {
    RpNewFile *file;
    cli_clean_output(path);
    RP_TRY(rp_new_file_open(path, &file));
    const bool in_place = rp_new_file_in_place(file);
    (void)!rp_new_file_close(file, RP_E_CANCELLED);
    return in_place ? rp_fail(RP_E_ARG, "%s is not a regular file", path) : RP_OK;
}

/* Trains a tokenizer on the texts that are not held out, and writes it to `path`. */
static RpStatus train_tokenizer(const TrainArgs *a, const Corpus *c, int32_t n_vocab, const char *path) {
    RpGgufString                 *texts;
    size_t                        n;
    Progress                      p = {.label = "tokenizer", .off = a->quiet};
    const RpTrainTokenizerOptions o = {.n_vocab = n_vocab, .progress = cli_convert_progress, .user = &p};
    RP_TRY(cli_corpus_training_texts(c, a->hold_out, &texts, &n));
    const RpStatus st = rp_train_tokenizer(texts, n, &o, path);
    cli_progress_end(&p);
    free(texts);
    return st;
}

/* Writes a model of random weights for the preset, with the tokenizer of the file `tokenizer`. */
static RpStatus write_model(const TrainArgs *a, const char *tokenizer, const char *path) {
    Progress                 p = {.label = a->preset, .off = a->quiet};
    const RpTrainInitOptions o = {
        .tokenizer = tokenizer, .seed = a->seed, .progress = cli_convert_progress, .user = &p};
    const RpStatus st = rp_train_init(a->preset, &o, path);
    cli_progress_end(&p);
    return st;
}

/* Size of the vocabulary of a preset, which is opened without weights. */
static RpStatus preset_vocabulary(const char *preset, int32_t *n) {
    RpModel *m;
    RP_TRY(rp_model_open_preset(preset, "F16", &m));
    *n = rp_model_info(m)->n_vocab;
    rp_model_free(m);
    return RP_OK;
}

static RpStatus open_preset(const TrainArgs *a, const Corpus *c, const char *tokenizer, const char *path, RpModel **m) {
    int32_t n_vocab = a->vocab;
    if (n_vocab == 0) RP_TRY(preset_vocabulary(a->preset, &n_vocab));
    if (tokenizer != NULL) RP_TRY(train_tokenizer(a, c, n_vocab, tokenizer));
    RP_TRY(write_model(a, tokenizer != NULL ? tokenizer : a->tokenizer, path));
    return cli_open_model(path, &a->device, a->quiet, m);
}

/* A tokenizer is trained if there are texts and none is given. */
static RpStatus start_preset(const TrainArgs *a, const Corpus *c, RpModel **m) {
    RpNewFile *output; /* its temporary file gives names to the others */
    char       tokenizer[MAX_PATH], model[MAX_PATH];
    RP_TRY(rp_new_file_open(a->output, &output));
    const char *name = rp_new_file_temporary(output);
    RpStatus    st   = RP_OK;
    if (snprintf(tokenizer, MAX_PATH, "%s.tokenizer", name) >= MAX_PATH)
        st = rp_fail(RP_E_ARG, "a path of %zu bytes is too long for the files beside it: %s", strlen(name), name);
    snprintf(model, MAX_PATH, "%s.model", name);
    if (st == RP_OK) st = open_preset(a, c, a->texts.n > 0 && a->tokenizer == NULL ? tokenizer : NULL, model, m);
    (void)unlink(model); /* the mapping keeps the contents */
    (void)unlink(tokenizer);
    (void)!rp_new_file_close(output, RP_E_CANCELLED);
    return st;
}

RpStatus cli_train_resume_failed(const TrainArgs *a, RpStatus st) {
    char kept[MAX_PATH];
    if ((st != RP_E_IO && st != RP_E_FORMAT) || snprintf(kept, sizeof kept, "%s.1", a->resume) >= MAX_PATH ||
        access(kept, R_OK) != 0)
        return st;
    return rp_fail(st, "%s; the checkpoint before it is %s: go on from it with --resume", rp_last_error(), kept);
}

/* Opens a checkpoint. A model file without the number of its step is none, and is refused. */
static RpStatus resume(const TrainArgs *a, RpModel **m) {
    const RpStatus st = cli_open_model(a->resume, &a->device, a->quiet, m);
    if (st != RP_OK) return cli_train_resume_failed(a, st);
    if (rp_gguf_find(rp_model_file(*m), "train.step") != NULL) return RP_OK;
    return rp_fail(RP_E_ARG, "%s is not a checkpoint (train.step is absent): train it with -m", a->resume);
}

RpStatus cli_train_start(const TrainArgs *a, RpModel **m, Corpus *c) {
    if (a->texts.n > 0) RP_TRY(cli_corpus_read(c, &a->texts, a->separator));
    if (a->resume != NULL && a->lora_rank == 0)
        RP_TRY(resume(a, m));
    else if (a->preset != NULL)
        RP_TRY(start_preset(a, c, m));
    else
        RP_TRY(cli_open_model(a->model, &a->device, a->quiet, m));
    const RpTokenizer *tk = rp_model_tokenizer(*m);
    if (a->tokens != NULL)
        RP_TRY(cli_corpus_read_tokens(c, a->tokens, a->token_bytes, rp_model_info(*m)->n_vocab, tk));
    else {
        RP_TRY(cli_need_tokenizer(*m, a->resume != NULL ? a->resume : a->model));
        RP_TRY(cli_corpus_tokenize(c, tk, a->quiet));
    }
    return RP_OK;
}
