/* generate.c - `reprise generate`: one prompt, one reply. The text streams to stdout, a summary goes to
 * stderr; with --json one object goes to stdout at the end. */
#include "cli/chat_format.h"
#include "cli/commands.h"
#include "cli/experts.h"
#include "cli/guesses.h"
#include "cli/logprobs.h"
#include "cli/repeat/recording.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/sampler.h"
#include "cli/structured.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char    *model, *prompt, *file, *system, *template_name, *passes, *kv;
    int32_t        n, threads, ctx, logprobs;
    SamplerArgs    sampler;
    TextList       stop;
    bool           chat, no_template, parse_special, ignore_end, echo, special, json, quiet, experts;
    DeviceArgs     device;
    StructuredArgs structured;
    RequestArgs    request;
    GuessArgs      guesses;
    ManifestArgs   manifest;
} args = {.n = 256, .logprobs = -1, .sampler = SAMPLING_OF_THE_MODEL};

/* Everything that the command opens. */
typedef struct Run {
    RpModel    *model, *draft;
    RpSession  *session;
    RpEngine   *engine; /* instead of the session, if tokens are guessed */
    RpSampler  *sampler;
    Structure   structure;
    Text        prompt;
    RpTokenList ids, reply;
    char       *text; /* the reply, for JSON */
    size_t      n_text;
    bool        no_memory; /* for it, or for the log probabilities */
    Logprobs    logprobs;
    Recording   recording;
    char        last; /* last character printed */
    Progress    progress;
    int32_t     n_ctx; /* of the engine, for JSON and the recording */
} Run;

/* Streams a piece of the reply, or collects it for --json. False ends the reply: after Ctrl-C, or if stdout is
 * closed. */
static bool on_text(const char *text, size_t len, void *user) {
    Run *r = user;
    if (len > 0) r->last = text[len - 1];
    if (!args.json) return cli_print(text, len) && !cli_interrupted();
    char *grown = realloc(r->text, r->n_text + len + 1);
    if (grown == NULL) {
        r->no_memory = true;
        return false;
    }
    r->text = grown;
    memcpy(r->text + r->n_text, text, len);
    r->n_text += len;
    return !cli_interrupted();
}

static bool on_logprobs(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    Run *r       = user;
    r->no_memory = !cli_logprobs_add(&r->logprobs, chosen, top, n_top);
    return !r->no_memory;
}

/* The progress line must be gone before the first piece of the reply is printed. */
static bool on_prefill(int64_t done, int64_t total, void *user) {
    Run       *r     = user;
    const bool go_on = cli_progress(&r->progress, (double)done, (double)total);
    if (done == total) cli_progress_end(&r->progress);
    return go_on;
}

/* Replaces the prompt by the chat template around it and the system message, and tokenises it. */
static RpStatus apply_template(Run *r) {
    const RpTokenizer *tk    = rp_model_tokenizer(r->model);
    const unsigned     flags = RP_TOK_ADD_SPECIAL | (args.parse_special ? RP_TOK_PARSE_SPECIAL : 0u);
    if (strlen(r->prompt.bytes) != r->prompt.n)
        return rp_fail(RP_E_ARG, "the prompt holds a NUL byte, which a chat message cannot");
    const RpChatMessage messages[2] = {
        {"system", args.system    },
        {"user",   r->prompt.bytes}
    };
    const size_t skip    = args.system == NULL;
    ChatFormat   format  = {0};
    char        *text    = NULL;
    bool        *control = NULL;
    RpStatus     st      = cli_chat_format_open(r->model, args.template_name, args.no_template, &format);
    if (st == RP_OK) st = cli_chat_text(&format, messages + skip, 2 - skip, &text, &control);
    if (st == RP_OK) st = rp_tokenize_masked(tk, text, control, strlen(text), flags, &r->ids);
    cli_chat_format_free(&format);
    free(control);
    if (st != RP_OK) {
        free(text);
        return st;
    }
    free(r->prompt.bytes);
    r->prompt = (Text){text, strlen(text)};
    return RP_OK;
}

static bool is_request(void) {
    const RequestArgs *r = &args.request;
    return r->messages != NULL || r->tools != NULL || r->events || r->budget > 0;
}

static bool not_for_requests(void) {
    return args.json || args.echo || args.ignore_end || args.special || args.experts || args.logprobs >= 0;
}

/* The user is the author of a raw prompt: control tokens may be spelt out. */
static RpStatus tokenize_prompt(Run *r) {
    if (args.chat) return apply_template(r);
    return rp_tokenize(rp_model_tokenizer(r->model), r->prompt.bytes, r->prompt.n,
                       RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, &r->ids);
}

static RpStatus record_run(Run *r, const RpEngineOptions *engine) {
    if (!cli_recording_is_on(&r->recording)) return RP_OK;
    const RecordingOf of = {.session    = r->session,
                            .engine     = r->engine,
                            .kv         = args.kv,
                            .passes     = args.passes,
                            .sampler    = &args.sampler,
                            .stop       = &args.stop,
                            .max_tokens = args.n,
                            .ignore_end = args.ignore_end,
                            .no_text    = args.manifest.no_text,
                            .load_s     = cli_since_start(),
                            .n_ctx      = r->n_ctx,
                            .n_mtp      = engine != NULL ? engine->n_mtp : 0,
                            .n_draft    = cli_n_draft(&args.guesses)};
    RP_TRY(cli_recording_run(&r->recording, &of));
    return cli_recording_turn(&r->recording, r->sampler);
}

/* The session comes last, since it may upload gigabytes to a GPU. */
static RpStatus open_all(Run *r) {
    RP_TRY(cli_recording_open(&r->recording, &args.manifest, "generate", args.model, &args.device.adapters,
                              args.guesses.draft));
    if (args.request.messages == NULL) RP_TRY(cli_read_text(args.prompt, args.file, &r->prompt));
    RP_TRY(cli_open_model(args.model, &args.device, args.quiet, &r->model));
    RP_TRY(cli_need_tokenizer(r->model, args.model));
    if (!is_request()) RP_TRY(tokenize_prompt(r));
    if (!is_request() && r->ids.n == 0)
        return rp_fail(RP_E_ARG, "the prompt is empty and this model has no beginning-of-sequence token to start "
                                 "from: give some text");
    if (!is_request()) RP_TRY(cli_structure_open(&args.structured, r->model, &r->structure));
    RP_TRY(cli_use_recommended(&args.sampler, r->model, args.quiet));
    RP_TRY(cli_open_sampler(&args.sampler, r->model, &r->sampler));
    RpDtype kv;
    RP_TRY(cli_kv_type(args.kv, &kv));
    const bool by_mtp = !args.experts && cli_guesses_by_mtp(&args.guesses, r->model, &args.device);
    if (cli_guesses_wanted(&args.guesses) || by_mtp) {
        RpEngineOptions e = {.n_ctx = args.ctx, .n_threads = args.threads, .passes = args.passes, .kv_type = kv};
        RP_TRY(cli_open_guessing(&args.guesses, r->model, &args.device, args.quiet, &e, &r->engine, &r->draft));
        r->n_ctx = rp_engine_stats(r->engine).n_ctx;
        return record_run(r, &e);
    }
    RpSessionOptions o = {.n_ctx         = args.ctx,
                          .n_threads     = args.threads,
                          .passes        = args.passes,
                          .count_experts = args.experts,
                          .kv_type       = kv,
                          .window_tokens = CLI_WINDOW_TOKENS};
    RP_TRY(cli_open_session(r->model, &args.device, args.quiet, &o, &r->session));
    return record_run(r, NULL);
}

/* Records the grammar that held the reply to a plain prompt. */
static void record_structure(Run *r) {
    const StructuredArgs *a = &args.structured;
    if (r->structure.text != NULL)
        cli_recording_held(&r->recording, a->schema != NULL ? MANIFEST_SCHEMA : MANIFEST_GBNF, r->structure.text,
                           r->structure.n, NULL, 0);
    if (a->regex != NULL) cli_recording_held(&r->recording, MANIFEST_REGEX, a->regex, strlen(a->regex), NULL, 0);
    if (a->json_object) cli_recording_held(&r->recording, MANIFEST_JSON, "", 0, NULL, 0);
}

static RpStatus record_reply(Run *r, const RpGenerateResult *result) {
    if (!is_request()) record_structure(r);
    return cli_recording_end_turn(&r->recording, r->sampler, r->ids.ids, r->ids.n, 0, result);
}

static void close_all(Run *r) {
    rp_session_free(r->session);
    rp_engine_free(r->engine);
    rp_model_free(r->draft);
    rp_sampler_free(r->sampler);
    cli_structure_free(&r->structure);
    rp_token_list_free(&r->reply);
    rp_token_list_free(&r->ids);
    rp_model_free(r->model);
    free(r->prompt.bytes);
    free(r->text);
    cli_logprobs_free(&r->logprobs);
    cli_free_sampler_args(&args.sampler);
    free(args.stop.items);
}

static void print_json_reply(const Run *r) {
    printf("{\"model\":");
    rp_put_json_string(args.model, strlen(args.model), stdout);
    printf(",\"text\":");
    rp_put_json_string(r->text, r->n_text, stdout);
    printf(",\"tokens\":[");
    for (size_t i = 0; i < r->reply.n; i++) printf("%s%d", i > 0 ? "," : "", r->reply.ids[i]);
    printf("],\"seed\":%llu,", (unsigned long long)args.sampler.p.seed);
}

static void print_json_end(const Run *r) {
    if (args.logprobs >= 0) cli_logprobs_json(&r->logprobs, rp_model_tokenizer(r->model), stdout);
    if (args.experts) cli_experts_json(r->session, stdout);
    printf("}\n");
}

/* A request with tools or messages: the events of the reply are printed. */
static RpStatus reply_to_request(Run *r) {
    EventPrinter printer = {.json = args.request.events};
    ChatFormat   format  = {0};
    RpChatResult result  = {0};
    GuessResult  guesses = {0};
    char        *json    = NULL;
    RP_TRY(open_all(r));
    const double load_s     = cli_since_start();
    args.request.structured = &args.structured;
    RpStatus st             = cli_request_json(&args.request, r->prompt.bytes, args.system, &json);
    if (st == RP_OK) st = cli_chat_format_open(r->model, args.template_name, args.no_template, &format);
    if (st == RP_OK && format.program == NULL)
        st = rp_fail(RP_E_UNSUPPORTED,
                     "--messages, --tools, --events and --reasoning-budget need a chat template in Jinja");
    if (st == RP_OK) {
        const RpChatOptions o = {.json             = json,
                                 .json_bytes       = strlen(json),
                                 .chat_template    = format.program,
                                 .context          = cli_recording_is_on(&r->recording) ? &r->ids : NULL,
                                 .max_tokens       = args.n,
                                 .reasoning_budget = args.request.budget,
                                 .id_seed          = args.sampler.p.seed,
                                 .on_event         = cli_print_event,
                                 .user             = &printer,
                                 .on_note          = args.quiet ? NULL : cli_report_note,
                                 .stop             = args.stop.items,
                                 .n_stop           = args.stop.n};
        st = r->engine != NULL ? cli_chat_guessing(&args.guesses, r->engine, r->sampler, &o, &result, &guesses)
                               : rp_chat_generate(r->session, r->sampler, &o, &result);
        if (st == RP_OK)
            cli_recording_held(&r->recording, MANIFEST_CHAT, json, strlen(json), format.source, o.reasoning_budget);
    }
    cli_chat_format_free(&format);
    free(json);
    if (printer.any && printer.last != '\n') (void)cli_print("\n", 1);
    RP_TRY(st);
    if (result.describes_tools) cli_report_tools();
    const RpGenerateResult g = {.reason        = result.reason,
                                .n_prompt      = result.n_prompt,
                                .n_generated   = result.n_generated,
                                .prefill_s     = result.prefill_s,
                                .decode_s      = result.decode_s,
                                .first_token_s = result.first_token_s,
                                .host_sampling = result.host_sampling};
    if (r->ids.n > (size_t)g.n_prompt) r->ids.n = (size_t)g.n_prompt;
    RP_TRY(record_reply(r, &g));
    cli_report_host_sampling(&g);
    guesses.reply       = g;
    const Report report = {
        .session = r->session, .result = &g, .load_s = load_s, .first_token_s = load_s + g.first_token_s};
    if (!args.quiet && r->engine != NULL) cli_report_guessing(&guesses, load_s, load_s + g.first_token_s);
    if (!args.quiet && r->engine == NULL) cli_report(&report);
    return RP_OK;
}

static RpGenerateOptions options_of(Run *r) {
    return (RpGenerateOptions){.max_tokens       = args.n,
                               .stop             = args.stop.items,
                               .n_stop           = args.stop.n,
                               .ignore_end       = args.ignore_end,
                               .print_special    = args.special,
                               .prefill_progress = on_prefill,
                               .on_text          = on_text,
                               .user             = r,
                               .tokens           = &r->reply,
                               .on_logprobs      = args.logprobs >= 0 ? on_logprobs : NULL,
                               .n_logprobs       = args.logprobs > 0 ? args.logprobs : 0,
                               .matcher          = r->structure.matcher};
}

/* The same with guesses. */
static RpStatus generate_guessing(Run *r) {
    GuessResult             result;
    const RpGenerateOptions o      = options_of(r);
    const double            load_s = cli_since_start();
    if (args.echo) (void)on_text(r->prompt.bytes, r->prompt.n, r);
    const double   begin = cli_since_start();
    const RpStatus st    = cli_generate_guessing(&args.guesses, r->engine, r->sampler, &r->ids, 0, &o, &result);
    cli_progress_end(&r->progress);
    if (!args.json && r->last != '\0' && r->last != '\n') (void)cli_print("\n", 1);
    RP_TRY(st);
    if (r->no_memory) return rp_fail(RP_E_NOMEM, "out of memory for the text of the reply");
    RP_TRY(record_reply(r, &result.reply));
    if (!cli_print("", 0)) return RP_OK; /* stdout is closed; cli_close_stdout reports it */
    if (args.json) {
        print_json_reply(r);
        cli_guessing_json(&result, r->n_ctx, load_s, begin + result.reply.first_token_s, stdout);
        print_json_end(r);
        return RP_OK;
    }
    if (args.logprobs >= 0) cli_logprobs_print(&r->logprobs, rp_model_tokenizer(r->model), stderr);
    if (!args.quiet) cli_report_guessing(&result, load_s, begin + result.reply.first_token_s);
    return RP_OK;
}

/* Opens everything, generates and reports. The caller closes, also after a failure. */
static RpStatus generate(Run *r, RpGenerateResult *result) {
    RP_TRY(open_all(r));
    if (r->engine != NULL) return generate_guessing(r);
    const RpGenerateOptions o      = options_of(r);
    const double            load_s = cli_since_start();
    if (args.echo) (void)on_text(r->prompt.bytes, r->prompt.n, r);
    const double   begin  = cli_since_start();
    const RpStatus st     = rp_generate(r->session, r->sampler, r->ids.ids, r->ids.n, &o, result);
    const Report   report = {
          .session = r->session, .result = result, .load_s = load_s, .first_token_s = begin + result->first_token_s};
    cli_progress_end(&r->progress);
    if (!args.json && r->last != '\0' && r->last != '\n') (void)cli_print("\n", 1);
    RP_TRY(st);
    if (r->no_memory) return rp_fail(RP_E_NOMEM, "out of memory for the text of the reply");
    RP_TRY(record_reply(r, result));
    cli_report_host_sampling(result);
    if (!cli_print("", 0)) return RP_OK; /* stdout is closed; cli_close_stdout reports it */
    if (args.json) {
        print_json_reply(r);
        cli_report_json(&report, stdout);
        print_json_end(r);
    }
    if (!args.json && args.logprobs >= 0) cli_logprobs_print(&r->logprobs, rp_model_tokenizer(r->model), stderr);
    if (!args.json && !args.quiet) cli_report(&report);
    if (!args.json && args.experts) cli_experts_print(r->session, stderr);
    return RP_OK;
}

static int run(void) {
    Run r = {
        .progress = {.label = "prompt", .off = args.quiet}
    };
    RpGenerateResult result    = {0};
    const char      *wrong     = NULL;
    const int        n_prompts = (args.prompt != NULL) + (args.file != NULL) + (args.request.messages != NULL);
    if (args.request.messages != NULL && n_prompts == 1) args.chat = true;
    if (n_prompts != 1)
        wrong = "one prompt is needed: -p TEXT, -f FILE, --messages FILE, or -p - for standard input";
    else if (!args.chat && (args.system != NULL || args.template_name != NULL || args.no_template))
        wrong = "--system, --template and --no-template go with --chat";
    else if (is_request() && !args.chat)
        wrong = "--tools, --events and --reasoning-budget go with --chat or --messages";
    else if (is_request() && not_for_requests())
        wrong = "--json, --echo, --ignore-eos, --special, --experts and --logprobs do not go with tools, messages and "
                "events";
    else if (args.template_name != NULL && args.no_template)
        wrong = "--template and --no-template exclude each other";
    else if (!args.chat && args.parse_special)
        wrong = "--parse-special goes with --chat; a prompt without --chat may spell out control tokens";
    else if (cli_guesses_wanted(&args.guesses) && args.experts)
        wrong = "--lookup and --draft do not go with --experts";
    else if (cli_guesses_wrong(&args.guesses, args.device.mode) != NULL)
        wrong = cli_guesses_wrong(&args.guesses, args.device.mode);
    else
        wrong = cli_structured_wrong(&args.structured);
    if (wrong != NULL) {
        cli_say("reprise generate", "%s (see `reprise generate --help`)", wrong);
        return EXIT_USAGE;
    }
    if (args.manifest.path != NULL)
        cli_catch_termination();
    else
        cli_catch_interrupts();
    RpStatus st = is_request() ? reply_to_request(&r) : generate(&r, &result);
    st          = cli_recording_close(&r.recording, st);
    close_all(&r);
    return st == RP_OK && cli_interrupted() ? 128 + cli_interrupt_signal() : cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_TEXT("prompt", 'p', args.prompt, "TEXT", "the prompt; -: standard input"),
    CLI_FILE(FILE_READ, "file", 'f', args.file, "FILE", "read the prompt from a file; -: standard input"),
    CLI_INT("tokens", 'n', args.n, "N", "at most N tokens, default 256; 0: until the context is full", 0, 0),
    OPTIONS_SAMPLING(args.sampler),
    OPTION_THREADS(args.threads),
    OPTIONS_DEVICE(args.device),
    OPTION_WATCHDOG(args.device),
    OPTION_BACKEND(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_CTX(args.ctx),
    CLI_LIST("stop", 0, args.stop, "TEXT", "end the reply before this text; may be repeated"),
    OPTIONS_STRUCTURED(args.structured),
    OPTIONS_GUESSES(args.guesses),
    CLI_FLAG("chat", 0, args.chat, "the prompt is a message: apply the chat template"),
    CLI_TEXT("system", 0, args.system, "TEXT", "system message; with --chat"),
    CLI_TEXT("template", 0, args.template_name, "TEMPLATE",
             "chat template: a file, or chatml, llama3, mistral, gemma or llama2; with --chat; default: the model's"),
    CLI_FLAG("no-template", 0, args.no_template, "the messages as they are, one behind the other; with --chat"),
    CLI_FLAG("parse-special", 0, args.parse_special,
             "recognise control tokens in the prompt and system message too; with --chat; default: they are "
             "plain text"),
    CLI_FILE(FILE_READ, "messages", 0, args.request.messages, "FILE",
             "messages as JSON: an array, or a request with messages, tools and variables of the template"),
    CLI_FILE(FILE_READ, "tools", 0, args.request.tools, "FILE", "tools as JSON, an array; with --chat or --messages"),
    CLI_FLAG("events", 0, args.request.events,
             "print the events of the reply as JSON lines; with --chat or --messages"),
    CLI_INT("reasoning-budget", 0, args.request.budget, "N",
            "close the reasoning after N tokens; with --chat or --messages; 0: no limit", 0, 0),
    CLI_FLAG("ignore-eos", 0, args.ignore_end, "continue after end-of-text tokens"),
    CLI_FLAG("special", 0, args.special, "print control tokens too"),
    CLI_FLAG("echo", 0, args.echo, "print the prompt before the reply"),
    CLI_INT("logprobs", 0, args.logprobs, "N",
            "print the log probability of each token, and those of the N most probable ones, before any sampling", 0,
            0),
    CLI_FLAG("experts", 0, args.experts, "print how often each expert of each layer was chosen"),
    OPTION_PASSES(args.passes),
    OPTION_TRACE,
    OPTION_KV(args.kv),
    OPTIONS_MANIFEST(args.manifest),
    CLI_FLAG("json", 0, args.json, "print one JSON object at the end instead of the text"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_generate = {
    .name      = "generate",
    .help      = "continue a prompt, or answer it with --chat",
    .usage     = "[MODEL] (-p TEXT | -f FILE) [options]",
    .notes     = "The reply goes to standard output as it comes, a summary to standard error. The times of `load` "
                 "and `first` count from the start of the program. Control tokens such as <|im_end|> may be spelt out "
                 "in the prompt; with --chat that is plain text. "
                 "Ctrl-C ends the reply; the exit status is then 130.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
