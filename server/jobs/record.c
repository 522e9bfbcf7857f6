/* record.c - what a manifest has of a model, and of a reply. */
#include "server/jobs/record.h"

#include "server/jobs/manifests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A manifest without a reply, and its texts. */
struct ModelManifest {
    Manifest m;
    char     device[32], device_name[128];
};

/* The texts of *info are the engine's, which may be opened again. */
static RpStatus fill(const Model *m, const RpEngineOptions *e, ModelManifest *out) {
    const ServerOptions *o    = m->work->options;
    const RpExecutorInfo info = rp_engine_info(m->engine);
    Manifest            *x    = &out->m;
    *x                        = *o->manifest;
    RP_TRY(manifest_run(x, &info, rp_engine_step_plan(m->engine)));
    snprintf(out->device, sizeof out->device, "%s", info.device);
    snprintf(out->device_name, sizeof out->device_name, "%s", info.device_name);
    x->device       = out->device;
    x->device_name  = out->device_name;
    x->n_ctx        = m->n_ctx;
    x->n_seq        = e->n_seq;
    x->cache_tokens = e->cache_tokens;
    x->step_tokens  = e->step_tokens;
    x->n_draft      = o->n_draft;
    x->n_mtp        = e->n_mtp;
    x->tokenizer    = o->manifest_text ? rp_model_tokenizer(m->model) : NULL;
    if (e->draft == NULL) x->draft = (ManifestFile){0};
    if (o->model == NULL || m != &m->work->models[0]) x->n_loras = 0;
    RP_TRY(manifest_check_path(m->path));
    return manifest_file(m->path, &x->model);
}

RpStatus record_model(Model *m, const RpEngineOptions *engine) {
    if (m->work->manifests == NULL) return RP_OK;
    m->manifest = calloc(1, sizeof *m->manifest);
    if (m->manifest == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a manifest");
    return fill(m, engine, m->manifest);
}

void record_free(Model *m) {
    free(m->manifest);
    m->manifest = NULL;
}

void record_begin(Choice *c) {
    if (c->job->model->manifest != NULL) rp_sampler_observe(c->sampler, manifest_observe, &c->turn);
}

static void set_grammar(const Model *m, Choice *c) {
    const Job  *j    = c->job;
    const char *gbnf = j->request.grammar;
    if (c->reply != NULL)
        manifest_turn_held(&c->turn, MANIFEST_CHAT, j->chat_text, strlen(j->chat_text), NULL,
                           m->reasons ? j->request.reasoning_budget : 0);
    else if (gbnf != NULL)
        manifest_turn_held(&c->turn, MANIFEST_GBNF, gbnf, strlen(gbnf), NULL, 0);
    else if (j->request.regex != NULL)
        manifest_turn_held(&c->turn, MANIFEST_REGEX, j->request.regex, strlen(j->request.regex), NULL, 0);
    else if (j->schema_text != NULL)
        manifest_turn_held(&c->turn, MANIFEST_SCHEMA, j->schema_text, strlen(j->schema_text), NULL, 0);
}

void record_end(const Model *m, Choice *c, const RpEngineEvent *last, RpStopReason reason) {
    const ApiRequest *r = &c->job->request;
    ManifestTurn     *t = &c->turn;
    char              begun[32];
    if (m->manifest == NULL || t->tokens.n == 0) return;
    Manifest x         = m->manifest->m;
    x.sampler          = r->sampler;
    x.sampler.seed     = c->job->origin.seed + (uint64_t)c->index;
    x.default_breakers = r->sampler.dry_breakers == NULL;
    x.max_tokens       = r->max_tokens;
    x.ignore_end       = r->ignore_end;
    x.stop             = (const char *const *)r->stop;
    x.n_stop           = r->n_stop;
    x.begun            = begun;
    x.turns            = t;
    x.n_turns          = 1;
    if (x.tokenizer != NULL) set_grammar(m, c); /* NULL: of --manifest-no-text */
    manifest_now(last->total_s, begun);
    t->fresh         = true;
    t->prompt        = c->reply != NULL ? *rp_chat_reply_prompt(c->reply) : c->prompt; /* borrowed */
    t->prefill_s     = last->first_token_s - last->queued_s;
    t->decode_s      = last->total_s - last->first_token_s;
    t->first_token_s = last->first_token_s;
    snprintf(t->reason, sizeof t->reason, "%s", rp_stop_reason_name(reason));
    manifests_put(m->work->manifests, &x, c->job->id, c->index);
    t->prompt = (RpTokenList){0};
}
