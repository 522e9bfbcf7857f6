/* write.c - a manifest as JSON. 64-bit numbers without a sign are texts, which JSON readers with doubles keep. */
#include "manifest/params.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static json_t *texts(const char *const *items, size_t n) {
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(out, text_of(items[i]));
    return out;
}

static json_t *numbers(const RpTokenList *list) {
    json_t *out = json_array();
    for (size_t i = 0; i < list->n; i++) json_array_append_new(out, json_integer(list->ids[i]));
    return out;
}

static json_t *hashes(const ManifestTurn *t) {
    json_t *out = json_array();
    for (size_t i = 0; i < t->tokens.n; i++)
        json_array_append_new(out, t->draws[i] == DRAW_GRAMMAR ? json_null() : hex(t->logits[i]));
    return out;
}

static json_t *file(const ManifestFile *f) {
    if (f->path == NULL) return json_null();
    return json_pack("{s:o, s:I, s:o}", "path", text_of(f->path), "bytes", (json_int_t)f->bytes, "xxh64", hex(f->hash));
}

static json_t *loras(const Manifest *m) {
    json_t *out = json_array();
    for (size_t i = 0; i < m->n_loras; i++) {
        json_t *one = file(&m->loras[i]);
        json_object_set_new(one, "scale", json_real(m->loras[i].scale));
        json_array_append_new(out, one);
    }
    return out;
}

/* -inf is null. */
static json_t *biases(const RpSamplerParams *p) {
    json_t *out = json_array();
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const RpLogitBias *b = &p->logit_bias[i];
        json_array_append_new(
            out, json_pack("[i, o]", b->token, isfinite(b->bias) ? json_real((double)b->bias) : json_null()));
    }
    return out;
}

static json_t *sampling(const Manifest *m) {
    const RpSamplerParams *p = &m->sampler;
    char                   seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, p->seed);
    json_t *out =
        json_pack("{s:s, s:o, s:o, s:o}", "seed", seed, "samplers", text_of(p->samplers), "logit_bias", biases(p),
                  "dry_breakers", m->default_breakers ? json_null() : texts(p->dry_breakers, p->n_dry_breakers));
    for (size_t i = 0; i < MANIFEST_N_PARAMS && out != NULL; i++) {
        const ManifestParam *f  = &manifest_params[i];
        const char          *at = (const char *)p + f->offset;
        json_object_set_new(out, f->name,
                            f->is_int ? json_integer(*(const int32_t *)(const void *)at)
                                      : json_real((double)*(const float *)(const void *)at));
    }
    return out;
}

static json_t *engine(const Manifest *m) {
    if (m->n_seq == 0) return json_null();
    return json_pack("{s:i, s:i, s:i, s:i}", "sequences", m->n_seq, "cache_tokens", m->cache_tokens, "step_tokens",
                     m->step_tokens, "guesses", m->n_draft);
}

static json_t *run(const Manifest *m) {
    return json_pack("{s:o, s:o, s:o, s:i, s:s, s:s, s:o, s:i, s:o, s:o}", "device", text_of(m->device), "device_name",
                     text_of(m->device_name), "cpu", text_of(m->cpu), "threads", m->threads, "mode", m->mode, "kv",
                     m->kv, "passes", text_of(m->passes), "ctx", m->n_ctx, "plan_xxh64", hex(m->plan), "engine",
                     engine(m));
}

/* The text of tokens, as far as it is UTF-8 without NUL. */
static json_t *text_of_tokens(const RpTokenizer *tk, const RpTokenList *ids) {
    char  *bytes = NULL;
    size_t n     = 0;
    FILE  *f     = tk != NULL ? open_memstream(&bytes, &n) : NULL;
    if (tk == NULL) return json_null();
    for (size_t i = 0; i < ids->n && f != NULL; i++) {
        RpGgufString piece;
        if (rp_token_bytes(tk, ids->ids[i], true, &piece) == RP_OK) fwrite(piece.ptr, 1, piece.len, f);
    }
    json_t *out = f != NULL && fclose(f) == 0 ? text_of(bytes) : NULL;
    free(bytes);
    return out;
}

static json_t *turn(const Manifest *m, const ManifestTurn *t) {
    return json_pack("{s:b, s:i, s:o, s:o, s:o, s:s%, s:o, s:o, s:s, s:f, s:f, s:f}", "fresh", t->fresh, "kept",
                     t->kept, "prompt", numbers(&t->prompt), "prompt_text", text_of_tokens(m->tokenizer, &t->prompt),
                     "tokens", numbers(&t->tokens), "draws", t->draws != NULL ? t->draws : "", t->tokens.n,
                     "logits_xxh64", hashes(t), "reply_text", text_of_tokens(m->tokenizer, &t->tokens), "reason",
                     t->reason, "prefill_s", t->prefill_s, "decode_s", t->decode_s, "first_token_s", t->first_token_s);
}

static json_t *turns(const Manifest *m) {
    json_t *out = json_array();
    for (size_t i = 0; i < m->n_turns; i++) json_array_append_new(out, turn(m, &m->turns[i]));
    return out;
}

/* A failed allocation of a part fails the whole, or leaves an element out of a list, which `whole` finds. */
static json_t *root(const Manifest *m) {
    return json_pack(
        "{s:i, s:{s:s, s:s}, s:s, s:o, s:o, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:i, s:b, s:o, s:o}", "reprise_manifest",
        MANIFEST_FORMAT, "program", "version", m->version, "commit", m->commit, "command", m->command, "arguments",
        m->arguments != NULL ? texts(m->arguments, m->n_arguments) : json_null(), "environment",
        texts(m->environment, m->n_environment), "begun", m->begun, "load_s", m->load_s, "model", file(&m->model),
        "adapters", loras(m), "draft", file(&m->draft), "run", run(m), "sampling", sampling(m), "max_tokens",
        m->max_tokens, "ignore_end", m->ignore_end, "stop", texts(m->stop, m->n_stop), "turns", turns(m));
}

static bool whole(const Manifest *m, const json_t *j) {
    const json_t *list = json_object_get(j, "turns"), *sampled = json_object_get(j, "sampling");
    bool all = json_array_size(list) == m->n_turns && json_array_size(json_object_get(j, "adapters")) == m->n_loras &&
               json_array_size(json_object_get(j, "stop")) == m->n_stop &&
               json_array_size(json_object_get(j, "environment")) == m->n_environment &&
               json_object_size(sampled) == MANIFEST_N_PARAMS + 4 &&
               json_array_size(json_object_get(sampled, "logit_bias")) == m->sampler.n_logit_bias &&
               json_array_size(json_object_get(j, "arguments")) == (m->arguments != NULL ? m->n_arguments : 0);
    for (size_t i = 0; all && i < m->n_turns; i++) {
        const json_t *t = json_array_get(list, i);
        const size_t  n = m->turns[i].tokens.n;
        all             = json_array_size(json_object_get(t, "tokens")) == n &&
              json_array_size(json_object_get(t, "logits_xxh64")) == n &&
              json_array_size(json_object_get(t, "prompt")) == m->turns[i].prompt.n && !m->turns[i].no_memory;
    }
    return all;
}

/* The closing brace makes place for the checksum of all bytes before it. */
RpStatus manifest_text(const Manifest *m, char **out, size_t *n) {
    json_t *j    = root(m);
    char   *text = j != NULL && whole(m, j) ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(j);
    *out = NULL;
    *n   = 0;
    if (text != NULL) {
        const size_t at = strlen(text) - 1;
        *out            = malloc(at + 64);
        if (*out != NULL) {
            memcpy(*out, text, at);
            *n = at + (size_t)snprintf(*out + at, 64, ",\"checksum\":\"%016" PRIx64 "\"}\n", rp_xxh64(text, at));
        }
        free(text);
    }
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a manifest");
}

RpStatus manifest_write(const Manifest *m, RpNewFile *file_of) {
    char  *text;
    size_t n;
    RP_TRY(manifest_text(m, &text, &n));
    fwrite(text, 1, n, rp_new_file_stream(file_of)); /* rp_new_file_close reports a failure */
    free(text);
    return RP_OK;
}
