/* turn.c - a message, its reply, and the rounds of tool calls and results between them. */
#include "cli/chat/chat.h"
#include "cli/chat/show.h"
#include "cli/report.h"
#include "cli/sampler.h"
#include "cli/terminal/style.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_chat_notice(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputc('[', stderr);
    vfprintf(stderr, fmt, ap);
    fputs("]\n", stderr);
    va_end(ap);
}

/* The progress line must be gone before the first piece of the reply is printed. */
static bool draw_prefill(Chat *c, int64_t done, int64_t total) {
    const bool go_on = cli_progress(&c->progress, (double)done, (double)total);
    if (done == total) cli_progress_end(&c->progress);
    return go_on;
}

static void begin_reply(Chat *c) {
    c->progress = (Progress){.label = "prompt", .off = c->quiet};
    cli_forget_interrupt();
    cli_catch_interrupts();
}

static const char full[] = "the context is full: /reset empties it, -c sets a larger one";

/* Prints an error that the next message can avoid, and returns RP_OK; returns others. */
static RpStatus excuse(RpStatus st) {
    if (st != RP_E_CONTEXT_FULL && st != RP_E_ARG && st != RP_E_FORMAT && st != RP_E_UNSUPPORTED) return st;
    cli_say("reprise", "%s", rp_last_error());
    if (st == RP_E_CONTEXT_FULL) cli_chat_notice(full);
    return RP_OK;
}

/* Prints the remarks and figures that follow a reply. */
static RpStatus end_reply(Chat *c, const RpGenerateResult *r) {
    if (!c->told_sampling) cli_report_host_sampling(r);
    c->told_sampling = true;
    if (r->reason == RP_STOP_CONTEXT) cli_chat_notice(full);
    if (r->reason == RP_STOP_LIMIT) cli_chat_notice("stopped at the limit of -n");
    c->generator.latest.reply = *r;
    if (c->stats && c->generator.session == NULL)
        cli_report_guessing(&c->generator.latest, 0.0, r->first_token_s);
    else if (c->stats)
        cli_report(&(Report){.session = c->generator.session, .result = r, .first_token_s = r->first_token_s});
    else if (c->screen && isatty(STDERR_FILENO) && !c->quiet && r->n_generated > 0)
        fprintf(stderr, "%s%d token%s, %.1f tok/s%s\n", cli_style(stderr, STYLE_DIM), r->n_generated,
                r->n_generated == 1 ? "" : "s", cli_decode_rate(r), cli_style(stderr, STYLE_PLAIN));
    cli_forget_interrupt();                           /* Ctrl-C ended the reply, perhaps while it was written */
    return cli_print("", 0) ? RP_OK : RP_E_CANCELLED; /* cli_close_stdout reports it */
}

/* The context has the prompt, and the reply without its last token. */
static RpStatus record_turn(Chat *c, RpSampler *sampler, const RpTokenList *context, const RpGenerateResult *r) {
    const int32_t n = (int32_t)context->n - (r->n_generated > 0 ? r->n_generated - 1 : 0);
    return cli_recording_end_turn(&c->recording, sampler, context->ids, (size_t)n, c->generator.n_seen, r);
}

/* ---- plain conversations ---- */

/* Streams a piece of the reply. False ends the reply: after Ctrl-C, or if stdout is closed. */
static bool on_text(const char *text, size_t len, void *user) {
    Chat *c = user;
    if (len > 0) c->last = text[len - 1];
    return cli_print(text, len) && !cli_interrupted();
}

static bool on_plain_prefill(int64_t done, int64_t total, void *user) { return draw_prefill(user, done, total); }

static RpStatus answer_plain(Chat *c, const char *message) {
    const RpGenerateOptions o = {
        .max_tokens = c->n, .prefill_progress = on_plain_prefill, .on_text = on_text, .user = c};
    RpGenerateResult result = {0};
    c->last                 = '\n';
    begin_reply(c);
    RP_TRY(cli_recording_turn(&c->recording, c->conversation.sampler));
    RpStatus st = cli_converse(&c->conversation, message, &o, &result);
    cli_progress_end(&c->progress);
    if (c->last != '\n') (void)cli_print("\n", 1);
    if (st == RP_OK) st = record_turn(c, c->conversation.sampler, &c->conversation.context, &result);
    if (st != RP_OK) cli_recording_drop_turn(&c->recording, c->conversation.sampler);
    if (st != RP_OK) return excuse(st);
    return end_reply(c, &result);
}

/* ---- dialogues ---- */

/* A reply that is being shown. */
typedef struct Reply {
    Chat *c;
    Show  show;
} Reply;

static bool on_event(const RpReplyEvent *e, void *user) {
    Reply *r = user;
    return cli_show_event(&r->show, e) && !cli_interrupted();
}

static bool on_prefill(int64_t done, int64_t total, void *user) {
    const Reply *r = user;
    return draw_prefill(r->c, done, total);
}

static RpStatus reply(Chat *c, bool *kept) {
    Reply r = {
        .c = c, .show = {.screen = c->screen, .to_stderr = c->show_reasoning, .hide = c->hide_reasoning}
    };
    const ReplyOptions o      = {.on_note    = c->told_notes || c->quiet ? NULL : cli_report_note,
                                 .max_tokens = c->n,
                                 .budget     = c->budget,
                                 .seed       = c->seed,
                                 .on_prefill = on_prefill,
                                 .on_event   = on_event,
                                 .user       = &r};
    RpChatResult       result = {0};
    begin_reply(c);
    RP_TRY(cli_recording_turn(&c->recording, c->dialogue.sampler));
    const RpStatus st = cli_dialogue_reply(&c->dialogue, &o, &result, kept);
    cli_progress_end(&c->progress);
    cli_show_end(&r.show);
    if (st != RP_OK) cli_recording_drop_turn(&c->recording, c->dialogue.sampler);
    RP_TRY(st);
    c->told_notes = true;
    if (result.describes_tools && !c->told_tools) cli_report_tools();
    c->told_tools |= result.describes_tools;
    if (c->hide_reasoning && result.n_reasoning > 0)
        fprintf(stderr, "%sthought for %d tokens%s\n", cli_style(stderr, STYLE_DIM), result.n_reasoning,
                cli_style(stderr, STYLE_PLAIN));
    const RpGenerateResult g = {.reason        = result.reason,
                                .n_prompt      = result.n_prompt - result.n_kept,
                                .n_generated   = result.n_generated,
                                .prefill_s     = result.prefill_s,
                                .decode_s      = result.decode_s,
                                .first_token_s = result.first_token_s,
                                .host_sampling = result.host_sampling};
    cli_recording_held(&c->recording, MANIFEST_CHAT, c->dialogue.asked, strlen(c->dialogue.asked),
                       c->conversation.format.source, c->budget);
    RP_TRY(record_turn(c, c->dialogue.sampler, &c->dialogue.context, &g));
    return end_reply(c, &g);
}

/* How the user left the prompts for the results of tools. */
typedef enum Results { RESULTS_GIVEN, RESULTS_NO_CALLS, RESULTS_UNDO, RESULTS_END } Results;

static RpStatus ask_result(Chat *c, const struct json_t *call, const char *name, Results *out) {
    char     *shown = cli_visible(name, strlen(name));
    InputText in    = {.bad = true};
    char      prompt[512];
    if (shown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a prompt");
    snprintf(prompt, sizeof prompt, "tool %.*s> ", (int)cli_text_fit(shown, 60), shown);
    free(shown);
    while (in.bad) {
        free(in.text);
        RP_TRY(cli_chat_read(&c->input, prompt, &in));
        if (in.text == NULL) break;
    }
    RpStatus st = RP_OK;
    *out        = RESULTS_GIVEN;
    if (in.text == NULL || (!in.block && strcmp(in.text, "/quit") == 0))
        *out = RESULTS_END;
    else if (!in.block && strcmp(in.text, "/undo") == 0)
        *out = RESULTS_UNDO;
    else
        st = cli_dialogue_result(&c->dialogue, call, in.text);
    if (in.text == NULL && c->input.terminal) (void)cli_print("\n", 1);
    free(in.text);
    return st;
}

static RpStatus ask_results(Chat *c, Results *out) {
    const char    *name;
    struct json_t *call;
    *out = RESULTS_NO_CALLS;
    for (size_t i = 0; (call = cli_dialogue_call(&c->dialogue, i, &name)) != NULL; i++) {
        RP_TRY(ask_result(c, call, name, out));
        if (*out != RESULTS_GIVEN) break;
    }
    return RP_OK;
}

/* Alternates replies and tool results until a reply has no calls. *whole: the turn is complete; otherwise the caller
 * takes it back. */
static RpStatus run_rounds(Chat *c, bool *whole) {
    Results results = RESULTS_GIVEN;
    bool    kept    = true;
    while (results == RESULTS_GIVEN) {
        RP_TRY(reply(c, &kept));
        if (!kept) break;
        RP_TRY(ask_results(c, &results));
    }
    c->quit = c->quit || results == RESULTS_END;
    *whole  = kept && results != RESULTS_UNDO;
    if (!*whole) cli_chat_notice("the conversation is as it was before");
    return RP_OK;
}

/* Runs a turn, and restores `before`, the messages before the turn, unless the turn becomes complete. `st` is the
 * status so far. */
static RpStatus run_turn(Chat *c, RpStatus st, struct json_t *before) {
    bool whole = false;
    if (st == RP_OK) st = run_rounds(c, &whole);
    if (whole)
        cli_dialogue_drop(before);
    else
        cli_dialogue_restore(&c->dialogue, before);
    return st != RP_OK ? excuse(st) : RP_OK;
}

static RpStatus keep(const Chat *c, struct json_t **before) {
    *before = cli_dialogue_keep(&c->dialogue);
    return *before != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for the conversation");
}

RpStatus cli_chat_answer(Chat *c, const char *message) {
    struct json_t *before;
    if (!c->has_dialogue) return answer_plain(c, message);
    RP_TRY(keep(c, &before));
    return run_turn(c, cli_dialogue_ask(&c->dialogue, message), before);
}

RpStatus cli_chat_again(Chat *c, const char *instead) {
    struct json_t *before;
    RP_TRY(keep(c, &before));
    if (!cli_dialogue_back(&c->dialogue, instead == NULL)) {
        cli_dialogue_drop(before);
        cli_say("reprise", "there is no message yet");
        return RP_OK;
    }
    if (instead == NULL && c->greedy) cli_chat_notice("the temperature is 0: the reply will be the same");
    return run_turn(c, instead != NULL ? cli_dialogue_ask(&c->dialogue, instead) : RP_OK, before);
}

RpStatus cli_chat_reset(Chat *c) {
    cli_recording_reset(&c->recording);
    return c->has_dialogue ? cli_dialogue_reset(&c->dialogue, c->system)
                           : cli_conversation_reset(&c->conversation, c->system);
}
