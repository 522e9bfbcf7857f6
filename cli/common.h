/* common.h - what the commands share: messages, clock, interrupts, progress, and reading a model and a text.
 */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include "reprise/reprise.h"

#include "cli/options.h"

/* Rows that several commands have. */
#define OPTION_MODEL(v) CLI_MODEL("model", 'm', v, "FILE", "the model, a GGUF file; default: the demo model")
#define OPTION_THREADS(v)                                                                                    \
    CLI_INT("threads", 't', v, "N", "worker threads, 0: REPRISE_THREADS or one a core", 0, 512)
#define OPTIONS_DEVICE(d)                                                                                    \
    CLI_TEXT("device", 0, (d).name, "NAME", "auto, cpu, cuda or cuda:N; default: REPRISE_DEVICE"),           \
        CLI_TEXT("mode", 0, (d).mode, "MODE", "auto, eager, replay or loop; default: REPRISE_MODE"),        \
        CLI_FLAG("require-cuda", 0, (d).require_cuda, "fail where no GPU can be used"),                      \
        CLI_FLAG("require-graph", 0, (d).require_graph, "fail where a step cannot be captured")
#define OPTION_CTX(v)    CLI_INT("ctx", 'c', v, "N", "tokens of context, 0: the model's, at most 4096", 0, 0)
#define OPTION_PASSES(v) CLI_TEXT("passes", 0, v, "LIST", "graph passes to switch off, such as -quantize; -all,+norm: only that")
#define OPTION_KV(v)     CLI_TEXT("kv", 0, v, "TYPE", "of the cached keys and values: f16 (default) or q8_0")
#define OPTION_JSON(v)   CLI_FLAG("json", 0, v, "print JSON")
/* clang-format off */
#define OPTIONS_SAMPLER(p)                                                                                   \
    CLI_NUMBER("temp", 0, (p).temperature, "T", "temperature, 0 (default): the likeliest token", 0, 0),      \
    CLI_INT("top-k", 0, (p).top_k, "K", "only the K likeliest tokens, 0 (default): all", 0, 0),              \
    CLI_NUMBER("top-p", 0, (p).top_p, "P", "only the likeliest that hold P together, default 1", 1e-6, 1),   \
    CLI_NUMBER("min-p", 0, (p).min_p, "P", "only those of P times the likeliest, default 0", 0, 1),          \
    CLI_NUMBER("repeat-penalty", 0, (p).repeat_penalty, "X", "against repetition, default 1: off", 1e-6, 0), \
    CLI_INT("repeat-last-n", 0, (p).repeat_last_n, "N", "recent are the last N, default 64", 0, 1 << 20),    \
    CLI_SEED("seed", 's', (p).seed, "S", "of the random numbers, default 0")
/* clang-format on */

/* What rp_sampler_defaults returns, as an initialiser. */
#define SAMPLER_DEFAULTS                                                                                     \
    { .top_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = 64 }

/* One line on stderr, whatever bytes the text holds. */
void cli_say(const char *who, const char *fmt, ...) RP_PRINTF(2, 3);

/* The exit status for the end of a command: says what failed; an interrupted command is EXIT_INTERRUPTED. */
int cli_exit(RpStatus status);

/* Writes to stdout at once; false where that fails, now or before. */
bool cli_print(const char *text, size_t len);

/* Flushes stdout. A reader who has gone away (EPIPE) is no news: EXIT_ERROR without a word. */
int cli_close_stdout(int exit_status);

double cli_now(void);         /* seconds of a clock that only goes on */
double cli_since_start(void); /* since main began */
void   cli_start_clock(void);

/* From here on Ctrl-C only sets a flag; a second one while the flag is set ends the program. */
void cli_catch_interrupts(void);
bool cli_interrupted(void);
void cli_forget_interrupt(void);

/* A bar on stderr where that is a terminal and the work takes more than half a second. */
typedef struct Progress {
    const char *what;
    double      start, latest;
    bool        off, shown;
} Progress;

void cli_progress(Progress *p, double done, double total);
void cli_progress_end(Progress *p);

/* What OPTIONS_DEVICE fills in. */
typedef struct DeviceArgs {
    const char *name, *mode;
    bool        require_cuda, require_graph;
} DeviceArgs;

/* The session's options get the device's. RP_E_ARG for a mode that is none. */
RP_NODISCARD RpStatus cli_device_options(const DeviceArgs *d, SessionOptions *o);
RP_NODISCARD RpStatus cli_mode(const char *name, ExecMode *out); /* NULL: RP_MODE_AUTO */

/* rp_session_open. What was given up (the GPU, or a mode) is said on stderr, once. */
RP_NODISCARD RpStatus cli_open_session(const Model *m, const DeviceArgs *d, SessionOptions *o, Session **out);
void                  cli_say_given_up(const ExecutorInfo *info);

/* Opens the model; a bar where it takes long and not `quiet`. */
RP_NODISCARD RpStatus cli_open_model(const char *path, bool quiet, Model **out);
RP_NODISCARD RpStatus cli_need_tokenizer(const Model *m, const char *path);

typedef struct Text {
    char  *bytes; /* terminated too, but may hold NULs */
    size_t n;
} Text;

/* The text given as such, or the contents of a file; "-" is standard input for both. One of them is not NULL.
 */
RP_NODISCARD RpStatus cli_read_text(const char *text, const char *path, Text *out);

/* The file that -o names, or stdout where that is NULL. Closing passes on how the writing went, and says what
 * could not be written. */
RP_NODISCARD RpStatus cli_open_output(const char *path, FILE **out);
RP_NODISCARD RpStatus cli_close_output(FILE *out, const char *path, RpStatus written);

/* The context that a session would get without -c. */
int32_t cli_default_ctx(const Model *m);

/* The type that --kv names; NULL: f16. */
RP_NODISCARD RpStatus cli_kv_type(const char *name, RpDtype *out);

/* How many bytes of cache a step at a position reads: of layers with a sliding window, those of the window. */
double cli_kv_bytes(const Session *s, double position);

/* Writes a JSON string; bytes that are not UTF-8 become U+FFFD. */
void cli_json_string(FILE *out, const char *bytes, size_t n);

/* The bytes with control characters and quotes escaped as in C, at most `max` of them followed by "...". */
void cli_print_escaped(FILE *out, const char *bytes, size_t n, size_t max);

#endif
