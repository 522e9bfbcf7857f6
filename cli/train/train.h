/* train.h - the parts of `reprise train`: texts as tokens (corpus.c), the sequences of a step (sequences.c), the
 * model with which it begins (start.c), the log (log.c) and the loop (loop.c). */
#ifndef CLI_TRAIN_TRAIN_H
#define CLI_TRAIN_TRAIN_H

#include "cli/common.h"

#include "reprise/train.h"

typedef struct TrainArgs {
    const char *compute, *model, *preset, *tokens, *tokenizer, *separator, *output, *type, *checkpoint, *resume, *log;
    TextList    texts;
    int32_t     steps, batch, seq, warmup, accumulate, vocab, eval_every, checkpoint_every, token_bytes, threads;
    int32_t     lora_rank;
    float       lora_alpha, minutes, lr, lr_end, weight_decay, max_norm, aux_loss, beta1, beta2, hold_out;
    uint64_t    seed;
    bool        constant, change_options, recompute, quiet;
    DeviceArgs  device;
} TrainArgs;

/* ---- corpus.c ---- */

/* Texts cut into documents, then tokens, of which a part is held out for validation. Zero-initialise. */
typedef struct Corpus {
    Text         *files;
    RpGgufString *documents; /* borrowed from files */
    size_t        n_files, n_documents, n_held, document_room;
    RpTokenList   train, held; /* train: all tokens until cli_corpus_split */
    size_t       *starts;      /* [n_starts], of documents in `train`, before the split */
    size_t        n_starts, start_room;
    bool          in_blocks; /* blocks of tokens are held out, not documents */
} Corpus;

void cli_corpus_free(Corpus *c);

/* Reads the files of --text and cuts them at `separator`; NULL: at blank lines; "": not at all. RP_E_ARG for a
 * file without a document. */
RP_NODISCARD RpStatus cli_corpus_read(Corpus *c, const TextList *paths, const char *separator);

/* One document of this number is held out; 0: none. */
size_t cli_corpus_period(float share);

/* The documents that are not held out, for the training of a tokenizer. The caller frees *out. */
RP_NODISCARD RpStatus cli_corpus_training_texts(const Corpus *c, float share, RpGgufString **out, size_t *n);

/* Appends the tokens of all documents, an end token after each. */
RP_NODISCARD RpStatus cli_corpus_tokenize(Corpus *c, const RpTokenizer *tk, bool quiet);

/* Reads a file of ids, little-endian integers of `bytes` bytes each. A document ends at the end token of `tk`,
 * which may be NULL. */
RP_NODISCARD RpStatus cli_corpus_read_tokens(Corpus *c, const char *path, int32_t bytes, int32_t n_vocab,
                                             const RpTokenizer *tk);

/* Holds out every 1/share-th document, or sequence where there are too few. RP_E_ARG if no sequence of seq + 1
 * tokens is left. */
RP_NODISCARD RpStatus cli_corpus_split(Corpus *c, float share, int32_t seq);

/* ---- sequences.c ---- */

/* The sequences of a step: places at random in the tokens, a pure function of seed and step. ids [n][seq + 1];
 * places[n] may be NULL. */
void cli_train_sequences(const RpTokenList *tokens, int32_t seq, uint64_t seed, int64_t step, size_t n, int32_t *ids,
                         size_t *places);

/* ---- start.c ---- */

/* Opens the model with which the training begins, and reads the corpus. */
RP_NODISCARD RpStatus cli_train_start(const TrainArgs *a, RpModel **m, Corpus *c);

/* Fails if no file can be written to the path. */
RP_NODISCARD RpStatus cli_train_try_output(const char *path);

/* After --resume failed with `st`: names the checkpoint before it, FILE.1 (docs/training.md), if there is one. Returns
 * `st`. */
RP_NODISCARD RpStatus cli_train_resume_failed(const TrainArgs *a, RpStatus st);

/* ---- log.c ---- */

typedef struct TrainLog {
    FILE       *f; /* NULL: no log */
    const char *path;
    bool        validated; /* it has the validation after the last step before a resume */
} TrainLog;

/* The results of a step. */
typedef struct StepReport {
    RpTrainResult result;
    double        tokens_per_s, balance; /* balance: largest load of an expert, times their number; 0: no experts */
} StepReport;

/* RP_E_ARG for a regular file that neither is empty nor begins as a log: it would be lost. RP_OK if there is no file,
 * or for NULL. */
RP_NODISCARD RpStatus cli_train_log_check(const char *path);

/* Opens the log of a run that begins after step `n`. Lines of later steps, which a resumed run makes again, are
 * removed; at n = 0 all lines are. Errors as cli_train_log_check. */
RP_NODISCARD RpStatus cli_train_log_open(TrainLog *log, const char *path, int64_t n);
RP_NODISCARD RpStatus cli_train_log_step(TrainLog *log, const StepReport *r, const RpTrainer *t, const RpModelInfo *m);
RP_NODISCARD RpStatus cli_train_log_validation(TrainLog *log, int64_t step, double loss, size_t n_sequences);

/* Writes the log to the disk (fsync). Call it before writing a checkpoint, so that the log has the lines of all its
 * steps. Closing does it too. */
RP_NODISCARD RpStatus cli_train_log_sync(TrainLog *log);
RP_NODISCARD RpStatus cli_train_log_close(TrainLog *log, RpStatus status);

/* ---- loop.c ---- */

RP_NODISCARD RpStatus cli_train_loop(const TrainArgs *a, const RpModel *m, RpTrainer *t, const Corpus *c);

#endif
