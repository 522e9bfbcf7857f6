/* serve.c - `reprise serve`: an HTTP server for models (server/server.h). */
#include "server/server.h"

#include "cli/chat_format.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/diff/graph_source.h"
#include "cli/guesses.h"
#include "cli/page/page.h"
#include "cli/repeat/recording.h"

#include <stdlib.h>
#include <string.h>

enum { MB = 1000000 };

static struct {
    const char *host, *model, *alias, *template_name, *models_dir, *keys, *log_file, *passes, *kv;
    const char *manifest_dir;
    TextList    hosts, origins;
    int32_t     port, parallel, ctx, threads, cache_tokens, step_tokens, step_ms, state_mb, memory_mb, body_mb, queue;
    int32_t     per_minute, connections, read_s, drain_s, ping_s, tokens, budget, manifest_keep;
    bool        check, quiet, manifest_no_text;
    SamplerArgs sampler;
    DeviceArgs  device;
    GuessArgs   guesses;
} args = {.host          = "127.0.0.1",
          .port          = 8080,
          .parallel      = 4,
          .queue         = 64,
          .body_mb       = 16,
          .connections   = 4096,
          .read_s        = 60,
          .drain_s       = 30,
          .ping_s        = 15,
          .step_ms       = 100,
          .manifest_keep = 1000,
          .sampler       = SAMPLING_OF_THE_MODEL};

/* --lora is for the model of -m. */
static RpStatus open_model(const char *path, RpModel **out, void *user) {
    DeviceArgs device = args.device;
    (void)user;
    if (args.model == NULL || strcmp(path, args.model) != 0) device.adapters = (TextList){0};
    return cli_open_model(path, &device, true, out);
}

/* The page goes to clients, which must not see the folders of the server. */
static RpStatus graph_page(const RpModel *m, const ComputeGraph *g, int32_t n_ctx, FILE *out) {
    char title[256];
    cli_graph_title(m, 1, n_ctx, title, sizeof title);
    return cli_page_graph_to(m, g, &(PageOptions){.title = title, .times = "", .base_names = true}, out);
}

static bool say_url(const char *url, void *user) {
    (void)user;
    char      line[160];
    const int n = snprintf(line, sizeof line, "listening at %s\n", url);
    return cli_print(line, (size_t)n);
}

static RpStatus engine_options(RpEngineOptions *out) {
    *out = (RpEngineOptions){.n_ctx        = args.ctx,
                             .n_seq        = args.parallel,
                             .cache_tokens = args.cache_tokens,
                             .step_tokens  = args.step_tokens,
                             .step_ms      = args.step_ms,
                             .n_threads    = args.threads,
                             .passes       = args.passes,
                             .state_bytes  = (size_t)args.state_mb * MB};
    cli_engine_options(&args.guesses, &args.device, out);
    /* With --memory no repacked copies are made unless they are asked for: that memory is for models. */
    out->repack = cli_repack(out->repack, args.memory_mb > 0                  ? "off"
                                          : cli_guesses_wanted(&args.guesses) ? "auto"
                                                                              : NULL);
    return cli_kv_type(args.kv, &out->kv_type);
}

static RpStatus serve(RpLogitBias *bias, const RpModel *draft, const char *chat_template, Recording *recording) {
    ServerOptions o = {.host              = args.host,
                       .port              = args.port,
                       .model             = args.model,
                       .alias             = args.alias,
                       .chat_template     = chat_template,
                       .template_name     = args.template_name,
                       .models_dir        = args.models_dir,
                       .memory_bytes      = (size_t)args.memory_mb * MB,
                       .keys_file         = args.keys,
                       .allow_hosts       = args.hosts.items,
                       .n_allow_hosts     = args.hosts.n,
                       .allow_origins     = args.origins.items,
                       .n_allow_origins   = args.origins.n,
                       .log_file          = args.log_file,
                       .queue             = args.queue,
                       .tokens_per_minute = args.per_minute,
                       .connections       = args.connections,
                       .read_seconds      = args.read_s,
                       .drain_seconds     = args.drain_s,
                       .ping_seconds      = args.ping_s,
                       .body_bytes        = (size_t)args.body_mb * MB,
                       .max_tokens        = args.tokens,
                       .reasoning_budget  = args.budget,
                       .n_draft           = cli_n_draft(&args.guesses),
                       .manifest_dir      = args.manifest_dir,
                       .manifest_keep     = args.manifest_keep,
                       .manifest_text     = !args.manifest_no_text,
                       .open_model        = open_model,
                       .graph_page        = graph_page,
                       .graph_page_policy = page_policy,
                       .listening         = say_url};
    if (args.manifest_dir != NULL && args.device.backend != NULL)
        return rp_fail(RP_E_UNSUPPORTED, "--manifest-dir describes the built-in kernels only, not backend %s",
                       args.device.backend);
    if (args.manifest_dir != NULL) {
        RP_TRY(cli_recording_begin(recording, args.manifest_no_text, "serve", NULL, &args.device.adapters,
                                   args.guesses.draft));
        recording->m.kv     = args.kv != NULL ? args.kv : "f16";
        recording->m.passes = args.passes;
        o.manifest          = &recording->m;
    }
    RP_TRY(engine_options(&o.engine));
    RP_TRY(cli_sampler_params(&args.sampler, bias, &o.sampler));
    o.engine.draft = draft;
    if (!args.check) return server_run(&o);
    RP_TRY(server_check(&o));
    puts("ok");
    return RP_OK;
}

/* The draft model outlives the engines. */
static RpStatus serve_guessing(RpLogitBias *bias, const char *chat_template) {
    const DeviceArgs plain = {.no_mmap = args.device.no_mmap};
    RpModel         *draft = NULL;
    if (args.guesses.draft != NULL) RP_TRY(cli_open_model(args.guesses.draft, &plain, true, &draft));
    Recording recording = {0};
    RpStatus  st        = serve(bias, draft, chat_template, &recording);
    st                  = cli_recording_close(&recording, st);
    rp_model_free(draft);
    return st;
}

static RpStatus serve_all(RpLogitBias *bias) {
    char *chat_template = NULL;
    if (args.template_name != NULL) RP_TRY(cli_chat_source(args.template_name, &chat_template));
    const RpStatus st = serve_guessing(bias, chat_template);
    free(chat_template);
    return st;
}

static int run(void) {
    const char *searched;
    if (args.model == NULL && args.models_dir == NULL) args.model = cli_default_model(&searched);
    if (args.model == NULL && args.models_dir == NULL) {
        cli_say("reprise serve", "a MODEL is needed: there is no demo model (%s) (see `reprise serve --help`)",
                searched);
        return EXIT_USAGE;
    }
    const char *wrong = cli_guesses_wrong(&args.guesses, NULL);
    if (wrong == NULL && args.guesses.draft != NULL && args.model == NULL) wrong = "--draft needs a MODEL";
    if (wrong == NULL && args.template_name != NULL && args.model == NULL) wrong = "--template needs a MODEL";
    if (wrong != NULL) {
        cli_say("reprise serve", "%s (see `reprise serve --help`)", wrong);
        return EXIT_USAGE;
    }
    RpLogitBias *bias = calloc(args.sampler.bias.n + 1, sizeof *bias);
    RpStatus     st   = bias != NULL ? serve_all(bias) : rp_fail(RP_E_NOMEM, "out of memory for biases");
    free(bias);
    free(args.hosts.items);
    free(args.origins.items);
    free(args.device.adapters.items);
    cli_free_sampler_args(&args.sampler);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_MODEL_OPTIONAL(
        "model", 'm', args.model, "MODEL",
        "the model, with or without -m before it; default: without --models-dir, REPRISE_MODEL or the demo "
        "model"),
    CLI_TEXT("alias", 0, args.alias, "NAME", "name of the model for clients; default: the name of its file"),
    CLI_TEXT("template", 0, args.template_name, "TEMPLATE",
             "chat template of MODEL: a file, or chatml, llama3, mistral, gemma or llama2; default: its own"),
    CLI_TEXT("models-dir", 0, args.models_dir, "DIR",
             "serve the GGUF files and Hugging Face directories of DIR by name, loaded when they are first used"),
    CLI_INT("memory", 0, args.memory_mb, "MB",
            "memory of all loaded models; the idle one that was used the longest time ago is unloaded to make room; 0 "
            "(default): no limit",
            0, 0),
    CLI_TEXT("host", 0, args.host, "HOST", "address or name to listen on; default 127.0.0.1"),
    CLI_INT("port", 'p', args.port, "PORT", "default 8080; 0: any that is free", 0, 65535),
    CLI_INT("parallel", 0, args.parallel, "N", "replies that run at the same time, default 4", 1, 64),
    CLI_INT("queue", 0, args.queue, "N", "replies that may wait, default 64", 0, 65536),
    OPTION_CTX(args.ctx),
    OPTION_THREADS(args.threads),
    CLI_INT("cache-tokens", 0, args.cache_tokens, "N",
            "tokens of the KV cache, which replies and prefixes share; 0 (default): --parallel whole contexts", 0, 0),
    CLI_INT("state-mb", 0, args.state_mb, "MB", "recurrent states of prefixes; 0 (default): 268", 0, 0),
    CLI_INT("step-tokens", 0, args.step_tokens, "N", "tokens of the longest step, default 256", 0, 4096),
    CLI_INT("step-ms", 0, args.step_ms, "MS",
            "while replies run, prompts are cut so that a step takes no longer; default 100; 0: no limit", 0, 0),
    OPTIONS_GUESSES(args.guesses),
    CLI_INT("tokens", 'n', args.tokens, "N",
            "at most N tokens per reply, unless the request says it; 0 (default): until the context is full", 0, 0),
    CLI_INT("reasoning-budget", 0, args.budget, "N",
            "close the reasoning after N tokens, unless the request says it; 0 (default): no limit", 0, 0),
    CLI_FILE(
        FILE_READ, "keys", 0, args.keys, "FILE",
        "clients need one of these keys of 8 to 255 characters: lines of KEY or NAME KEY; SIGHUP reads the file again"),
    CLI_INT("tokens-per-minute", 0, args.per_minute, "N", "of prompts and replies of a key; 0 (default): no limit", 0,
            0),
    CLI_LIST("allow-host", 0, args.hosts, "NAME", "a name of this server that clients use; may be repeated"),
    CLI_LIST("allow-origin", 0, args.origins, "ORIGIN",
             "pages of this origin may use the server, such as https://example.org; *: all; may be repeated"),
    CLI_INT("body-mb", 0, args.body_mb, "MB", "the largest request, default 16", 1, 1024),
    CLI_INT("connections", 0, args.connections, "N", "open connections, default 4096", 1, 1 << 20),
    CLI_INT("read-seconds", 0, args.read_s, "S", "a request must be read within S seconds; default 60", 1, 86400),
    CLI_INT("ping-seconds", 0, args.ping_s, "S", "a stream without events gets a ping; default 15", 1, 86400),
    CLI_INT("drain-seconds", 0, args.drain_s, "S",
            "after SIGTERM, answers that are not complete in S seconds end with an error; default 30", 0, 86400),
    CLI_FILE(FILE_WRITTEN, "log-file", 0, args.log_file, "FILE", "append the log, JSON lines; default: standard error"),
    CLI_TEXT("manifest-dir", 0, args.manifest_dir, "DIR",
             "write a manifest of each reply into this folder, for `reprise repeat`"),
    CLI_INT("manifest-keep", 0, args.manifest_keep, "N", "keep the newest N of them, default 1000", 1, 1 << 20),
    CLI_FLAG("manifest-no-text", 0, args.manifest_no_text, "they have tokens as numbers only, and not the arguments"),
    CLI_FLAG("check", 0, args.check, "check options, keys and models, and exit"),
    OPTIONS_SAMPLING(args.sampler),
    CLI_TEXT("device", 0, args.device.name, "DEVICE", "auto, cpu, cuda or cuda:N; default: REPRISE_DEVICE"),
    OPTION_REQUIRE_CUDA(args.device),
    OPTION_REQUIRE_GRAPH(args.device),
    OPTION_REPACK(args.device, "auto; codebook with --parallel 1 and neither --lookup nor --draft; off with --memory"),
    OPTION_BACKEND(args.device),
    OPTION_WATCHDOG(args.device),
    CLI_FLAG("no-mmap", 0, args.device.no_mmap, "read the model into memory instead of mapping the file"),
    OPTION_LORA(args.device.adapters),
    OPTION_PASSES(args.passes),
    OPTION_TRACE,
    OPTION_KV(args.kv),
};

const Command cli_command_serve = {
    .name    = "serve",
    .help    = "serve models over HTTP: the APIs of OpenAI and others, a page to chat",
    .usage   = "[MODEL] [options]",
    .notes   = "The first line of standard output is the address. SIGTERM and Ctrl-C end the server after the answers "
               "that are running.\n"
               "Requests take the sampling options from here unless they say otherwise. Without a seed each request "
               "draws one.\n"
               "1 MB is 1,000,000 bytes. docs/server.md describes paths, keys and limits.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
