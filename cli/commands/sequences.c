/* sequences.c - `reprise bench sequences`: tokens per second of 1, 2, 4, ... replies that run at the same time. Only
 * steps in which every reply takes a token are timed. */
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/terminal/table.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64, STEP_TOKENS = 256 };

static struct {
    const char *model, *passes, *kv;
    int32_t     threads, prompt, steps, sequences;
    bool        json, quiet;
    DeviceArgs  device;
} args = {.prompt = 128, .steps = 64, .sequences = 8};

typedef struct Row {
    int32_t n;
    double  rate, times; /* tokens per second of all replies; and divided by those of one */
} Row;

static int32_t token_of(uint64_t i, int32_t n_vocab) {
    return (int32_t)(rp_random_uniform(1, i) * (float)n_vocab) % n_vocab;
}

/* Tokens that the first of n replies gets, at most, while the prompts of the others run. */
static int32_t early_tokens(int32_t n) { return n * (args.prompt / (STEP_TOKENS - MOST) + 2); }

/* Queues n requests, each with a prompt of its own. */
static RpStatus add_requests(RpEngine *e, RpSampler **samplers, int32_t *ids, int32_t n) {
    const int32_t n_vocab = rp_model_info(rp_engine_model(e))->n_vocab;
    uint64_t      id;
    for (int32_t s = 0; s < n; s++) {
        for (int32_t i = 0; i < args.prompt; i++) ids[i] = token_of((uint64_t)s << 32 | (uint32_t)i, n_vocab);
        const RpRequest r = {.prompt     = ids,
                             .n_prompt   = (size_t)args.prompt,
                             .sampler    = samplers[s],
                             .max_tokens = args.steps + early_tokens(n),
                             .ignore_end = true};
        rp_sampler_reset(samplers[s]);
        RP_TRY(rp_engine_add(e, &r, &id));
    }
    return RP_OK;
}

/* Seconds of args.steps steps of n replies, and of one more before them that is not counted. */
static RpStatus measure(RpEngine *e, RpSampler **samplers, int32_t *ids, int32_t n, Progress *progress,
                        double *seconds) {
    int32_t       steps = -1;
    RpEngineEvent v;
    RP_TRY(add_requests(e, samplers, ids, n));
    *seconds = 0.0;
    while (rp_engine_pending(e) > 0) {
        const double start = cli_now();
        RP_TRY(rp_engine_step(e));
        const double took = cli_now() - start;
        int32_t      told = 0;
        while (rp_engine_poll(e, &v)) {
            if (v.status != RP_OK) return rp_fail(v.status, "%s", v.error);
            told++;
            if (steps >= args.steps && !v.end) RP_TRY(rp_engine_cancel(e, v.id));
        }
        if (told == n && rp_engine_stats(e).last_step_tokens == n && steps < args.steps && steps++ >= 0)
            *seconds += took;
        if (!cli_progress(progress, steps > 0 ? steps : 0, args.steps)) return rp_fail(RP_E_CANCELLED, "interrupted");
    }
    return RP_OK;
}

static RpStatus measure_all(RpEngine *e, RpSampler **samplers, int32_t *ids, Row *rows, int *n_rows) {
    Progress progress = {.label = "bench", .off = args.quiet};
    double   unused;
    (void)cli_progress_step(&progress, "warm-up");
    RpStatus st = measure(e, samplers, ids, 1, &progress, &unused);
    for (int32_t n = 1; n <= args.sequences && st == RP_OK;
         n         = n < args.sequences && 2 * n > args.sequences ? args.sequences : 2 * n) {
        double seconds = 0.0;
        (void)cli_progress_step(&progress, "%d sequence%s", n, n > 1 ? "s" : "");
        st                = measure(e, samplers, ids, n, &progress, &seconds);
        const double rate = seconds > 0.0 ? (double)n * args.steps / seconds : 0.0;
        rows[*n_rows]     = (Row){n, rate, *n_rows > 0 && rows[0].rate > 0.0 ? rate / rows[0].rate : 1.0};
        ++*n_rows;
    }
    cli_progress_end(&progress);
    return st;
}

static RpStatus print_text(const RpEngine *e, const Row *rows, int n) {
    const RpModelInfo   *info = rp_model_info(rp_engine_model(e));
    const RpExecutorInfo exec = rp_engine_info(e);
    Table               *t    = cli_table_new(">sequences|>tok/s of all|>of each|>times one");
    printf("%s, %.1f M parameters, %.1f MB, %s, %d threads%s%s, prompts of %d tokens\n",
           info->name[0] ? info->name : info->arch, (double)info->n_params / 1e6, (double)info->weight_bytes / 1e6,
           exec.device, exec.n_threads, exec.backend[0] != '\0' ? ", backend " : "", exec.backend, args.prompt);
    for (int i = 0; i < n; i++) {
        cli_table_add(t, "%d", rows[i].n);
        cli_table_add(t, "%.2f", rows[i].rate);
        cli_table_add(t, "%.2f", rows[i].rate / rows[i].n);
        cli_table_add(t, "%.2f", rows[i].times);
    }
    return cli_table_print(t, stdout, 0);
}

static void print_json(const RpEngine *e, const Row *rows, int n) {
    const RpExecutorInfo exec = rp_engine_info(e);
    printf("{\"model\":");
    rp_put_json_string(args.model, strlen(args.model), stdout);
    printf(",\"device\":\"%s\",\"threads\":%d,\"isa\":\"%s\",\"backend\":", exec.device, exec.n_threads,
           rp_cpu_isa_name(rp_cpu_isa()));
    rp_put_json_string(exec.backend, strlen(exec.backend), stdout);
    printf(",\"prompt\":%d,\"steps\":%d,\"results\":[", args.prompt, args.steps);
    for (int i = 0; i < n; i++)
        printf("%s{\"sequences\":%d,\"tok_s\":%.3f}", i > 0 ? "," : "", rows[i].n, rows[i].rate);
    printf("]}\n");
}

static RpStatus bench(RpEngine *e, RpSampler **samplers) {
    const RpSamplerParams params  = rp_sampler_defaults();
    const int32_t         n_vocab = rp_model_info(rp_engine_model(e))->n_vocab;
    Row                   rows[8];
    int                   n_rows = 0;
    int32_t              *ids    = malloc((size_t)args.prompt * sizeof *ids);
    RpStatus              st = ids != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for %d tokens", args.prompt);
    for (int32_t i = 0; i < args.sequences && st == RP_OK; i++) st = rp_sampler_new(&params, n_vocab, &samplers[i]);
    if (st == RP_OK) st = measure_all(e, samplers, ids, rows, &n_rows);
    free(ids);
    RP_TRY(st);
    if (!args.json) return print_text(e, rows, n_rows);
    print_json(e, rows, n_rows);
    return RP_OK;
}

static int run(void) {
    RpModel   *m              = NULL;
    RpEngine  *e              = NULL;
    RpSampler *samplers[MOST] = {NULL};
    RpDtype    kv             = RP_F16;
    cli_catch_interrupts();
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = cli_kv_type(args.kv, &kv);
    const RpEngineOptions o = {.n_ctx       = args.prompt + args.steps + early_tokens(args.sequences),
                               .n_seq       = args.sequences,
                               .n_threads   = args.threads,
                               .passes      = args.passes,
                               .kv_type     = kv,
                               .device      = args.device.name,
                               .repack      = args.device.repack,
                               .backend     = args.device.backend,
                               .step_tokens = STEP_TOKENS,
                               .watchdog_s  = (double)args.device.watchdog_s};
    if (st == RP_OK) st = rp_engine_open(m, &o, &e);
    if (st == RP_OK) st = bench(e, samplers);
    rp_engine_free(e);
    for (int i = 0; i < MOST; i++) rp_sampler_free(samplers[i]);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    OPTION_THREADS(args.threads),
    CLI_TEXT("device", 0, args.device.name, "DEVICE", "auto, cpu, cuda or cuda:N; default: REPRISE_DEVICE"),
    OPTION_REPACK(args.device, "auto"),
    OPTION_BACKEND(args.device),
    OPTION_WATCHDOG(args.device),
    OPTION_LORA(args.device.adapters),
    CLI_INT("sequences", 's', args.sequences, "N", "replies at the same time: 1, 2, 4, ... to N, default 8", 1, MOST),
    CLI_INT("prompt", 'p', args.prompt, "N", "tokens of each prompt, default 128", 1, 1 << 24),
    CLI_INT("steps", 'n', args.steps, "N", "steps that are timed, default 64", 1, 1 << 20),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_sequences = {.name    = "bench sequences",
                                       .help    = "measure replies that run at the same time",
                                       .usage   = "[MODEL] [options]",
                                       .notes   = "The replies share each pass over the weights (RpEngine). The tokens "
                                                  "of the prompts are pseudo-random and the same in "
                                                  "every run. Steps that also take tokens of prompts are not timed.",
                                       .options = options,
                                       .n_options = sizeof options / sizeof options[0],
                                       .run       = run};
