/* write.c - a manifest as JSON. 64-bit numbers without a sign are texts, which JSON readers with doubles keep. */
#include "manifest/params.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Both take `item`; NULL or a lack of memory set *bad, since a list or an object would lack it. */
static void append(bool *bad, json_t *list, json_t *item) {
    if (json_array_append_new(list, item) != 0) *bad = true;
}

static void set(bool *bad, json_t *object, const char *name, json_t *item) {
    if (json_object_set_new(object, name, item) != 0) *bad = true;
}

static json_t *hex(uint64_t x) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, x);
    return json_string(text);
}

/* NULL: null. Bytes that are no UTF-8 become U+FFFD, as by rp_put_json_string. */
static json_t *text_of(const char *text) {
    char   *json = NULL;
    size_t  n    = 0;
    json_t *out  = text != NULL ? json_string(text) : json_null();
    if (out != NULL) return out;
    FILE *f = open_memstream(&json, &n);
    if (f == NULL) return NULL;
    rp_put_json_string(text, strlen(text), f);
    if (fclose(f) == 0) out = json_loadb(json, n, JSON_DECODE_ANY, NULL);
    free(json);
    return out;
}

static json_t *texts(bool *bad, const char *const *items, size_t n) {
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++) append(bad, out, text_of(items[i]));
    return out;
}

static json_t *numbers(bool *bad, const RpTokenList *list) {
    json_t *out = json_array();
    for (size_t i = 0; i < list->n; i++) append(bad, out, json_integer(list->ids[i]));
    return out;
}

static json_t *hashes(bool *bad, const ManifestTurn *t) {
    json_t *out = json_array();
    for (size_t i = 0; i < t->tokens.n; i++)
        append(bad, out, t->draws[i] == DRAW_GRAMMAR ? json_null() : hex(t->logits[i]));
    return out;
}

static json_t *file(const ManifestFile *f) {
    if (f->path == NULL) return json_null();
    return json_pack("{s:o, s:I, s:o}", "path", text_of(f->path), "bytes", (json_int_t)f->bytes, "xxh64", hex(f->hash));
}

static json_t *loras(bool *bad, const Manifest *m) {
    json_t *out = json_array();
    for (size_t i = 0; i < m->n_loras; i++) {
        json_t *one = file(&m->loras[i]);
        set(bad, one, "scale", json_real(m->loras[i].scale));
        append(bad, out, one);
    }
    return out;
}

/* JSON has no infinity: minus infinity is null, infinity a text. */
static json_t *bias_of(float x) {
    if (isfinite(x)) return json_real((double)x);
    return x < 0.0f ? json_null() : json_string(MANIFEST_INFINITY);
}

static json_t *biases(bool *bad, const RpSamplerParams *p) {
    json_t *out = json_array();
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const RpLogitBias *b = &p->logit_bias[i];
        append(bad, out, json_pack("[i, o]", b->token, bias_of(b->bias)));
    }
    return out;
}

static json_t *sampling(bool *bad, const Manifest *m) {
    const RpSamplerParams *p = &m->sampler;
    char                   seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, p->seed);
    json_t *out =
        json_pack("{s:s, s:o, s:o, s:o}", "seed", seed, "samplers", text_of(p->samplers), "logit_bias", biases(bad, p),
                  "dry_breakers", m->default_breakers ? json_null() : texts(bad, p->dry_breakers, p->n_dry_breakers));
    for (size_t i = 0; i < MANIFEST_N_PARAMS && out != NULL; i++) {
        const ManifestParam *f  = &manifest_params[i];
        const char          *at = (const char *)p + f->offset;
        set(bad, out, f->name,
            f->is_int ? json_integer(*(const int32_t *)(const void *)at)
                      : json_real((double)*(const float *)(const void *)at));
    }
    return out;
}

static json_t *engine(const Manifest *m) {
    if (m->n_seq == 0) return json_null();
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "sequences", m->n_seq, "cache_tokens", m->cache_tokens, "step_tokens",
                     m->step_tokens, "guesses", m->n_draft, "mtp", m->n_mtp);
}

static json_t *run(const Manifest *m) {
    return json_pack("{s:o, s:o, s:o, s:i, s:s, s:s, s:o, s:i, s:o, s:o}", "device", text_of(m->device), "device_name",
                     text_of(m->device_name), "cpu", text_of(m->cpu), "threads", m->threads, "mode", m->mode, "kv",
                     m->kv, "passes", text_of(m->passes), "ctx", m->n_ctx, "plan_xxh64", hex(m->plan), "engine",
                     engine(m));
}

/* The text of tokens, as far as it is UTF-8 without NUL. */
static json_t *text_of_tokens(const RpTokenizer *tk, const RpTokenList *ids, size_t first) {
    char  *bytes = NULL;
    size_t n     = 0;
    FILE  *f     = tk != NULL ? open_memstream(&bytes, &n) : NULL;
    if (tk == NULL) return json_null();
    for (size_t i = first; i < ids->n && f != NULL; i++) {
        RpGgufString piece;
        if (rp_token_bytes(tk, ids->ids[i], true, &piece) == RP_OK) fwrite(piece.ptr, 1, piece.len, f);
    }
    json_t *out = f != NULL && fclose(f) == 0 ? text_of(bytes) : NULL;
    free(bytes);
    return out;
}

static json_t *grammar(const ManifestGrammar *g) {
    if (g->kind == MANIFEST_FREE || g->text == NULL) return json_null();
    return json_pack("{s:s, s:s, s:o, s:i}", "kind", manifest_grammar_kinds[g->kind], "text", g->text, "chat_template",
                     text_of(g->chat_template), "reasoning_budget", g->reasoning_budget);
}

static json_t *turn(bool *bad, const Manifest *m, const ManifestTurn *t) {
    *bad = *bad || t->no_memory;
    return json_pack("{s:b, s:o, s:i, s:o, s:o, s:o, s:s%, s:o, s:o, s:s, s:f, s:f, s:f}", "fresh", t->fresh, "grammar",
                     grammar(&t->grammar), "kept", t->kept, "prompt", numbers(bad, &t->prompt), "prompt_text",
                     text_of_tokens(m->tokenizer, &t->prompt, (size_t)t->kept), "tokens", numbers(bad, &t->tokens),
                     "draws", t->draws != NULL ? t->draws : "", t->tokens.n, "logits_xxh64", hashes(bad, t),
                     "reply_text", text_of_tokens(m->tokenizer, &t->tokens, 0), "reason", t->reason, "prefill_s",
                     t->prefill_s, "decode_s", t->decode_s, "first_token_s", t->first_token_s);
}

static json_t *turns(bool *bad, const Manifest *m) {
    json_t *out = json_array();
    for (size_t i = 0; i < m->n_turns; i++) append(bad, out, turn(bad, m, &m->turns[i]));
    return out;
}

static json_t *root(const Manifest *m, bool *bad) {
    return json_pack(
        "{s:i, s:{s:s, s:s}, s:s, s:o, s:o, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:i, s:b, s:o, s:o}", "reprise_manifest",
        MANIFEST_FORMAT, "program", "version", m->version, "commit", m->commit, "command", m->command, "arguments",
        m->arguments != NULL ? texts(bad, m->arguments, m->n_arguments) : json_null(), "environment",
        texts(bad, m->environment, m->n_environment), "begun", m->begun, "load_s", m->load_s, "model", file(&m->model),
        "adapters", loras(bad, m), "draft", file(&m->draft), "run", run(m), "sampling", sampling(bad, m), "max_tokens",
        m->max_tokens, "ignore_end", m->ignore_end, "stop", texts(bad, m->stop, m->n_stop), "turns", turns(bad, m));
}

/* The closing brace makes place for the checksum of all bytes before it. Not by json_dumps: where memory runs out, its
 * text may lack words (Jansson 2.14). */
RpStatus manifest_text(const Manifest *m, char **out, size_t *n) {
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
    bool         bad   = false;
    json_t      *j     = root(m, &bad);
    const size_t bytes = j != NULL && !bad ? json_dumpb(j, NULL, 0, flags) : 0;
    char        *text  = bytes > 0 ? malloc(bytes + 64) : NULL;
    if (text != NULL && json_dumpb(j, text, bytes, flags) != bytes) {
        free(text);
        text = NULL;
    }
    json_decref(j);
    *out = NULL;
    *n   = 0;
    if (text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a manifest");
    if (bytes + 64 > MANIFEST_BYTES) {
        free(text);
        return rp_fail(RP_E_UNSUPPORTED, "a manifest of %zu bytes: it may have %d", bytes, MANIFEST_BYTES);
    }
    *out            = text;
    const size_t at = bytes - 1;
    *n              = at + (size_t)snprintf(text + at, 64, ",\"checksum\":\"%016" PRIx64 "\"}\n", rp_xxh64(text, at));
    return RP_OK;
}

RpStatus manifest_write(const Manifest *m, RpNewFile *file_of) {
    char  *text;
    size_t n;
    RP_TRY(manifest_text(m, &text, &n));
    fwrite(text, 1, n, rp_new_file_stream(file_of)); /* rp_new_file_close reports a failure */
    free(text);
    return RP_OK;
}
