/* Manifests of commands (recording.h). */
#include "cli/repeat/recording.h"

#include "cli/options/parse.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static RpStatus add_loras(Recording *r, const TextList *adapters) {
    Manifest *m = &r->m;
    if (adapters->n > MANIFEST_LORAS)
        return rp_fail(RP_E_UNSUPPORTED, "--manifest: more than %d adapters", MANIFEST_LORAS);
    for (; m->n_loras < adapters->n; m->n_loras++) {
        const size_t i = m->n_loras;
        float        scale;
        RP_TRY(cli_split_adapter(adapters->items[i], &r->lora_paths[i], &scale));
        RP_TRY(manifest_check_path(r->lora_paths[i]));
        RP_TRY(manifest_file(r->lora_paths[i], &m->loras[i]));
        m->loras[i].scale = (double)scale;
    }
    return RP_OK;
}

RpStatus cli_recording_begin(Recording *r, bool no_text, const char *command, const char *model,
                             const TextList *adapters, const char *draft) {
    Manifest *m = &r->m;
    manifest_program(m);
    manifest_now(0.0, r->begun);
    m->begun   = r->begun;
    m->command = command;
    if (!no_text) m->arguments = cli_parsed_arguments(&m->n_arguments);
    RP_TRY(manifest_check_path(model));
    RP_TRY(manifest_check_path(draft));
    RP_TRY(manifest_file(model, &m->model));
    RP_TRY(manifest_file(draft, &m->draft));
    return add_loras(r, adapters);
}

/* A mistyped file name must not destroy a model: only a manifest and an empty file are replaced. */
static RpStatus check_old(const char *path) {
    static const char begin[] = "{\"reprise_manifest\"";
    struct stat       info;
    char              head[sizeof begin] = "";
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return RP_OK;
    FILE *f = fopen(path, "rbe");
    if (f == NULL) return RP_OK; /* rp_new_file_open says what is wrong */
    const bool is_one = fgets(head, sizeof head, f) != NULL && strcmp(head, begin) == 0;
    fclose(f);
    return is_one ? RP_OK : rp_fail(RP_E_ARG, "%s: is no manifest, and is not replaced by one", path);
}

RpStatus cli_recording_open(Recording *r, const ManifestArgs *a, const char *command, const char *model,
                            const TextList *adapters, const char *draft) {
    if (a->path == NULL) return RP_OK;
    RP_TRY(check_old(a->path));
    RP_TRY(rp_new_file_open(a->path, &r->file));
    return cli_recording_begin(r, a->no_text, command, model, adapters, draft);
}

static RpStatus set_sampler(Recording *r, const SamplerArgs *a) {
    Manifest *m = &r->m;
    r->bias     = calloc(a->bias.n + 1, sizeof *r->bias);
    if (r->bias == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu biases", a->bias.n);
    RP_TRY(cli_sampler_params(a, r->bias, &m->sampler));
    m->default_breakers = a->breakers.n == 0;
    return RP_OK;
}

RpStatus cli_recording_run(Recording *r, const RecordingOf *of) {
    Manifest *m = &r->m;
    if (r->file == NULL) return RP_OK;
    if (cli_plugins.n > 0 || rp_option(RP_OPT_PLUGINS)[0] != '\0')
        return rp_fail(RP_E_UNSUPPORTED, "--manifest describes what is built in only, not plugins");
    const RpExecutorInfo info = of->session != NULL ? rp_session_info(of->session) : rp_engine_info(of->engine);
    if (info.backend[0] != '\0')
        return rp_fail(RP_E_UNSUPPORTED, "--manifest describes the built-in kernels only, not backend %s",
                       info.backend);
    const ExecPlan *plan  = of->session != NULL ? rp_session_decode_plan(of->session) : rp_engine_step_plan(of->engine);
    const RpModel  *model = of->session != NULL ? rp_session_model(of->session) : rp_engine_model(of->engine);
    RP_TRY(manifest_run(m, &info, plan));
    RP_TRY(set_sampler(r, of->sampler));
    m->kv         = of->kv != NULL ? of->kv : "f16";
    m->passes     = of->passes;
    m->n_ctx      = of->session != NULL ? rp_session_n_ctx(of->session) : of->n_ctx;
    m->n_seq      = of->session != NULL ? 0 : 1;
    m->n_draft    = of->n_draft;
    m->n_mtp      = of->n_mtp;
    m->load_s     = of->load_s;
    m->max_tokens = of->max_tokens;
    m->ignore_end = of->ignore_end;
    m->tokenizer  = of->no_text ? NULL : rp_model_tokenizer(model);
    if (of->stop != NULL) m->stop = of->stop->items, m->n_stop = of->stop->n;
    return RP_OK;
}

RpStatus cli_recording_turn(Recording *r, RpSampler *sampler) {
    Manifest *m = &r->m;
    if (r->file == NULL) return RP_OK;
    if (m->n_turns == MANIFEST_TURNS)
        return rp_fail(RP_E_UNSUPPORTED, "--manifest: more than %d replies", MANIFEST_TURNS);
    if (m->n_turns == r->room) {
        const size_t  room  = 2 * r->room + 1;
        ManifestTurn *grown = realloc(m->turns, room * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a manifest");
        m->turns = grown;
        r->room  = room;
    }
    m->turns[m->n_turns] = (ManifestTurn){.fresh = !r->reused};
    r->reused            = true;
    rp_sampler_observe(sampler, manifest_observe, &m->turns[m->n_turns]);
    m->n_turns++;
    return RP_OK;
}

void cli_recording_reset(Recording *r) { r->reused = false; }

void cli_recording_drop_turn(Recording *r, RpSampler *sampler) {
    if (r->file == NULL) return;
    rp_sampler_observe(sampler, NULL, NULL);
    manifest_turn_free(&r->m.turns[--r->m.n_turns]);
}

RpStatus cli_recording_end_turn(Recording *r, RpSampler *sampler, const int32_t *prompt, size_t n, int32_t kept,
                                const RpGenerateResult *result) {
    Manifest *m = &r->m;
    if (r->file == NULL) return RP_OK;
    ManifestTurn *t = &m->turns[m->n_turns - 1];
    if (t->tokens.n == 0) {
        cli_recording_drop_turn(r, sampler);
        return RP_OK;
    }
    rp_sampler_observe(sampler, NULL, NULL);
    for (size_t i = 0; i < n; i++) RP_TRY(rp_token_list_push(&t->prompt, prompt[i]));
    t->kept          = kept;
    t->prefill_s     = result->prefill_s;
    t->decode_s      = result->decode_s;
    t->first_token_s = result->first_token_s;
    snprintf(t->reason, sizeof t->reason, "%s", rp_stop_reason_name(result->reason));
    return RP_OK;
}

void cli_recording_held(Recording *r, ManifestGrammarKind kind, const char *text, size_t n, const char *chat_template,
                        int32_t reasoning_budget) {
    if (r->file == NULL || r->m.tokenizer == NULL) return; /* of --manifest-no-text */
    manifest_turn_held(&r->m.turns[r->m.n_turns - 1], kind, text, n, chat_template, reasoning_budget);
}

RpStatus cli_recording_close(Recording *r, RpStatus st) {
    Manifest *m = &r->m;
    if (st == RP_OK && r->file != NULL && m->n_turns > 0)
        st = manifest_write(m, r->file);
    else if (st == RP_OK && r->file != NULL)
        st = rp_fail(RP_E_CANCELLED, "no manifest: there was no reply");
    st = rp_new_file_close(r->file, st);
    for (size_t i = 0; i < m->n_turns; i++) manifest_turn_free(&m->turns[i]);
    for (size_t i = 0; i < MANIFEST_LORAS; i++) free(r->lora_paths[i]);
    free(m->turns);
    free(r->bias);
    *r = (Recording){0};
    return st;
}
