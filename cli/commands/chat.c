/* chat.c - `reprise chat`: a conversation with a model on the terminal or from a pipe, one message per line.
 * Lines that begin with / are commands. */
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/default_model.h"
#include "cli/report.h"
#include "cli/sampler.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef RP_HAVE_EDIT
#include <editline/readline.h>
#endif

static struct {
    const char *model, *system, *template_name, *passes, *kv;
    int32_t     n, threads, ctx;
    SamplerArgs sampler;
    bool        no_template, parse_special, stats, quiet;
    DeviceArgs  device;
} args = {.sampler = SAMPLING_DEFAULTS};

typedef struct Chat {
    Conversation conversation;
    const char  *system;      /* args.system or `system_copy` */
    char        *system_copy; /* text of the last /system, malloc */
    Progress     progress;
    bool         terminal, quit, told_sampling;
    char         last; /* last character printed */
} Chat;

/* The next line without its newline, which the caller frees; NULL at the end of input. Ctrl-C at the prompt
 * ends the program. */
static char *read_line(const Chat *c) {
    char   *line = NULL;
    size_t  room = 0;
    ssize_t n;
    signal(SIGINT, SIG_DFL);
#ifdef RP_HAVE_EDIT
    if (c->terminal) {
        line = readline("> ");
        if (line != NULL && line[0] != '\0') add_history(line);
        return line;
    }
#endif
    if (c->terminal && !cli_print("> ", 2)) return NULL;
    n = getline(&line, &room, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n > 0 && line[n - 1] == '\n') line[--n] = '\0';
    if (strlen(line) != (size_t)n) { /* the rest would be lost; an empty line is no message */
        cli_say("reprise", "this line holds a NUL byte, which a message cannot: it was not sent");
        line[0] = '\0';
    }
    return line;
}

/* Streams a piece of the reply. False ends the reply: after Ctrl-C, or if stdout is closed. */
static bool on_text(const char *text, size_t len, void *user) {
    Chat *c = user;
    if (len > 0) c->last = text[len - 1];
    return cli_print(text, len) && !cli_interrupted();
}

/* The progress line must be gone before the first piece of the reply is printed. */
static bool on_prefill(int64_t done, int64_t total, void *user) {
    Chat      *c     = user;
    const bool go_on = cli_progress(&c->progress, (double)done, (double)total);
    if (done == total) cli_progress_end(&c->progress);
    return go_on;
}

/* Prints a remark of the program on stderr, in brackets to tell it from the reply. */
static void notice(const char *text) { fprintf(stderr, "[%s]\n", text); }

/* Sends a message and streams the reply. Errors that the next message can avoid are printed and return RP_OK. */
static RpStatus answer(Chat *c, const char *message) {
    const RpGenerateOptions o = {.max_tokens = args.n, .prefill_progress = on_prefill, .on_text = on_text, .user = c};
    RpGenerateResult        result = {0};
    c->last                        = '\n';
    c->progress                    = (Progress){.label = "prompt", .off = args.quiet};
    cli_forget_interrupt();
    cli_catch_interrupts();
    const RpStatus st = cli_converse(&c->conversation, message, &o, &result);
    cli_progress_end(&c->progress);
    if (c->last != '\n') (void)cli_print("\n", 1);
    if (st == RP_E_CONTEXT_FULL || st == RP_E_ARG) {
        cli_say("reprise", "%s", rp_last_error());
        if (st == RP_E_CONTEXT_FULL) notice("the context is full: /reset empties it, -c sets a larger one");
        return RP_OK;
    }
    RP_TRY(st);
    if (!c->told_sampling) cli_report_host_sampling(&result);
    c->told_sampling = true;
    if (result.reason == RP_STOP_CONTEXT) notice("the context is full: /reset empties it, -c sets a larger one");
    if (result.reason == RP_STOP_LIMIT) notice("stopped at the limit of -n");
    if (args.stats) cli_report(&(Report){c->conversation.session, &result, 0.0, result.first_token_s});
    cli_forget_interrupt();                           /* Ctrl-C ended the reply, perhaps while it was written */
    return cli_print("", 0) ? RP_OK : RP_E_CANCELLED; /* cli_close_stdout reports it */
}

/* /system TEXT: a conversation begins with its system message, so a new one is started. `text` may be empty. */
static RpStatus set_system(Chat *c, const char *text) {
    while (*text == ' ') text++;
    char *copy = text[0] != '\0' ? strdup(text) : NULL;
    if (text[0] != '\0' && copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the system message");
    free(c->system_copy);
    c->system_copy = copy;
    c->system      = copy;
    notice(copy != NULL ? "a new conversation with this system message" : "a new conversation without system message");
    return cli_conversation_reset(&c->conversation, c->system);
}

/* Runs a line that begins with a slash. An unknown command is reported, and not sent to the model as a message. */
static RpStatus run_command(Chat *c, const char *line) {
    static const char help[] =
        "  /reset        forget the conversation\n"
        "  /system TEXT  start a new conversation with this system message; without TEXT: with none\n"
        "  /quit         end the program, as Ctrl-D does\n"
        "  Ctrl-C        ends a reply; at the prompt it ends the program\n";
    if (strcmp(line, "/quit") == 0) {
        c->quit = true;
    } else if (strcmp(line, "/reset") == 0) {
        notice("a new conversation");
        return cli_conversation_reset(&c->conversation, c->system);
    } else if (strcmp(line, "/system") == 0 || strncmp(line, "/system ", 8) == 0) {
        return set_system(c, line + 7);
    } else if (strcmp(line, "/help") == 0) {
        fputs(help, stderr);
    } else {
        cli_say("reprise", "%s is none of the commands /help /reset /system /quit", line);
    }
    return RP_OK;
}

/* Reads lines until /quit or the end of the input. An error that it returns ends the program. */
static RpStatus run_conversation(Chat *c) {
    RP_TRY(cli_conversation_reset(&c->conversation, c->system));
    while (!c->quit) {
        char *line = read_line(c);
        if (line == NULL) {
            if (c->terminal) (void)cli_print("\n", 1);
            break;
        }
        RpStatus st = RP_OK;
        if (line[0] == '/')
            st = run_command(c, line);
        else if (line[0] != '\0')
            st = answer(c, line);
        free(line);
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

/* Opens model, sampler and session, then talks. The session comes last, since it may upload gigabytes to a GPU. The
 * caller frees all three, also after a failure. */
static RpStatus open_and_run(Chat *c, RpModel **model, RpSession **session, RpSampler **sampler) {
    RpDtype kv;
    RP_TRY(cli_kv_type(args.kv, &kv));
    RpSessionOptions o = {.n_ctx = args.ctx, .n_threads = args.threads, .passes = args.passes, .kv_type = kv};
    RP_TRY(cli_open_model(args.model, &args.device, args.quiet, model));
    RP_TRY(cli_need_tokenizer(*model, args.model));
    RP_TRY(open_format(*model, &c->conversation.format));
    RP_TRY(cli_open_sampler(&args.sampler, *model, sampler));
    RP_TRY(cli_open_session(*model, &args.device, args.quiet, &o, session));
    c->conversation.session       = *session;
    c->conversation.sampler       = *sampler;
    c->conversation.parse_special = args.parse_special;
    if (c->terminal && !args.quiet)
        fprintf(stderr, "%s, %s template, %d tokens of context; /help lists the commands\n",
                rp_model_info(*model)->name, c->conversation.format.name, rp_session_n_ctx(*session));
    return run_conversation(c);
}

static int run(void) {
    if (args.template_name != NULL && args.no_template) {
        cli_say("reprise chat", "--template and --no-template exclude each other (see `reprise chat --help`)");
        return EXIT_USAGE;
    }
    Chat       chat  = {.system = args.system, .terminal = isatty(STDIN_FILENO) != 0, .conversation = {.pending = -1}};
    RpModel   *model = NULL;
    RpSession *session = NULL;
    RpSampler *sampler = NULL;
    RpStatus   st      = open_and_run(&chat, &model, &session, &sampler);
    cli_conversation_free(&chat.conversation);
    free(chat.system_copy);
    rp_session_free(session);
    rp_sampler_free(sampler);
    cli_free_sampler_args(&args.sampler);
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
    CLI_INT("tokens", 'n', args.n, "N", "at most N tokens per reply; 0 (default): until the context is full", 0, 0),
    OPTIONS_SAMPLING(args.sampler),
    OPTION_THREADS(args.threads),
    OPTIONS_DEVICE(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_CTX(args.ctx),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    CLI_FLAG("stats", 0, args.stats, "print timings after each reply"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no greeting"),
};

const Command cli_command_chat = {.name      = "chat",
                                  .help      = "have a conversation with a model",
                                  .usage     = "[MODEL] [options]",
                                  .notes     = "Each line is one message. The context is kept from turn to turn. "
                                               "/help lists the commands. Lines may also come from a pipe. Messages, also "
                                               "that of --system, cannot forge turns: the text of a control token such "
                                               "as <|im_end|> is plain text in them, unless --parse-special is given.",
                                  .options   = options,
                                  .n_options = sizeof options / sizeof options[0],
                                  .run       = run};
