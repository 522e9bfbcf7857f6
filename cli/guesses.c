/* Replies with guesses (guesses.h). */
#include "cli/guesses.h"
#include "cli/report.h"

const char *cli_guesses_wrong(const GuessArgs *a, const char *mode) {
    if (a->lookup > 0 && a->draft != NULL) return "--lookup and --draft exclude each other";
    return cli_guesses_wanted(a) && mode != NULL ? "--lookup and --draft do not go with --mode" : NULL;
}

bool cli_guesses_by_mtp(const GuessArgs *a, const RpModel *m, const DeviceArgs *d) {
    return rp_model_info(m)->mtp && !a->no_mtp && d->mode == NULL;
}

void cli_engine_options(const GuessArgs *a, const DeviceArgs *d, RpEngineOptions *o) {
    o->device        = d->name;
    o->require_cuda  = d->require_cuda;
    o->require_graph = d->require_graph;
    o->repack        = d->repack;
    o->backend       = d->backend;
    o->n_mtp         = cli_n_mtp(a);
    o->watchdog_s    = (double)d->watchdog_s;
}

RpStatus cli_open_guessing(const GuessArgs *a, const RpModel *m, const DeviceArgs *d, bool quiet, RpEngineOptions *o,
                           RpEngine **engine, RpModel **draft) {
    const DeviceArgs plain = {.no_mmap = d->no_mmap};
    *engine                = NULL;
    *draft                 = NULL;
    if (a->draft != NULL) RP_TRY(cli_open_model(a->draft, &plain, quiet, draft));
    cli_engine_options(a, d, o);
    o->repack = cli_repack(o->repack, cli_guesses_wanted(a) ? "auto" : NULL);
    o->n_seq  = 1;
    o->draft  = *draft;
    RP_TRY(rp_engine_open(m, o, engine));
    const RpExecutorInfo info = rp_engine_info(*engine);
    cli_report_fallback(&info, RP_MODE_AUTO);
    return RP_OK;
}

/* The callbacks of a request, and the list that gets its tokens. */
typedef struct Watch {
    RpPrefillProgress *prefill; /* this and the next or NULL; get `user` */
    bool (*on_text)(const char *text, size_t len, void *user);
    void        *user;
    RpTokenList *tokens; /* or NULL */
    int64_t      n_prompt;
    int32_t      n_taken; /* tokens of the reply */
    bool         stopped; /* by a callback */
} Watch;

/* Tokens of the prompt that were run since `before`, of those that the cache does not have. */
static bool tell_prefill(const RpEngine *e, const RpEngineStats *before, Watch *w) {
    const RpEngineStats now   = rp_engine_stats(e);
    const int64_t       total = w->n_prompt - (int64_t)(now.cached - before->cached);
    const int64_t       done  = (int64_t)(now.tokens - before->tokens);
    if (w->prefill == NULL || done == 0) return true;
    RpPrefillProgress *told = w->prefill;
    if (done >= total) w->prefill = NULL;
    return told(done < total ? done : total, total, w->user);
}

/* Tokens behind the one at which on_text ended the reply are not taken. The step has already reported the events of a
 * chat. */
static RpStatus take_event(Watch *w, const RpEngineEvent *v) {
    if (w->stopped && w->on_text != NULL) return RP_OK;
    if (w->on_text != NULL && !w->on_text(v->text, v->n_text, w->user)) w->stopped = true;
    if (v->token >= 0) w->n_taken++;
    return w->tokens != NULL && v->token >= 0 ? rp_token_list_push(w->tokens, v->token) : RP_OK;
}

static RpStatus run_steps(RpEngine *e, uint64_t id, Watch *w, RpEngineEvent *last) {
    const RpEngineStats before = rp_engine_stats(e);
    while (rp_engine_pending(e) > 0) {
        const bool stopped = w->stopped;
        RP_TRY(rp_engine_step(e));
        if (!tell_prefill(e, &before, w)) w->stopped = true;
        while (rp_engine_poll(e, last)) RP_TRY(take_event(w, last));
        if (w->stopped && !stopped && rp_engine_pending(e) > 0) RP_TRY(rp_engine_cancel(e, id));
    }
    return RP_OK;
}

/* Takes the request out of the engine, which goes on without it, and keeps the error. */
static RpStatus drop(RpEngine *e, uint64_t id, RpStatus st) {
    char text[512];
    snprintf(text, sizeof text, "%s", rp_last_error());
    RpStatus ended = rp_engine_pending(e) > 0 ? rp_engine_cancel(e, id) : RP_OK;
    if (ended == RP_OK && rp_engine_pending(e) > 0) ended = rp_engine_step(e); /* ends it before anything runs */
    (void)ended;
    return rp_fail(st, "%s", text);
}

/* Runs one request to its end. After a failure the engine does not have it any more. */
static RpStatus run(RpEngine *e, const RpRequest *r, Watch *w, RpEngineEvent *last) {
    uint64_t id;
    w->n_prompt = (int64_t)r->n_prompt;
    RP_TRY(rp_engine_add(e, r, &id));
    const RpStatus st = run_steps(e, id, w, last);
    return st == RP_OK ? RP_OK : drop(e, id, st);
}

static void count(GuessResult *result, const RpEngineEvent *last) {
    result->n_guessed = last->n_drafted;
    result->n_right   = last->n_accepted;
}

RpStatus cli_generate_guessing(const GuessArgs *a, RpEngine *e, RpSampler *sampler, const RpTokenList *prompt,
                               size_t n_seen, const RpGenerateOptions *o, GuessResult *result) {
    Watch           w = {.prefill = o->prefill_progress, .on_text = o->on_text, .user = o->user, .tokens = o->tokens};
    RpEngineEvent   last = {0};
    const RpRequest r    = {.prompt        = prompt->ids,
                            .n_prompt      = prompt->n,
                            .sampler       = sampler,
                            .max_tokens    = o->max_tokens,
                            .stop          = o->stop,
                            .n_stop        = o->n_stop,
                            .ignore_end    = o->ignore_end,
                            .print_special = o->print_special,
                            .n_draft       = cli_n_draft(a),
                            .user          = o->user,
                            .matcher       = o->matcher,
                            .on_logprobs   = o->on_logprobs,
                            .n_logprobs    = o->n_logprobs,
                            .n_seen        = n_seen};
    *result              = (GuessResult){.device = rp_engine_info(e)};
    RP_TRY(run(e, &r, &w, &last));
    const bool started = w.n_taken > 0; /* the reply; else the prompt was cancelled */
    count(result, &last);
    result->reply = (RpGenerateResult){.reason        = w.stopped ? RP_STOP_CANCELLED : last.reason,
                                       .n_prompt      = last.n_prompt - last.n_cached,
                                       .n_generated   = w.n_taken,
                                       .prefill_s     = started ? last.first_token_s : last.total_s,
                                       .decode_s      = started ? last.total_s - last.first_token_s : 0.0,
                                       .first_token_s = last.first_token_s};
    return last.status == RP_OK ? RP_OK : rp_fail(last.status, "%s", last.error);
}

/* ---- chats ---- */

/* Calls are put into the log as rp_chat_generate does it. */
typedef struct Logged {
    const RpChatOptions *o;
    RpStatus             status;
} Logged;

static bool on_event(const RpReplyEvent *v, void *user) {
    Logged *l = user;
    if (v->kind == RP_REPLY_CALL_END && l->o->log != NULL && l->status == RP_OK)
        l->status = rp_tool_call_log_put(l->o->log, v->id, v->text, v->len);
    return l->status == RP_OK && l->o->on_event(v, l->o->user);
}

static void on_note(const char *text, void *user) {
    const Logged *l = user;
    l->o->on_note(text, l->o->user);
}

RpStatus cli_guessed_context(const RpTokenList *prompt, const RpTokenList *reply, RpTokenList *out) {
    RpTokenList list = {0};
    RpStatus    st   = RP_OK;
    for (size_t i = 0; i < prompt->n && st == RP_OK; i++) st = rp_token_list_push(&list, prompt->ids[i]);
    for (size_t i = 0; i + 1 < reply->n && st == RP_OK; i++) st = rp_token_list_push(&list, reply->ids[i]);
    if (st == RP_OK) rp_token_list_free(out), *out = list;
    if (st != RP_OK) rp_token_list_free(&list);
    return st;
}

static RpStatus run_chat(const GuessArgs *a, RpEngine *e, RpChatReply *reply, const RpChatOptions *o,
                         RpEngineEvent *last) {
    RpTokenList tokens = {0};
    Watch       w      = {.prefill = o->prefill_progress, .user = o->user, .tokens = &tokens};
    RpRequest   r      = {.n_draft = cli_n_draft(a)};
    RpStatus    st     = rp_chat_reply_request(reply, &r);
    if (st == RP_OK) st = run(e, &r, &w, last);
    if (st == RP_OK && last->status == RP_OK && o->context != NULL)
        st = cli_guessed_context(rp_chat_reply_prompt(reply), &tokens, o->context);
    rp_token_list_free(&tokens);
    return st;
}

RpStatus cli_chat_guessing(const GuessArgs *a, RpEngine *e, RpSampler *sampler, const RpChatOptions *o,
                           RpChatResult *result, GuessResult *guesses) {
    RpChatReply  *reply;
    RpEngineEvent last        = {0};
    Logged        logged      = {.o = o};
    RpChatOptions of_reply    = *o;
    of_reply.prefill_progress = NULL;
    of_reply.on_event = on_event, of_reply.user = &logged;
    if (o->on_note != NULL) of_reply.on_note = on_note;
    *result  = (RpChatResult){.reason = RP_STOP_CANCELLED};
    *guesses = (GuessResult){.device = rp_engine_info(e)};
    RP_TRY(rp_chat_reply_new(rp_engine_model(e), sampler, &of_reply, &reply));
    RpStatus st = run_chat(a, e, reply, o, &last);
    count(guesses, &last);
    if (st == RP_OK) st = rp_chat_reply_end(reply, &last, result);
    rp_chat_reply_free(reply);
    return st != RP_OK ? st : logged.status;
}

void cli_guessing_json(const GuessResult *r, int32_t n_ctx, double load_s, double first_token_s, FILE *out) {
    cli_reply_json(&r->reply, &r->device, n_ctx, load_s, first_token_s, out);
    fprintf(out, ",\"guesses\":%d,\"right_guesses\":%d", r->n_guessed, r->n_right);
}

void cli_report_guessing(const GuessResult *r, double load_s, double first_token_s) {
    cli_report(&(Report){.result        = &r->reply,
                         .load_s        = load_s,
                         .first_token_s = first_token_s,
                         .device        = &r->device,
                         .n_guessed     = r->n_guessed,
                         .n_right       = r->n_right});
}
