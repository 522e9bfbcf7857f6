/* chat.c - `reprise chat`: a conversation with a model on the terminal or from a pipe, one message per line.
 * Lines that begin with / are commands (cli/chat/commands.c). */
#include "cli/chat/chat.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/sampler.h"
#include "cli/terminal/style.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *model, *system, *template_name, *passes, *kv, *tools, *resume, *save;
    int32_t     n, threads, ctx, budget;
    SamplerArgs sampler;
    bool        no_template, parse_special, stats, quiet, show_reasoning;
    DeviceArgs  device;
    GuessArgs   guesses;

    ManifestArgs manifest;
} args = {.sampler = SAMPLING_OF_THE_MODEL};

/* Reads messages until /quit or the end of the input, or a signal that the input catches. An error that it returns ends
 * the program. */
static RpStatus run_conversation(Chat *c) {
    while (!c->quit) {
        InputText in;
        RP_TRY(cli_chat_read(&c->input, "> ", &in));
        if (c->input.catches && cli_interrupted()) {
            free(in.text);
            return rp_fail(RP_E_CANCELLED, "interrupted");
        }
        if (in.text == NULL) {
            if (c->input.terminal) (void)cli_print("\n", 1);
            break;
        }
        RpStatus st = RP_OK;
        if (in.text[0] == '/' && !in.block)
            st = cli_chat_command(c, in.text);
        else if (in.text[0] != '\0')
            st = cli_chat_answer(c, in.text);
        free(in.text);
        RP_TRY(st);
    }
    return RP_OK;
}

/* The demo model, which runs without -m, cannot chat: the error says which model can. */
static RpStatus open_format(const RpModel *m, ChatFormat *out) {
    const RpStatus st = cli_chat_format_open(m, args.template_name, args.no_template, out);
    if (st == RP_OK || args.template_name != NULL) return st;
    const char *searched, *demo = cli_default_model(&searched);
    if (demo == NULL || strcmp(args.model, demo) != 0 || rp_option(RP_OPT_MODEL)[0] != '\0') return st;
    return rp_fail(st, "the demo model was not trained to chat. `scripts/get-model.sh smollm2` fetches a model that "
                       "was; then: reprise chat models/smollm2-135m-instruct-q4_1.gguf");
}

/* True if the same messages get the same reply: nothing is random, and no step looks at earlier replies. */
static bool is_greedy(const RpSamplerParams *p) {
    const bool penalties = p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f;
    return p->temperature == 0.0f && p->dynatemp_range == 0.0f && p->xtc_probability == 0.0f && p->mirostat == 0 &&
           p->dry_multiplier == 0.0f && !penalties;
}

static RpStatus begin_dialogue(Chat *c, const RpChatTemplate *t) {
    RP_TRY(cli_dialogue_open(&c->dialogue, &c->generator, c->conversation.sampler, t));
    RP_TRY(cli_chat_reset(c));
    if (args.resume != NULL) RP_TRY(cli_dialogue_load(&c->dialogue, args.resume));
    if (args.tools != NULL) RP_TRY(cli_dialogue_tools(&c->dialogue, args.tools));
    if (args.resume != NULL && !args.quiet) cli_chat_report_resumed(c);
    return RP_OK;
}

static bool needs_dialogue(void) {
    return args.tools != NULL || args.resume != NULL || args.save != NULL || args.show_reasoning || args.budget > 0;
}

/* Templates in Jinja have a dialogue, except with --parse-special: messages of a dialogue have no control tokens. */
static RpStatus begin(Chat *c) {
    const RpChatTemplate *t = c->conversation.format.program;
    c->has_dialogue         = t != NULL && !args.no_template && !args.parse_special;
    c->input.utf8           = c->has_dialogue;
    if (c->has_dialogue) return begin_dialogue(c, t);
    if (needs_dialogue())
        return rp_fail(RP_E_UNSUPPORTED, "--tools, --resume, --save, --reasoning-budget and --show-reasoning need a "
                                         "chat template in Jinja, and no --parse-special");
    return cli_chat_reset(c);
}

static RpStatus record_run(Chat *c, const RpEngineOptions *engine) {
    const RecordingOf of = {.session    = c->generator.session,
                            .engine     = c->generator.engine,
                            .kv         = args.kv,
                            .passes     = args.passes,
                            .sampler    = &args.sampler,
                            .max_tokens = args.n,
                            .no_text    = args.manifest.no_text,
                            .load_s     = cli_since_start(),
                            .n_ctx      = cli_generator_n_ctx(&c->generator),
                            .n_mtp      = engine->n_mtp,
                            .n_draft    = cli_n_draft(&args.guesses)};
    return cli_recording_run(&c->recording, &of);
}

/* A session, or an engine where tokens are guessed. */
static RpStatus open_generator(Chat *c, const RpModel *m, RpModel **draft, RpEngineOptions *e) {
    RpDtype    kv;
    Generator *g = &c->generator;
    RP_TRY(cli_kv_type(args.kv, &kv));
    *e         = (RpEngineOptions){.n_ctx = args.ctx, .n_threads = args.threads, .passes = args.passes, .kv_type = kv};
    g->guesses = &args.guesses;
    if (cli_guesses_wanted(&args.guesses) || cli_guesses_by_mtp(&args.guesses, m, &args.device))
        return cli_open_guessing(&args.guesses, m, &args.device, args.quiet, e, &g->engine, draft);
    RpSessionOptions o = {.n_ctx         = args.ctx,
                          .n_threads     = args.threads,
                          .passes        = args.passes,
                          .kv_type       = kv,
                          .window_tokens = CLI_WINDOW_TOKENS};
    return cli_open_session(m, &args.device, args.quiet, &o, &g->session);
}

/* Opens models, sampler and generator, then talks. The generator comes last, since it may upload gigabytes to a GPU.
 * The caller frees all of them, also after a failure. */
static RpStatus open_and_run(Chat *c, RpModel **model, RpModel **draft, RpSampler **sampler) {
    RpEngineOptions e;
    if (c->input.catches) cli_catch_termination();
    if (args.save != NULL) RP_TRY(cli_dialogue_check_save(args.save));
    if (args.save != NULL) RP_TRY(cli_check_output(args.save));
    RP_TRY(cli_recording_open(&c->recording, &args.manifest, "chat", args.model, &args.device.adapters,
                              args.guesses.draft));
    RP_TRY(cli_open_model(args.model, &args.device, args.quiet, model));
    RP_TRY(cli_need_tokenizer(*model, args.model));
    RP_TRY(open_format(*model, &c->conversation.format));
    RP_TRY(cli_use_recommended(&args.sampler, *model, args.quiet));
    c->greedy = is_greedy(&args.sampler.p);
    RP_TRY(cli_open_sampler(&args.sampler, *model, sampler));
    RP_TRY(open_generator(c, *model, draft, &e));
    c->conversation.generator     = &c->generator;
    c->conversation.sampler       = *sampler;
    c->conversation.parse_special = args.parse_special;
    if (c->input.terminal && !args.quiet)
        fprintf(stderr, "%s, %s template, %d tokens of context; /help lists the commands\n",
                rp_model_info(*model)->name, c->conversation.format.name, cli_generator_n_ctx(&c->generator));
    RP_TRY(record_run(c, &e));
    RP_TRY(begin(c));
    const RpStatus st = run_conversation(c);
    if (args.save == NULL || cli_dialogue_n_messages(&c->dialogue) == 0) return st;
    const RpStatus saved = cli_dialogue_save(&c->dialogue, args.save);
    return st != RP_OK ? st : saved;
}

/* The replies of a conversation that a signal has ended are recorded too. */
static RpStatus close_recording(Chat *c, RpStatus st) {
    const bool     ended  = st == RP_E_CANCELLED && cli_interrupted();
    const RpStatus closed = cli_recording_close(&c->recording, ended ? RP_OK : st);
    return closed != RP_OK ? closed : st;
}

static int run(void) {
    const char *wrong = NULL;
    if (args.template_name != NULL && args.no_template) wrong = "--template and --no-template";
    if (args.system != NULL && args.resume != NULL) wrong = "--system and --resume";
    if (wrong != NULL) {
        cli_say("reprise chat", "%s exclude each other (see `reprise chat --help`)", wrong);
        return EXIT_USAGE;
    }
    wrong = cli_guesses_wrong(&args.guesses, args.device.mode);
    if (wrong != NULL) {
        cli_say("reprise chat", "%s (see `reprise chat --help`)", wrong);
        return EXIT_USAGE;
    }
    Chat chat = {
        .conversation   = {.pending = -1,                                               .last = -1},
        .input          = { .terminal = isatty(STDIN_FILENO) != 0,
                           .marks    = cli_is_terminal(stdout),
                           .catches  = args.save != NULL || args.manifest.path != NULL,
                           .command  = cli_chat_command_name},
        .system         = args.system,
        .n              = args.n,
        .budget         = args.budget,
        .seed           = args.sampler.p.seed,
        .stats          = args.stats,
        .quiet          = args.quiet,
        .show_reasoning = args.show_reasoning,
        .screen         = isatty(STDOUT_FILENO) != 0
    };
    RpModel   *model = NULL, *draft = NULL;
    RpSampler *sampler = NULL;
    RpStatus   st      = open_and_run(&chat, &model, &draft, &sampler);
    st                 = close_recording(&chat, st);
    cli_dialogue_free(&chat.dialogue);
    cli_conversation_free(&chat.conversation);
    free(chat.system_copy);
    rp_session_free(chat.generator.session);
    rp_engine_free(chat.generator.engine);
    rp_sampler_free(sampler);
    cli_free_sampler_args(&args.sampler);
    rp_model_free(draft);
    rp_model_free(model);
    return cli_print("", 0) ? cli_exit(st) : EXIT_ERROR; /* cli_close_stdout reports it */
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_TEXT("system", 0, args.system, "TEXT", "system message"),
    CLI_TEXT("template", 0, args.template_name, "TEMPLATE",
             "chat template: a file, or chatml, llama3, mistral, gemma or llama2; default: the model's"),
    CLI_FLAG("no-template", 0, args.no_template, "messages and replies as they are, one behind the other"),
    CLI_FLAG("parse-special", 0, args.parse_special,
             "recognise control tokens in messages too, which can then forge turns; default: messages are "
             "plain text"),
    CLI_FILE(FILE_READ, "tools", 0, args.tools, "FILE", "tools as JSON, an array; you give the results of calls"),
    CLI_FILE(FILE_RESUMED, "resume", 0, args.resume, "FILE", "go on with a conversation that --save or /save wrote"),
    CLI_FILE(FILE_CHECKPOINT, "save", 0, args.save, "FILE",
             "write the conversation at the end, also one by Ctrl-C, SIGTERM or SIGHUP, as /save does; a FILE.context "
             "has what the model read too, so that "
             "--resume goes on at once"),
    CLI_INT("reasoning-budget", 0, args.budget, "N", "close the reasoning after N tokens; 0 (default): no limit", 0, 0),
    CLI_FLAG("show-reasoning", 0, args.show_reasoning,
             "print the reasoning on standard error where the output is no terminal; default: it is left out"),
    CLI_INT("tokens", 'n', args.n, "N", "at most N tokens per reply; 0 (default): until the context is full", 0, 0),
    OPTIONS_SAMPLING(args.sampler),
    OPTIONS_GUESSES(args.guesses),
    OPTION_THREADS(args.threads),
    OPTIONS_DEVICE(args.device),
    OPTION_WATCHDOG(args.device),
    OPTION_BACKEND(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_CTX(args.ctx),
    OPTION_PASSES(args.passes),
    OPTION_TRACE,
    OPTION_KV(args.kv),
    OPTIONS_MANIFEST(args.manifest),
    CLI_FLAG("stats", 0, args.stats, "print timings after each reply"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress, no greeting, and no speed after a reply"),
};

const Command cli_command_chat = {
    .name  = "chat",
    .help  = "have a conversation with a model",
    .usage = "[MODEL] [options]",
    .notes =
        "Each line is one message; a backslash at its end goes on with the next "
        "line, and lines between two lines of three quotes are one message. The context is kept from turn to turn. "
        "/help lists the commands. Lines may also come from a pipe. Messages, also "
        "that of --system, cannot forge turns: the text of a control token such "
        "as <|im_end|> is plain text in them, unless --parse-special is given.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
