/* open.c - opens what a manifest names. */
#include "cli/repeat/repeat.h"

#include <stdlib.h>
#include <string.h>

/* Another file than that of the manifest gives other bits: with --anyway its difference is one of the report. */
static RpStatus check(const ManifestFile *then, const ManifestFile *now, bool anyway) {
    if (anyway || (then->hash == now->hash && then->bytes == now->bytes)) return RP_OK;
    return rp_fail(RP_E_STATE,
                   "%s is not the file of the manifest: XXH64 %016llx of %llu bytes, and then %016llx of %llu bytes "
                   "(--anyway runs it all the same)",
                   now->path, (unsigned long long)now->hash, (unsigned long long)now->bytes,
                   (unsigned long long)then->hash, (unsigned long long)then->bytes);
}

static RpStatus open_file(const char *path, const ManifestFile *then, bool anyway, ManifestFile *now) {
    RP_TRY(manifest_file(path != NULL ? path : then->path, now));
    return now->path != NULL ? check(then, now, anyway) : RP_OK;
}

static RpStatus add_loras(const Repeat *r, const RepeatOptions *o, Manifest *now) {
    const Manifest *m = r->m;
    const size_t    n = o->device.adapters.n;
    if (n != 0 && n != m->n_loras)
        return rp_fail(RP_E_ARG, "%zu adapters are given, and the manifest has %zu", n, m->n_loras);
    for (size_t i = 0; i < m->n_loras; i++) {
        const char *path = n > 0 ? o->device.adapters.items[i] : m->loras[i].path;
        RP_TRY(open_file(path, &m->loras[i], o->anyway, &now->loras[i]));
        now->loras[i].scale = m->loras[i].scale;
        now->n_loras++;
        RP_TRY(rp_model_add_adapter(r->model, path, (float)m->loras[i].scale));
    }
    return RP_OK;
}

static RpStatus open_models(Repeat *r, const RepeatOptions *o, Manifest *now) {
    const Manifest  *m     = r->m;
    const DeviceArgs plain = {.no_mmap = o->device.no_mmap};
    if (o->draft != NULL && m->draft.path == NULL) return rp_fail(RP_E_ARG, "--draft: the manifest has no draft model");
    RP_TRY(open_file(o->model, &m->model, o->anyway, &now->model));
    RP_TRY(open_file(o->draft, &m->draft, o->anyway, &now->draft));
    RP_TRY(cli_open_model(now->model.path, &plain, o->quiet, &r->model));
    RP_TRY(add_loras(r, o, now));
    return now->draft.path != NULL ? cli_open_model(now->draft.path, &plain, o->quiet, &r->draft) : RP_OK;
}

static RpStatus open_sampler(Repeat *r) {
    const Manifest *m       = r->m;
    const int32_t   n_vocab = rp_model_info(r->model)->n_vocab;
    RpSamplerParams p       = m->sampler;
    const bool      none    = !m->default_breakers && p.n_dry_breakers == 0;
    p.tokenizer             = none ? NULL : rp_model_tokenizer(r->model);
    if (none) p.dry_breakers = NULL;
    r->mask = calloc(((size_t)n_vocab + 31) / 32, sizeof *r->mask);
    if (r->mask == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a mask of %d tokens", n_vocab);
    for (size_t k = 0; k < m->n_turns; k++)
        for (size_t i = 0; i < m->turns[k].tokens.n; i++)
            if (m->turns[k].tokens.ids[i] >= n_vocab)
                return rp_fail(RP_E_ARG, "the manifest has a token %d, and the vocabulary has %d",
                               m->turns[k].tokens.ids[i], n_vocab);
    RP_TRY(rp_sampler_new(&p, n_vocab, &r->sampler));
    return rp_sampler_suppress(r->sampler, rp_model_tokenizer(r->model));
}

static RpStatus open_session(Repeat *r, const RepeatOptions *o, RpDtype kv) {
    const Manifest  *m  = r->m;
    DeviceArgs       d  = o->device;
    RpSessionOptions so = {
        .n_ctx = m->n_ctx, .n_threads = o->threads > 0 ? o->threads : m->threads, .passes = m->passes, .kv_type = kv};
    if (d.name == NULL) d.name = m->device;
    if (d.mode == NULL && strcmp(d.name, "cpu") != 0) d.mode = m->mode;
    return cli_open_session(r->model, &d, o->quiet, &so, &r->session);
}

static RpStatus open_engine(Repeat *r, const RepeatOptions *o, RpDtype kv) {
    const Manifest       *m  = r->m;
    const RpEngineOptions eo = {.n_ctx        = m->n_ctx,
                                .n_seq        = m->n_seq,
                                .cache_tokens = m->cache_tokens,
                                .step_tokens  = m->step_tokens,
                                .n_threads    = o->threads > 0 ? o->threads : m->threads,
                                .passes       = m->passes,
                                .kv_type      = kv,
                                .device       = o->device.name != NULL ? o->device.name : m->device,
                                .repack       = o->device.repack,
                                .n_mtp        = m->n_mtp,
                                .draft        = r->draft};
    return rp_engine_open(r->model, &eo, &r->engine);
}

RpStatus cli_repeat_open(Repeat *r, const Manifest *m, const RepeatOptions *o, Manifest *now) {
    RpDtype kv;
    r->m = m;
    *now = (Manifest){.kv = m->kv, .passes = m->passes};
    manifest_program(now);
    RP_TRY(cli_kv_type(m->kv, &kv));
    RP_TRY(open_models(r, o, now));
    RP_TRY(open_sampler(r));
    RP_TRY(m->n_seq == 0 ? open_session(r, o, kv) : open_engine(r, o, kv));
    const RpExecutorInfo info = m->n_seq == 0 ? rp_session_info(r->session) : rp_engine_info(r->engine);
    return manifest_run(now, &info,
                        m->n_seq == 0 ? rp_session_decode_plan(r->session) : rp_engine_step_plan(r->engine));
}

void cli_repeat_close(Repeat *r) {
    rp_session_free(r->session);
    rp_engine_free(r->engine);
    rp_sampler_free(r->sampler);
    rp_model_free(r->draft);
    rp_model_free(r->model);
    rp_token_list_free(&r->context);
    rp_grammar_vocab_free(r->vocab);
    free(r->mask);
}
