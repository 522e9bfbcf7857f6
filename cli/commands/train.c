/* train.c - `reprise train`: trains a model on texts or tokens. This file has the options and the checks; cli/train has
 * the parts of the work (train.h), and train/ in the library the trainer.
 *
 *     check options and files -> corpus -> tokenizer, model -> split -> trainer -> loop */
#include "cli/train/train.h"
#include "cli/commands.h"
#include "cli/options/files.h"

#include "reprise/device.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_DEFAULT_SEQ = 1024 };

static TrainArgs args = {.steps        = 1000,
                         .batch        = 16,
                         .accumulate   = 1,
                         .warmup       = -1,
                         .lr           = 1e-3f,
                         .lr_end       = -1.0f,
                         .weight_decay = 0.1f,
                         .beta1        = 0.9f,
                         .beta2        = 0.95f,
                         .max_norm     = 1.0f,
                         .aux_loss     = 0.01f,
                         .hold_out     = 0.05f,
                         .eval_every   = 100,
                         .token_bytes  = 4};

/* "out.gguf" -> "out.checkpoint.gguf" */
static char *checkpoint_path(const char *output) {
    static const char end[] = ".gguf";
    size_t            n     = strlen(output);
    char             *path  = malloc(n + sizeof ".checkpoint.gguf");
    if (path == NULL) return NULL;
    if (n > strlen(end) && strcmp(output + n - strlen(end), end) == 0) n -= strlen(end);
    sprintf(path, "%.*s.checkpoint.gguf", (int)n, output);
    return path;
}

static char *default_checkpoint; /* owned */
static int   checkpoint_error;   /* errno of the search for its folder; 0: none */

/* The default of --checkpoint, and the checkpoint before, which is renamed to FILE.1 in the folder that links lead
 * to. */
static void computed_files(FileList *list) {
    static char target[PATH_MAX], kept[PATH_MAX + sizeof ".1"];
    if (args.checkpoint == NULL && args.output != NULL) {
        args.checkpoint = default_checkpoint = checkpoint_path(args.output);
        cli_files_add(list, FILE_CHECKPOINT, "the checkpoint", args.checkpoint);
    }
    if (args.checkpoint == NULL) return;
    const bool found = realpath(args.checkpoint, target) != NULL;
    if (!found && errno != ENOENT) checkpoint_error = errno;
    snprintf(kept, sizeof kept, "%s.1", found ? target : args.checkpoint);
    cli_files_add(list, FILE_CHECKPOINT, "the checkpoint before", kept);
}

/* The options of the trainer. Defaults that depend on the model or on other options are computed here: the length of
 * a sequence, the warm-up, the last learning rate. */
static RpStatus options_of(const RpModel *m, RpTrainOptions *o) {
    const int32_t n_ctx = rp_model_info(m)->n_ctx_train;
    if (args.seq == 0) args.seq = n_ctx < MAX_DEFAULT_SEQ ? n_ctx : MAX_DEFAULT_SEQ;
    const int32_t tenth = args.steps / 10 < 100 ? args.steps / 10 : 100;
    *o                  = (RpTrainOptions){.batch          = args.batch,
                                           .seq            = args.seq,
                                           .accumulate     = args.accumulate,
                                           .n_steps        = args.steps,
                                           .lr             = args.lr,
                                           .lr_end         = args.lr_end >= 0.0f ? args.lr_end : args.lr / 20.0f,
                                           .schedule       = args.constant ? RP_TRAIN_CONSTANT : RP_TRAIN_COSINE,
                                           .warmup         = args.warmup >= 0 ? args.warmup : tenth,
                                           .beta1          = args.beta1,
                                           .beta2          = args.beta2,
                                           .weight_decay   = args.weight_decay,
                                           .max_norm       = args.max_norm > 0.0f ? args.max_norm : HUGE_VALF,
                                           .aux_loss       = args.aux_loss,
                                           .seed           = args.seed,
                                           .recompute      = args.recompute,
                                           .n_threads      = args.threads,
                                           .device         = args.device.name,
                                           .require_cuda   = args.device.require_cuda,
                                           .require_graph  = args.device.require_graph,
                                           .change_options = args.change_options,
                                           .lora_rank      = args.lora_rank,
                                           .lora_alpha     = args.lora_alpha,
                                           .adapter        = args.lora_rank > 0 ? args.resume : NULL,
                                           .checkpoint     = args.checkpoint};
    if (args.compute != NULL && strcasecmp(args.compute, "bf16") == 0)
        o->compute = RP_BF16;
    else if (args.compute != NULL && strcasecmp(args.compute, "f32") != 0)
        return rp_fail(RP_E_ARG, "--compute %s: must be f32 or bf16", args.compute);
    return cli_mode(args.device.mode, &o->mode);
}

/* One line about what is trained on what. */
static RpStatus describe(const RpModel *m, const RpTrainOptions *o, const RpTrainer *t, const Corpus *c) {
    const RpExecutorInfo info = rp_trainer_info(t);
    RpTrainMemory        memory;
    cli_report_fallback(&info, o->mode);
    if (args.quiet) return RP_OK;
    RP_TRY(rp_trainer_memory(m, o, &memory));
    fprintf(stderr, "%.2f M parameters, %zu tokens", (double)memory.weights / 4e6, c->train.n);
    if (c->n_held > 0)
        fprintf(stderr, " and %zu held out (%zu %s)", c->held.n, c->n_held, c->in_blocks ? "sequences" : "documents");
    fprintf(stderr, ", %.0f MB, %s", (double)memory.total / 1e6, info.device);
    if (rp_trainer_n_steps(t) > 0) fprintf(stderr, ", resumed after step %lld", (long long)rp_trainer_n_steps(t));
    fputc('\n', stderr);
    if (c->held.n == 0 && args.hold_out > 0.0f)
        cli_warn("the text is too short to hold out a part: there is no validation");
    return RP_OK;
}

/* Refuses a preset that does not fit before its tokenizer is trained and its weights are written, which takes long.
 * With another vocabulary than the preset's, only a lower bound is known: the memory without that of the vocabulary. */
static RpStatus check_preset(void) {
    RpModel       *m;
    RpTrainOptions o;
    RpTrainMemory  need;
    RpDeviceMemory d;
    if (args.preset == NULL || args.resume != NULL) return RP_OK;
    RP_TRY(rp_model_open_preset(args.preset, "F32", &m));
    /* vocab: at most five f32 for each element of the input and output matrices: the weight, its two moments, its
     * gradient, and with --accumulate the sum of gradients. */
    const RpModelInfo *info  = rp_model_info(m);
    const size_t       vocab = (size_t)info->n_vocab * (size_t)info->n_embd * 2 * 5 * sizeof(float);
    RpStatus           st    = options_of(m, &o);
    if (st == RP_OK) st = rp_trainer_memory(m, &o, &need);
    if (st == RP_OK) st = rp_device_memory(o.device, o.require_cuda, &d);
    rp_model_free(m);
    RP_TRY(st);
    if (args.vocab > 0 || args.tokenizer != NULL) {
        need.total -= need.activations;
        need.total -= need.total > vocab ? vocab : need.total;
    }
    if ((d.free_bytes == 0 && !d.is_own) || need.total <= d.free_bytes) return RP_OK;
    return rp_fail(RP_E_NOMEM,
                   "the preset %s: training %d sequences of %d tokens takes %.1f GB: %.1f GB for the weights in f32, "
                   "%.1f GB "
                   "for the optimiser, %.1f GB for gradients, %.1f GB for activations; %.1f GB are free on %s",
                   args.preset, args.batch, args.seq,
                   (double)(need.weights + need.optimizer + need.gradients + need.activations) / 1e9,
                   (double)need.weights / 1e9, (double)need.optimizer / 1e9, (double)need.gradients / 1e9,
                   (double)need.activations / 1e9, (double)d.free_bytes / 1e9, d.id);
}

/* As many steps as --steps are accepted: the model is still to be written. */
static RpStatus check_steps(const RpModel *m) {
    uint32_t made = 0;
    if (args.lora_rank > 0) return RP_OK; /* then rp_trainer_open reads them: see train() */
    RP_TRY(rp_gguf_get_u32(rp_model_file(m), "train.step", &made));
    if (made <= (uint32_t)args.steps) return RP_OK;
    return rp_fail(RP_E_ARG, "%s has made %u steps already: give more --steps than %d",
                   args.resume != NULL ? args.resume : args.model, made, args.steps);
}

/* A checkpoint may be written over the one that is resumed, but not over an adapter, which --lora resumes too. */
static RpStatus check_resumed(void) {
    RpGgufFile *f;
    if (args.lora_rank == 0 || args.resume == NULL || !cli_same_file(args.resume, args.checkpoint)) return RP_OK;
    RP_TRY(rp_gguf_open(args.resume, &f));
    const bool is_checkpoint = rp_gguf_find(f, "train.step") != NULL;
    rp_gguf_close(f);
    if (is_checkpoint) return RP_OK;
    return rp_fail(RP_E_ARG, "%s is an adapter, not a checkpoint: --checkpoint must be another file", args.resume);
}

/* Everything that can fail without a step fails before the first one. */
static RpStatus train(RpModel **m, RpTrainer **t, Corpus *c) {
    RpTrainOptions o;
    RP_TRY(cli_train_try_output(args.output));
    RP_TRY(cli_train_try_output(args.checkpoint));
    if (checkpoint_error != 0) return rp_fail(RP_E_IO, "%s: %s", args.checkpoint, strerror(checkpoint_error));
    RP_TRY(cli_train_log_check(args.log));
    RP_TRY(check_resumed());
    RP_TRY(check_preset());
    RP_TRY(cli_train_start(&args, m, c));
    RP_TRY(options_of(*m, &o));
    RP_TRY(cli_corpus_split(c, args.hold_out, args.seq));
    RP_TRY(check_steps(*m));
    const RpStatus st = rp_trainer_open(*m, &o, t);
    if (st != RP_OK) return args.resume != NULL ? cli_train_resume_failed(&args, st) : st;
    if (rp_trainer_n_steps(*t) > args.steps)
        return rp_fail(RP_E_ARG, "%s has made %lld steps already: give more --steps than %d", args.resume,
                       (long long)rp_trainer_n_steps(*t), args.steps);
    RP_TRY(describe(*m, &o, *t, c));
    return cli_train_loop(&args, *m, *t, c);
}

static int wrong_use(const char *text) {
    cli_say("reprise train", "%s (see `reprise train --help`)", text);
    return EXIT_USAGE;
}

/* Whether this is the name of a type or of a quantisation mix, in upper or lower case. */
static bool is_type(const char *name) {
    for (int i = 0; rp_convert_type_name(i) != NULL; i++)
        if (strcasecmp(rp_convert_type_name(i), name) == 0) return true;
    return false;
}

static int run(void) {
    RpModel   *m      = NULL;
    RpTrainer *t      = NULL;
    Corpus     corpus = {0};
    if (args.output == NULL) return wrong_use("-o FILE is needed");
    if (args.resume == NULL && args.model == NULL && args.preset == NULL)
        return wrong_use("a model is needed: --preset PRESET for a new one, or MODEL");
    if (args.model != NULL && args.preset != NULL) return wrong_use("MODEL and --preset exclude each other");
    if (args.texts.n == 0 && args.tokens == NULL) return wrong_use("--text FILE or --tokens FILE is needed");
    if (args.texts.n > 0 && args.tokens != NULL) return wrong_use("--text and --tokens exclude each other");
    if (args.token_bytes == 3) return wrong_use("--token-bytes 3: must be 2 or 4");
    if (args.lora_rank > 0 && args.model == NULL) return wrong_use("--lora needs the MODEL that the adapter is for");
    if (args.lora_rank > 0 && args.type != NULL)
        return wrong_use("--lora and --type exclude each other: adapters are F32");
    if (args.type == NULL) args.type = args.lora_rank > 0 ? "F32" : "F16";
    if (!is_type(args.type)) return wrong_use("--type: no such type (see `reprise help quantize`)");
    cli_catch_termination();
    const RpStatus st =
        args.checkpoint != NULL ? train(&m, &t, &corpus) : rp_fail(RP_E_NOMEM, "out of memory for a path");
    rp_trainer_free(t);
    rp_model_free(m);
    cli_corpus_free(&corpus);
    free(default_checkpoint);
    free(args.texts.items);
    return cli_exit(st);
}

#define PLAIN_NUMBER(name, v, help) CLI_NUMBER(name, 0, v, "X", help, 0, 0)

static const Option options[] = {
    CLI_MODEL_OPTIONAL("model", 'm', args.model, "MODEL",
                       "the model to train further, a GGUF file, with or without -m before it"),
    CLI_TEXT("preset", 'p', args.preset, "PRESET", "a new model of this shape; see `reprise synth list`"),
    CLI_FILES(FILE_READ, "text", 'f', args.texts, "FILE", "a text; may be given several times; -: standard input"),
    CLI_FILE(FILE_READ, "tokens", 0, args.tokens, "FILE", "token ids instead, little-endian integers"),
    CLI_INT("token-bytes", 0, args.token_bytes, "N", "bytes of an id in --tokens: 2 or 4 (default)", 2, 4),
    CLI_TEXT("separator", 0, args.separator, "TEXT",
             "text between documents, default: a blank line; empty: a file is one document"),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "path of the trained model"),
    CLI_TEXT("type", 0, args.type, "TYPE", "type of its weights, default F16; see `reprise help quantize`"),
    CLI_INT("steps", 'n', args.steps, "N", "steps, and length of the schedule; default 1000", 1, 0),
    CLI_NUMBER("minutes", 0, args.minutes, "M",
               "end after M minutes, but not before a step is made; 0 (default): no limit", 0, 0),
    CLI_INT("batch", 'b', args.batch, "B", "sequences of a batch, default 16", 1, 1 << 20),
    CLI_INT("seq", 0, args.seq, "T", "tokens of a sequence; 0 (default): the model's context, at most 1024", 0,
            1 << 24),
    CLI_INT("accumulate", 0, args.accumulate, "N", "batches of a step, whose gradients are added; default 1", 1,
            1 << 20),
    CLI_FLAG("recompute", 0, args.recompute,
             "compute activations again instead of keeping them: less memory, more time, the same model"),
    CLI_TEXT("compute", 0, args.compute, "TYPE", "f32 (default), or bf16: products read the weights rounded to it"),
    CLI_NUMBER("lr", 0, args.lr, "X", "largest learning rate, default 0.001", 1e-12, 0),
    PLAIN_NUMBER("lr-end", args.lr_end, "learning rate of the last step, default a twentieth of --lr"),
    CLI_FLAG("constant", 0, args.constant, "keep --lr after the warm-up, instead of lowering it by a cosine"),
    CLI_INT("warmup", 0, args.warmup, "N", "steps in which the rate rises; default: a tenth of the steps, at most 100",
            0, 0),
    PLAIN_NUMBER("weight-decay", args.weight_decay, "weight decay of matrices, default 0.1"),
    CLI_NUMBER("beta1", 0, args.beta1, "X", "decay of AdamW's mean of gradients, default 0.9", 1e-6, 0.999999),
    CLI_NUMBER("beta2", 0, args.beta2, "X", "decay of AdamW's mean of their squares, default 0.95", 1e-6, 0.999999),
    PLAIN_NUMBER("max-norm", args.max_norm, "largest norm of the gradients, default 1; 0: no limit"),
    PLAIN_NUMBER("aux-loss", args.aux_loss, "factor of the loss that balances experts, default 0.01"),
    CLI_INT("vocab", 0, args.vocab, "N",
            "tokens of the tokenizer that is trained for a preset; 0 (default): as many as the preset has", 0, 1 << 24),
    CLI_FILE(FILE_READ, "tokenizer", 0, args.tokenizer, "MODEL",
             "copy the tokenizer of this file instead of training one"),
    CLI_INT("eval-every", 0, args.eval_every, "N", "steps between validations, default 100", 1, 0),
    CLI_NUMBER("hold-out", 0, args.hold_out, "X", "share of the documents for validation, default 0.05; 0: none", 0,
               0.5),
    CLI_FILE(FILE_CHECKPOINT, "checkpoint", 0, args.checkpoint, "FILE",
             "path of checkpoints; default: from -o, with .checkpoint.gguf"),
    CLI_INT("checkpoint-every", 0, args.checkpoint_every, "N",
            "steps between checkpoints; 0 (default): one every 5 minutes", 0, 0),
    CLI_INT("lora", 0, args.lora_rank, "R",
            "train only a LoRA adapter of rank R, which -o is; the weights of MODEL stay as they are, "
            "quantised or not",
            1, 1 << 16),
    CLI_NUMBER("lora-alpha", 0, args.lora_alpha, "X", "the adapter counts X / R; 0 (default): X is R", 0, 0),
    CLI_FILE(FILE_RESUMED, "resume", 0, args.resume, "FILE",
             "go on from this checkpoint, with the other options as before; with --lora also from an adapter"),
    CLI_FLAG("change-options", 0, args.change_options,
             "go on with other options than before, such as more --steps or another --lr"),
    CLI_FILE(FILE_WRITTEN, "log", 0, args.log, "FILE",
             "write a line of JSON for each step; replaces or, with --resume, continues an earlier log; see "
             "`reprise help train plot`"),
    CLI_SEED("seed", 's', args.seed, "S", "seed of the weights and of the sequences, default 0"),
    OPTION_THREADS(args.threads),
    OPTIONS_DEVICE(args.device),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_train = {
    .name      = "train",
    .help      = "train a model on texts",
    .usage     = "[MODEL | --preset PRESET] --text FILE -o FILE [options]",
    .notes     = "The texts are cut into documents, and an end token is put after each. Every 20th "
                 "document is held out (see --hold-out), or every 20th sequence of a text with few "
                 "documents. A step learns sequences from random places, which depend on the seed and "
                 "the number of the step only.\n"
                 "On a terminal a bar shows the loss, and for a mixture of experts the balance: the "
                 "largest load of an expert, times their number; 1 is perfect.\n"
                 "Ctrl-C or SIGTERM ends the training after the step and writes a checkpoint. The same command "
                 "with --resume FILE then goes on as if nothing had happened, bit for bit. Other options than before "
                 "are refused without --change-options.\n"
                 "    reprise train --preset demo --text bible.txt -o bible.gguf --log log.jsonl\n"
                 "    reprise train plot log.jsonl -o log.svg",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .files     = computed_files,
    .run       = run};
