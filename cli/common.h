/* common.h - shared by the commands: option rows, and models and sessions that are opened by them. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include "reprise/reprise.h"

#include "cli/options/files.h"
#include "cli/options/options.h"
#include "cli/terminal/clock.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/message.h"
#include "cli/terminal/progress.h"
#include "cli/text_files.h"

/* Option rows that several commands use. */
/* clang-format off */
#define MODEL_HELP                                                                                           \
    "the model, a GGUF file or a Hugging Face directory, with or without -m before it; default: REPRISE_MODEL or the demo model"
#define OPTION_MODEL(v) CLI_MODEL("model", 'm', v, "MODEL", MODEL_HELP)
#define OPTION_QUIET(v) CLI_FLAG("quiet", 'q', v, "no progress line")
#define OPTION_THREADS(v)                                                                                    \
    CLI_INT("threads", 't', v, "N", "worker threads; 0 (default): REPRISE_THREADS, or one per core", 0, 512)
#define OPTION_REPACK(d, otherwise)                                                                          \
    CLI_TEXT("repack", 0, (d).repack, "LAYOUT",                                                               \
             "copy of the weights with interleaved rows for the CPU: on, off, auto or codebook; default: REPRISE_REPACK or " otherwise)
#define OPTION_BACKEND(d)                                                                                    \
    CLI_TEXT("backend", 0, (d).backend, "NAME",                                                              \
             "run by this backend, a shared object: a path, or a name in REPRISE_BACKEND_DIR")
#define OPTION_WATCHDOG(d)                                                                                   \
    CLI_NUMBER("watchdog", 0, (d).watchdog_s, "SECONDS",                                                     \
               "on a GPU: fail and name the node if none ends within SECONDS; default: REPRISE_WATCHDOG, or no limit", 0, 1e6)
#define OPTION_REQUIRE_CUDA(d)                                                                               \
    CLI_FLAG("require-cuda", 0, (d).require_cuda, "fail if no GPU can be used, instead of running on the CPU")
#define OPTION_REQUIRE_GRAPH(d)                                                                              \
    CLI_FLAG("require-graph", 0, (d).require_graph,                                                          \
             "fail if a step cannot be captured, instead of running it eagerly")
#define OPTIONS_DEVICE(d)                                                                                    \
    CLI_TEXT("device", 0, (d).name, "DEVICE", "auto, cpu, cuda or cuda:N; default: REPRISE_DEVICE"),           \
    CLI_TEXT("mode", 0, (d).mode, "MODE",                                                                    \
             "launch mode on a GPU: auto, eager, replay or loop; default: REPRISE_MODE"),                    \
    OPTION_REQUIRE_CUDA(d),                                                                                  \
    OPTION_REQUIRE_GRAPH(d),                                                                                 \
    OPTION_REPACK(d, "codebook"),                                                                                 \
    CLI_FLAG("no-mmap", 0, (d).no_mmap,                                                                      \
             "read the model into memory, on huge pages, instead of mapping the file: it opens later, and some CPUs decode faster")
/* The rows of commands that run a model step by step (provenance/step_run.h). */
#define OPTIONS_STEP_DEVICE(d)                                                                               \
    CLI_TEXT("device", 0, (d).name, "DEVICE", "auto, cpu, cuda or cuda:N; default: REPRISE_DEVICE"),           \
    OPTION_REQUIRE_CUDA(d),                                                                                  \
    CLI_FLAG("no-mmap", 0, (d).no_mmap, "read the model into memory instead of mapping the file")
#define OPTIONS_STEP_TOKENS(prompt, ids)                                                                     \
    CLI_TEXT("prompt", 'p', prompt, "TEXT", "the prompt; default: 8 pseudo-random tokens, always the same"),   \
    CLI_TEXT("ids", 0, ids, "LIST", "the prompt as token ids, such as 1,2,3")
#define OPTION_LORA(v)                                                                                       \
    CLI_FILES(FILE_READ_SETTINGS, "lora", 0, v, "FILE[:SCALE]",                                                                 \
             "apply this LoRA adapter, a GGUF file; may be given several times; SCALE: default 1")
#define OPTION_CTX(v)                                                                                        \
    CLI_INT("ctx", 'c', v, "N", "tokens of context; 0 (default): the model's, at most 4096", 0, 0)
#define OPTION_PASSES(v)                                                                                     \
    CLI_TEXT("passes", 0, v, "LIST",                                                                         \
             "graph passes to switch off, such as -quantize; -all,+norm: all but norm")
#define OPTION_KV(v) CLI_TEXT("kv", 0, v, "CACHE", "type of the KV cache: f16 (default) or q8_0")
/* The rows of a command whose `args` has the fields device, passes and kv. */
#define OPTIONS_SESSION(args)                                                                                \
    OPTIONS_DEVICE((args).device), OPTION_WATCHDOG((args).device), OPTION_LORA((args).device.adapters),      \
        OPTION_PASSES((args).passes), OPTION_KV((args).kv)
#define OPTION_TRACE                                                                                         \
    CLI_FILE(FILE_WRITTEN, "trace", 0, cli_trace, "FILE",                                                    \
             "write a trace of runs, steps and nodes for ui.perfetto.dev, JSON lines if FILE ends in .jsonl; default: REPRISE_TRACE")
#define OPTION_JSON(v) CLI_FLAG("json", 0, v, "print JSON")
#define OPTIONS_SAMPLER(p)                                                                                   \
    CLI_NUMBER("temp", 0, (p).temperature, "T", "temperature; 0: greedy", 0, 0),                   \
    CLI_INT("top-k", 0, (p).top_k, "K", "sample from the K most probable tokens; 0: all", 0, 0),   \
    CLI_NUMBER("top-p", 0, (p).top_p, "P",                                                                   \
               "sample from the fewest tokens whose probabilities sum to P; 1: all", 1e-6, 1),           \
    CLI_NUMBER("min-p", 0, (p).min_p, "P",                                                                   \
               "least probability, relative to the most probable token; 0: off", 0, 1),              \
    CLI_NUMBER("repeat-penalty", 0, (p).repeat_penalty, "X",                                                 \
               "penalty on recent tokens; 1: off", 1e-6, 0),                                         \
    CLI_INT("repeat-last-n", 0, (p).repeat_last_n, "N",                                                      \
            "how many tokens are recent for --repeat-penalty, default 64; -1: all", -1, 1 << 20),        \
    CLI_SEED("seed", 's', (p).seed, "S", "seed of the random numbers, default 0")
/* clang-format on */

/* The values of rp_sampler_defaults(), as an initialiser. */
#define SAMPLER_DEFAULTS                                                                                               \
    {                                                                                                                  \
        .top_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = 64, .dry_base = 1.75f, .dry_allowed_length = 2,        \
        .dry_penalty_last_n = 64, .xtc_threshold = 0.1f, .mirostat_tau = 5.0f, .mirostat_eta = 0.1f,                   \
        .dynatemp_exponent = 1.0f                                                                                      \
    }

/* The variables of OPTIONS_DEVICE, OPTION_BACKEND and OPTION_WATCHDOG. */
typedef struct DeviceArgs {
    const char *name, *mode, *repack, *backend;
    bool        require_cuda, require_graph, no_mmap;
    float       watchdog_s;
    TextList    adapters; /* the values of OPTION_LORA */
} DeviceArgs;

/* Copies the device options into session options. RP_E_ARG for an unknown mode. */
RP_NODISCARD RpStatus cli_device_options(const DeviceArgs *d, RpSessionOptions *o);

/* The launch mode that --mode names; NULL: RP_MODE_AUTO. RP_E_ARG for an unknown name. */
RP_NODISCARD RpStatus cli_mode(const char *name, RpExecMode *out);

enum { CLI_WINDOW_TOKENS = 4096 }; /* RpSessionOptions.window_tokens of generate and chat */

/* Opens a session after copying the device options into *o. Shows the progress of kernels that are compiled, unless
 * `quiet`. Reports a fallback, see cli_report_fallback. */
RP_NODISCARD RpStatus cli_open_session(const RpModel *m, const DeviceArgs *d, bool quiet, RpSessionOptions *o,
                                       RpSession **out);

/* Says once on stderr that the CPU runs instead of a GPU, or another mode than was asked for, and why (I10). */
void cli_report_fallback(const RpExecutorInfo *info, RpExecMode asked);

/* Opens the model with the adapters of --lora, with a progress bar unless `quiet`. */
RP_NODISCARD RpStatus cli_open_model(const char *path, const DeviceArgs *d, bool quiet, RpModel **out);

/* Adds the adapters of --lora to the model: "FILE" or "FILE:SCALE". */
RP_NODISCARD RpStatus cli_add_adapters(RpModel *m, const TextList *adapters);

/* The file and the scale of a value of --lora. The caller frees *path. RP_E_ARG for a scale that is none. */
RP_NODISCARD RpStatus cli_split_adapter(const char *text, char **path, float *scale);

/* RP_E_UNSUPPORTED if the model file has no tokenizer. */
RP_NODISCARD RpStatus cli_need_tokenizer(const RpModel *m, const char *path);

/* The context length of a session that is opened without -c: the training context of the model, at most 4096 tokens. */
int32_t cli_default_ctx(const RpModel *m);

/* The cache type that --kv names; NULL: f16. RP_E_ARG for an unknown name. */
RP_NODISCARD RpStatus cli_kv_type(const char *name, RpDtype *out);

/* The `repack` of options: `given` (--repack), or NULL if REPRISE_REPACK is set, or `otherwise`. */
const char *cli_repack(const char *given, const char *otherwise);

/* Bytes of KV cache and recurrent states that a decode step at `position` moves; layers with a sliding window read only
 * the window. */
double cli_kv_bytes(const RpSession *s, double position);

#endif
