/* bench.c - `reprise bench`: tokens per second of prefill and decode, as medians of repeated runs. Tests are
 * named as llama-bench names them: ppN is a prefill of N tokens, tgN are N decode steps. */
#include "cli/commands.h"
#include "cli/machine/huge_pages.h"
#include "cli/report.h"
#include "cli/terminal/table.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_REPEATS = 1000, WARM_UP_STEPS = 4 };

static struct {
    const char *model, *passes, *kv;
    int32_t     threads, prompt, steps, depth, repeats;
    float       temperature;
    bool        json, quiet;
    DeviceArgs  device;
    double      open_s; /* seconds in which the session was opened, weights copied to a GPU included */
} args = {.prompt = 128, .steps = 64, .repeats = 5};

/* The progress of a test: tokens of the runs before this one, and tokens of all its runs. */
typedef struct Work {
    Progress progress;
    double   done, total;
} Work;

typedef struct Test {
    const char *kind; /* pp or tg */
    int32_t     n;    /* tokens; 0: the test is left out */
    RpStatus (*run)(RpSession *s, const int32_t *ids, int32_t n, Work *w, double *seconds);
    double rates[MAX_REPEATS], sorted[MAX_REPEATS]; /* tokens per second */
} Test;

/* Reports `done` tokens of the current run. False after Ctrl-C. */
static bool on_tokens(int64_t done, int64_t total, void *user) {
    Work *w = user;
    (void)total;
    return cli_progress(&w->progress, w->done + (double)done, w->total);
}

/* Each run function processes n tokens from the current position on, and sets *seconds to the time of these tokens. */
static RpStatus run_prefill(RpSession *s, const int32_t *ids, int32_t n, Work *w, double *seconds) {
    const double   start = cli_now();
    const RpStatus st    = rp_session_prefill(s, ids, (size_t)n, on_tokens, w);
    *seconds             = cli_now() - start;
    return st;
}

/* Decode of given tokens, so no token is sampled. */
static RpStatus run_steps(RpSession *s, const int32_t *ids, int32_t n, Work *w, double *seconds) {
    const double start = cli_now();
    for (int32_t i = 0; i < n; i++) {
        RP_TRY(rp_session_step(s, ids[i]));
        if (!on_tokens(i + 1, n, w)) return rp_fail(RP_E_CANCELLED, "interrupted");
    }
    *seconds = cli_now() - start;
    return RP_OK;
}

/* In replay and loop mode the device samples by itself, so a whole reply is timed: a prompt of one token,
 * one sampled token that is not timed, then n steps. */
static RpStatus run_reply(RpSession *s, const int32_t *ids, int32_t n, Work *w, double *seconds) {
    RpSamplerParams         params  = rp_sampler_defaults();
    const RpGenerateOptions o       = {.max_tokens = n + 1, .ignore_end = true};
    RpSampler              *sampler = NULL;
    RpGenerateResult        r       = {0};
    params.temperature              = args.temperature;
    RP_TRY(rp_sampler_new(&params, rp_model_info(rp_session_model(s))->n_vocab, &sampler));
    const RpStatus st = rp_generate(s, sampler, ids, 1, &o, &r);
    rp_sampler_free(sampler);
    *seconds = r.decode_s;
    /* a call for each token would slow loop mode down */
    return st == RP_OK && !on_tokens(n, n, w) ? rp_fail(RP_E_CANCELLED, "interrupted") : st;
}

static Test tests[2] = {
    {.kind = "pp", .run = run_prefill},
    {.kind = "tg", .run = run_steps  }
};

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* For an even number of runs the mean of the two in the middle. */
static double median(const Test *t) {
    const int32_t n = args.repeats;
    return n % 2 ? t->sorted[n / 2] : 0.5 * (t->sorted[n / 2 - 1] + t->sorted[n / 2]);
}

/* Goes back to a context of args.depth tokens. Where no recurrent state is kept there, the tokens behind the nearest
 * one before are computed again. */
static RpStatus back_to_depth(RpSession *s, const int32_t *ids) {
    const int32_t from = rp_session_rewind_point(s, args.depth);
    RP_TRY(rp_session_rewind(s, from));
    return from < args.depth ? rp_session_prefill(s, ids + from, (size_t)(args.depth - from), NULL, NULL) : RP_OK;
}

/* A run, after which a signal is noticed: a prefill of one chunk reports nothing in between. */
static RpStatus run_once(RpSession *s, const int32_t *ids, Test *t, int32_t n, Work *w, double *seconds) {
    RP_TRY(back_to_depth(s, ids));
    RP_TRY(t->run(s, ids, n, w, seconds));
    return cli_interrupted() ? rp_fail(RP_E_CANCELLED, "interrupted") : RP_OK;
}

/* Each run starts from a context of args.depth tokens. One warm-up run, short for decode, is not counted. */
static RpStatus measure(RpSession *s, const int32_t *ids, Test *t, Work *w) {
    if (t->n == 0) return RP_OK;
    double        seconds = 0.0;
    const int32_t warm_up = t->run != run_prefill && t->n > WARM_UP_STEPS ? WARM_UP_STEPS : t->n;
    *w                    = (Work){.progress = w->progress, .total = warm_up};
    (void)cli_progress_step(&w->progress, "%s%d, warm-up", t->kind, t->n);
    RP_TRY(run_once(s, ids, t, warm_up, w, &seconds));
    (void)cli_progress_step(&w->progress, "%s%d, %d runs", t->kind, t->n, args.repeats);
    w->total = (double)t->n * args.repeats;
    for (int32_t i = 0; i < args.repeats; i++) {
        w->done = (double)t->n * i;
        RP_TRY(run_once(s, ids, t, t->n, w, &seconds));
        t->rates[i] = t->n / seconds;
    }
    memcpy(t->sorted, t->rates, sizeof t->sorted);
    qsort(t->sorted, (size_t)args.repeats, sizeof t->sorted[0], by_value);
    return RP_OK;
}

/* One row for each test: "pp128", or "pp128 @ 4096" with a depth. */
static RpStatus print_rates(void) {
    Table *t = cli_table_new("test|>tok/s median|>least|>most");
    for (int i = 0; i < 2; i++) {
        if (tests[i].n == 0) continue;
        if (args.depth > 0)
            cli_table_add(t, "%s%d @ %d", tests[i].kind, tests[i].n, args.depth);
        else
            cli_table_add(t, "%s%d", tests[i].kind, tests[i].n);
        cli_table_add(t, "%.2f", median(&tests[i]));
        cli_table_add(t, "%.2f", tests[i].sorted[0]);
        cli_table_add(t, "%.2f", tests[i].sorted[args.repeats - 1]);
    }
    return cli_table_print(t, stdout, 0);
}

/* The share of the weights on huge pages. It is -1 if the system does not tell it, and if the weights that run are
 * copies: on a GPU, or repacked. */
static double weights_on_huge_pages(const RpSession *s) {
    const RpExecutorInfo info = rp_session_info(s);
    return info.upload_bytes == 0 && info.repack_bytes == 0 ? cli_huge_share(rp_session_model(s)) : -1.0;
}

static RpStatus print_text(const RpSession *s, const TokenBytes *bytes) {
    const RpModelInfo *info = rp_model_info(rp_session_model(s));
    char               text[320];
    printf("%s, %.1f M parameters, %.1f MB, %s, %d runs\n", info->name[0] ? info->name : info->arch,
           (double)info->n_params / 1e6, (double)info->weight_bytes / 1e6, cli_device_text(s, text, sizeof text),
           args.repeats);
    RP_TRY(print_rates());
    if (tests[1].n > 0)
        printf("%.2f GB/s: %.1f MB per token (weights %.1f, KV at the mean position %.1f)\n",
               (bytes->weights + bytes->kv) * median(&tests[1]) / 1e9, (bytes->weights + bytes->kv) / 1e6,
               bytes->weights / 1e6, bytes->kv / 1e6);
    const double huge = weights_on_huge_pages(s);
    if (huge >= 0.0) printf("%.0f %% of the weights are on huge pages\n", 100.0 * huge);
    return RP_OK;
}

static void print_json(const RpSession *s, const TokenBytes *bytes) {
    const RpExecutorInfo info      = rp_session_info(s);
    const char          *separator = "";
    printf("{\"model\":");
    rp_put_json_string(args.model, strlen(args.model), stdout);
    putchar(',');
    cli_device_json(&info, stdout);
    printf("\"isa\":\"%s\",\"depth\":%d,\"open_s\":%.3f,\"results\":[", rp_cpu_isa_name(rp_cpu_isa()), args.depth,
           args.open_s);
    for (int i = 0; i < 2; i++) {
        const Test *t = &tests[i];
        if (t->n == 0) continue;
        printf("%s{\"test\":\"%s%d\",\"median_tok_s\":%.3f,\"runs\":[", separator, t->kind, t->n, median(t));
        for (int32_t j = 0; j < args.repeats; j++) printf("%s%.3f", j > 0 ? "," : "", t->rates[j]);
        printf("]}");
        separator = ",";
    }
    printf("],\"bytes_per_token\":%.0f,\"gb_s\":%.3f,\"huge_pages\":", bytes->weights + bytes->kv,
           tests[1].n > 0 ? (bytes->weights + bytes->kv) * median(&tests[1]) / 1e9 : 0.0);
    const double huge = weights_on_huge_pages(s);
    if (huge >= 0.0)
        printf("%.3f}\n", huge);
    else
        puts("null}");
}

/* Fills the context to args.depth once, then runs both tests; each of their runs goes back to this depth. */
static RpStatus measure_all(RpSession *s, const int32_t *ids) {
    Work w = {
        .progress = {.label = "bench", .off = args.quiet},
        .total    = args.depth,
    };
    if (rp_session_info(s).mode != RP_MODE_EAGER) tests[1].run = run_reply;
    tests[0].n = args.prompt;
    tests[1].n = args.steps;
    if (args.depth > 0) (void)cli_progress_step(&w.progress, "context of %d tokens", args.depth);
    RpStatus st = args.depth > 0 ? rp_session_prefill(s, ids, (size_t)args.depth, on_tokens, &w) : RP_OK;
    if (st == RP_OK) st = measure(s, ids, &tests[0], &w);
    if (st == RP_OK) st = measure(s, ids, &tests[1], &w);
    cli_progress_end(&w.progress);
    return st;
}

static RpStatus bench(const RpModel *m, RpSession **session) {
    RpDtype kv;
    RP_TRY(cli_kv_type(args.kv, &kv));
    /* run_reply begins with a token that is not timed, which needs one more position. */
    const int32_t measured = args.prompt > args.steps ? args.prompt : args.steps, longest = args.depth + measured,
                  n_train    = rp_model_info(m)->n_ctx_train;
    RpSessionOptions o       = {.n_ctx     = longest < n_train ? longest + 1 : longest,
                                .n_threads = args.threads,
                                .passes    = args.passes,
                                .kv_type   = kv};
    const int32_t    n_vocab = rp_model_info(m)->n_vocab;
    const double     start   = cli_now();
    RP_TRY(cli_open_session(m, &args.device, args.quiet, &o, session));
    args.open_s  = cli_now() - start;
    int32_t *ids = malloc((size_t)longest * sizeof *ids);
    if (ids == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d tokens", longest);
    for (int32_t i = 0; i < longest; i++)
        ids[i] = (int32_t)(rp_random_uniform(1, (uint64_t)i) * (float)n_vocab) % n_vocab;
    const RpStatus st = measure_all(*session, ids);
    free(ids);
    RP_TRY(st);
    const TokenBytes bytes = cli_token_bytes(*session, args.depth + (args.steps + 1) / 2.0);
    if (!args.json) return print_text(*session, &bytes);
    print_json(*session, &bytes);
    return RP_OK;
}

static int run(void) {
    if (args.prompt == 0 && args.steps == 0) {
        cli_say("reprise bench", "-p 0 -n 0 leaves nothing to measure (see `reprise bench --help`)");
        return EXIT_USAGE;
    }
    RpModel   *m       = NULL;
    RpSession *session = NULL;
    cli_catch_interrupts();
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = bench(m, &session);
    rp_session_free(session);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    OPTION_THREADS(args.threads),
    OPTIONS_DEVICE(args.device),
    OPTION_BACKEND(args.device),
    OPTION_WATCHDOG(args.device),
    OPTION_LORA(args.device.adapters),
    CLI_INT("prompt", 'p', args.prompt, "N", "tokens of the prefill, default 128; 0: no prefill", 0, 0),
    CLI_INT("steps", 'n', args.steps, "N", "tokens to decode, default 64; 0: no decode", 0, 0),
    CLI_INT("depth", 'd', args.depth, "N", "tokens already in the context, default 0", 0, 1 << 24),
    CLI_INT("repeat", 'r', args.repeats, "N", "runs of each test, default 5", 1, MAX_REPEATS),
    CLI_NUMBER("temp", 0, args.temperature, "T", "temperature of tgN on a GPU; 0 (default): greedy", 0, 0),
    OPTION_PASSES(args.passes),
    OPTION_TRACE,
    OPTION_KV(args.kv),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_bench = {
    .name      = "bench",
    .help      = "measure prefill and decode in tokens per second",
    .usage     = "[MODEL] [options]",
    .notes     = "ppN: prefill of N tokens; tgN: N decode steps; both "
                 "start with --depth tokens in the context. The tokens are "
                 "pseudo-random and the same in every run. In the modes "
                 "replay and loop the GPU samples the tokens of tgN itself.\n"
                 "Other measurements: `reprise bench launches`, `reprise-sim bench counts`, `reprise bench machine`.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
