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
    o->n_seq = 1;
    o->draft = *draft;
    RP_TRY(rp_engine_open(m, o, engine));
    const RpExecutorInfo info = rp_engine_info(*engine);
    cli_report_fallback(&info, RP_MODE_AUTO);
    return RP_OK;
}

/* For the callbacks of a request. */
typedef struct Guessing {
    const RpGenerateOptions *o;
    RpStatus                 status;
} Guessing;

static bool on_token(int32_t token, void *user) {
    Guessing *g = user;
    if (g->o->tokens != NULL) g->status = rp_token_list_push(g->o->tokens, token);
    return g->status == RP_OK;
}

static bool on_logprobs(const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top, void *user) {
    const Guessing *g = user;
    return g->o->on_logprobs(chosen, top, n_top, g->o->user);
}

static RpStatus run(RpEngine *e, uint64_t id, Guessing *g, RpEngineEvent *last) {
    bool stopped = false;
    while (rp_engine_pending(e) > 0) {
        RP_TRY(rp_engine_step(e));
        while (rp_engine_poll(e, last))
            if (!stopped && g->o->on_text != NULL && !g->o->on_text(last->text, last->n_text, g->o->user))
                stopped = true;
        if (stopped && rp_engine_pending(e) > 0) RP_TRY(rp_engine_cancel(e, id));
    }
    return RP_OK;
}

RpStatus cli_generate_guessing(const GuessArgs *a, RpEngine *e, RpSampler *sampler, const RpTokenList *prompt,
                               const RpGenerateOptions *o, GuessResult *result) {
    Guessing        g    = {.o = o};
    RpEngineEvent   last = {0};
    uint64_t        id;
    const RpRequest r = {.prompt        = prompt->ids,
                         .n_prompt      = prompt->n,
                         .sampler       = sampler,
                         .max_tokens    = o->max_tokens,
                         .stop          = o->stop,
                         .n_stop        = o->n_stop,
                         .ignore_end    = o->ignore_end,
                         .print_special = o->print_special,
                         .n_draft       = cli_n_draft(a),
                         .user          = &g,
                         .matcher       = o->matcher,
                         .on_logprobs   = o->on_logprobs != NULL ? on_logprobs : NULL,
                         .n_logprobs    = o->n_logprobs,
                         .on_token      = on_token,
                         .token_user    = &g};
    *result           = (GuessResult){.device = rp_engine_info(e)};
    RP_TRY(rp_engine_add(e, &r, &id));
    RP_TRY(run(e, id, &g, &last));
    RP_TRY(g.status);
    if (last.status != RP_OK) return rp_fail(last.status, "%s", last.error);
    result->n_guessed = last.n_drafted;
    result->n_right   = last.n_accepted;
    result->reply     = (RpGenerateResult){.reason        = last.reason,
                                           .n_prompt      = last.n_prompt,
                                           .n_generated   = last.n_generated,
                                           .prefill_s     = last.first_token_s,
                                           .decode_s      = last.total_s - last.first_token_s,
                                           .first_token_s = last.first_token_s};
    return RP_OK;
}

void cli_guessing_json(const GuessResult *r, int32_t n_ctx, double load_s, double first_token_s, FILE *out) {
    cli_reply_json(&r->reply, &r->device, n_ctx, load_s, first_token_s, out);
    fprintf(out, ",\"guesses\":%d,\"right_guesses\":%d", r->n_guessed, r->n_right);
}

void cli_report_guessing(const GuessResult *r, double load_s) {
    const RpGenerateResult *g = &r->reply;
    char                    device[256];
    fprintf(stderr, "load     %.1f ms, until model and engine were open, %s\n", 1e3 * load_s,
            cli_device_of(&r->device, device, sizeof device));
    fprintf(stderr, "prefill  %.1f ms, %d tokens, %.1f tok/s\n", 1e3 * g->prefill_s, g->n_prompt, cli_prefill_rate(g));
    fprintf(stderr, "decode   %.1f ms, %d tokens, %.1f tok/s\n", 1e3 * g->decode_s,
            g->n_generated > 1 ? g->n_generated - 1 : 0, cli_decode_rate(g));
    fprintf(stderr, "guesses  %d of %d were right\n", r->n_right, r->n_guessed);
    fprintf(stderr, "stopped: %s, after %d tokens\n", rp_stop_reason_name(g->reason), g->n_generated);
}
