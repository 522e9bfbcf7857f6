/* read.c - reads a manifest and checks all of it: size, checksum, depth, then every member by its type and range.
 * Unknown members are errors. */
#include "manifest/params.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const char *path;
    Manifest   *m;
    int64_t     format;
} Reader;

static RpStatus bad(const Reader *r, const char *in, const char *key, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: \"%s%s%s\" %s", r->path, in, in[0] != '\0' ? "." : "", key, what);
}

static RpStatus no_memory(const Reader *r) { return rp_fail(RP_E_NOMEM, "%s: out of memory", r->path); }

/* A list of n elements of `bytes` that manifest_free frees. */
typedef struct Block {
    struct Block *next;
    max_align_t   data[];
} Block;

static void *take(Manifest *m, size_t n, size_t bytes) {
    Block *b = n < SIZE_MAX / 64 ? calloc(1, sizeof *b + (n + 1) * bytes) : NULL;
    if (b == NULL) return NULL;
    b->next   = m->memory;
    m->memory = b;
    return b->data;
}

/* An object with exactly n members, which the caller reads by their names: one that is not known leaves one missing. */
static RpStatus object(const Reader *r, const json_t *in, const char *key, size_t n, const json_t **out) {
    *out = key[0] != '\0' ? json_object_get(in, key) : in;
    if (!json_is_object(*out)) return bad(r, "", key, "is missing or no object");
    if (json_object_size(*out) != n) return bad(r, "", key, "has a member too many or too few");
    return RP_OK;
}

static RpStatus text(const Reader *r, const json_t *o, const char *in, const char *key, const char **out) {
    const json_t *v = json_object_get(o, key);
    *out            = json_string_value(v);
    if (*out == NULL) return bad(r, in, key, "is missing or no text");
    return strlen(*out) == json_string_length(v) ? RP_OK : bad(r, in, key, "is missing or no text");
}

static RpStatus text_or_null(const Reader *r, const json_t *o, const char *in, const char *key, const char **out) {
    *out = NULL;
    return json_is_null(json_object_get(o, key)) ? RP_OK : text(r, o, in, key, out);
}

static RpStatus whole(const Reader *r, const json_t *o, const char *in, const char *key, int64_t least, int64_t most,
                      int64_t *out) {
    const json_t *v = json_object_get(o, key);
    *out            = json_integer_value(v);
    return json_is_integer(v) && *out >= least && *out <= most
               ? RP_OK
               : bad(r, in, key, "is missing or no whole number in its range");
}

static RpStatus count(const Reader *r, const json_t *o, const char *in, const char *key, int32_t *out) {
    int64_t x;
    RP_TRY(whole(r, o, in, key, 0, INT32_MAX, &x));
    *out = (int32_t)x;
    return RP_OK;
}

static RpStatus number(const Reader *r, const json_t *o, const char *in, const char *key, double *out) {
    const json_t *v = json_object_get(o, key);
    *out            = json_number_value(v);
    return json_is_number(v) && isfinite(*out) ? RP_OK : bad(r, in, key, "is missing or no number");
}

static RpStatus flag(const Reader *r, const json_t *o, const char *in, const char *key, bool *out) {
    const json_t *v = json_object_get(o, key);
    *out            = json_is_true(v);
    return json_is_boolean(v) ? RP_OK : bad(r, in, key, "is neither true nor false");
}

/* A number within the range of a float. */
static bool is_float(const json_t *v) { return json_is_number(v) && fabs(json_number_value(v)) <= (double)FLT_MAX; }

static RpStatus hash_of(const Reader *r, const json_t *v, const char *in, const char *key, uint64_t *out) {
    const char *s = json_string_value(v);
    if (s == NULL || strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16 || json_string_length(v) != 16)
        return bad(r, in, key, "is missing or no hash of 16 hexadecimal digits");
    *out = strtoull(s, NULL, 16);
    return RP_OK;
}

static RpStatus list(const Reader *r, const json_t *o, const char *in, const char *key, size_t most,
                     const json_t **out) {
    *out = json_object_get(o, key);
    return json_is_array(*out) && json_array_size(*out) <= most ? RP_OK
                                                                : bad(r, in, key, "is missing, no list, or too long");
}

static RpStatus text_list(const Reader *r, const json_t *o, const char *in, const char *key, const char *const **out,
                          size_t *n) {
    const json_t *items;
    RP_TRY(list(r, o, in, key, 1 << 16, &items));
    *n                  = json_array_size(items);
    const char **copies = take(r->m, *n, sizeof *copies);
    if (copies == NULL) return no_memory(r);
    for (size_t i = 0; i < *n; i++) {
        const json_t *v = json_array_get(items, i);
        copies[i]       = json_string_value(v);
        if (copies[i] == NULL || strlen(copies[i]) != json_string_length(v))
            return bad(r, in, key, "has what is no text");
    }
    *out = copies;
    return RP_OK;
}

static RpStatus token_list(const Reader *r, const json_t *o, const char *in, const char *key, RpTokenList *out) {
    const json_t *items;
    RP_TRY(list(r, o, in, key, MANIFEST_BYTES, &items));
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t    *v  = json_array_get(items, i);
        const json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id > INT32_MAX) return bad(r, in, key, "has what is no token");
        RP_TRY(rp_token_list_push(out, (int32_t)id));
    }
    return RP_OK;
}

/* ---- parts ---- */

static RpStatus file_of(const Reader *r, const json_t *o, const char *name, ManifestFile *out) {
    int64_t bytes;
    RP_TRY(text(r, o, name, "path", &out->path));
    RP_TRY(whole(r, o, name, "bytes", 0, INT64_MAX, &bytes));
    out->bytes = (uint64_t)bytes;
    return hash_of(r, json_object_get(o, "xxh64"), name, "xxh64", &out->hash);
}

static RpStatus files(const Reader *r, const json_t *root) {
    Manifest     *m = r->m;
    const json_t *o, *loras;
    RP_TRY(object(r, root, "model", 3, &o));
    RP_TRY(file_of(r, o, "model", &m->model));
    if (!json_is_null(json_object_get(root, "draft"))) {
        RP_TRY(object(r, root, "draft", 3, &o));
        RP_TRY(file_of(r, o, "draft", &m->draft));
    }
    RP_TRY(list(r, root, "", "adapters", MANIFEST_LORAS, &loras));
    m->n_loras = json_array_size(loras);
    for (size_t i = 0; i < m->n_loras; i++) {
        o = json_array_get(loras, i);
        if (json_object_size(o) != 4) return bad(r, "", "adapters", "has a member too many or too few");
        RP_TRY(file_of(r, o, "adapters", &m->loras[i]));
        if (!is_float(json_object_get(o, "scale")))
            return bad(r, "adapters", "scale", "is missing or no number of 32 bits");
        m->loras[i].scale = json_number_value(json_object_get(o, "scale"));
    }
    return RP_OK;
}

static RpStatus run(const Reader *r, const json_t *root) {
    Manifest     *m = r->m;
    const json_t *o, *e;
    int64_t       mtp;
    RP_TRY(object(r, root, "run", 10, &o));
    RP_TRY(text(r, o, "run", "device", &m->device));
    RP_TRY(text(r, o, "run", "device_name", &m->device_name));
    RP_TRY(text(r, o, "run", "cpu", &m->cpu));
    RP_TRY(text(r, o, "run", "mode", &m->mode));
    RP_TRY(text(r, o, "run", "kv", &m->kv));
    RP_TRY(text_or_null(r, o, "run", "passes", &m->passes));
    RP_TRY(count(r, o, "run", "threads", &m->threads));
    RP_TRY(count(r, o, "run", "ctx", &m->n_ctx));
    RP_TRY(hash_of(r, json_object_get(o, "plan_xxh64"), "run", "plan_xxh64", &m->plan));
    if (json_is_null(json_object_get(o, "engine"))) return RP_OK;
    RP_TRY(object(r, o, "engine", 5, &e));
    RP_TRY(count(r, e, "engine", "sequences", &m->n_seq));
    if (m->n_seq == 0) return bad(r, "engine", "sequences", "is 0");
    RP_TRY(count(r, e, "engine", "cache_tokens", &m->cache_tokens));
    RP_TRY(count(r, e, "engine", "step_tokens", &m->step_tokens));
    RP_TRY(count(r, e, "engine", "guesses", &m->n_draft));
    RP_TRY(whole(r, e, "engine", "mtp", -1, INT32_MAX, &mtp));
    m->n_mtp = (int32_t)mtp;
    return RP_OK;
}

/* False: v is no bias. */
static bool read_bias(const json_t *v, float *out) {
    const char *text   = json_string_value(v);
    const bool  finite = is_float(v);
    *out               = finite ? (float)json_number_value(v) : json_is_null(v) ? -INFINITY : INFINITY;
    return finite || json_is_null(v) || (text != NULL && strcmp(text, MANIFEST_INFINITY) == 0);
}

static RpStatus biases(const Reader *r, const json_t *o) {
    const json_t *items;
    RP_TRY(list(r, o, "sampling", "logit_bias", MANIFEST_BYTES, &items));
    const size_t n   = json_array_size(items);
    RpLogitBias *out = take(r->m, n, sizeof *out);
    if (out == NULL) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(items, i), *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX || !read_bias(json_array_get(pair, 1), &out[i].bias))
            return bad(r, "sampling", "logit_bias", "has what is no token and bias");
        out[i].token = (int32_t)json_integer_value(id);
    }
    r->m->sampler.logit_bias   = out;
    r->m->sampler.n_logit_bias = n;
    return RP_OK;
}

static RpStatus seed(const Reader *r, const json_t *o, uint64_t *out) {
    const char *s;
    RP_TRY(text(r, o, "sampling", "seed", &s));
    errno = 0;
    if (s[0] >= '0' && s[0] <= '9' && strspn(s, "0123456789") == strlen(s))
        *out = strtoull(s, NULL, 10);
    else
        errno = EINVAL;
    return errno == 0 ? RP_OK : bad(r, "sampling", "seed", "is no whole number in a text");
}

static RpStatus sampling(const Reader *r, const json_t *root) {
    RpSamplerParams *p = &r->m->sampler;
    const json_t    *o;
    RP_TRY(object(r, root, "sampling", MANIFEST_N_PARAMS + 4, &o));
    RP_TRY(seed(r, o, &p->seed));
    for (size_t i = 0; i < MANIFEST_N_PARAMS; i++) {
        const ManifestParam *f  = &manifest_params[i];
        char                *at = (char *)p + f->offset;
        int64_t              whole_number;
        if (f->is_int) {
            RP_TRY(whole(r, o, "sampling", f->name, INT32_MIN, INT32_MAX, &whole_number));
            *(int32_t *)(void *)at = (int32_t)whole_number;
        } else {
            const json_t *v = json_object_get(o, f->name);
            if (!is_float(v)) return bad(r, "sampling", f->name, "is missing or no number of 32 bits");
            *(float *)(void *)at = (float)json_number_value(v);
        }
    }
    RP_TRY(biases(r, o));
    RP_TRY(text_or_null(r, o, "sampling", "samplers", &p->samplers));
    r->m->default_breakers = json_is_null(json_object_get(o, "dry_breakers"));
    return r->m->default_breakers ? RP_OK
                                  : text_list(r, o, "sampling", "dry_breakers", &p->dry_breakers, &p->n_dry_breakers);
}

static RpStatus draws(const Reader *r, const json_t *o, ManifestTurn *t) {
    const size_t  n = t->tokens.n;
    const char   *letters;
    const json_t *sums;
    RP_TRY(text(r, o, "turns", "draws", &letters));
    RP_TRY(list(r, o, "turns", "logits_xxh64", MANIFEST_BYTES, &sums));
    if (strlen(letters) != n || strspn(letters, "dmfg") != n)
        return bad(r, "turns", "draws", "has not one of the letters d, m, f and g for each token");
    if (json_array_size(sums) != n) return bad(r, "turns", "logits_xxh64", "has not one hash for each token");
    t->draws  = malloc(n + 1);
    t->logits = calloc(n + 1, sizeof *t->logits);
    if (t->draws == NULL || t->logits == NULL) return no_memory(r);
    memcpy(t->draws, letters, n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(sums, i);
        if (letters[i] != DRAW_GRAMMAR) RP_TRY(hash_of(r, v, "turns", "logits_xxh64", &t->logits[i]));
        if (letters[i] == DRAW_GRAMMAR && !json_is_null(v))
            return bad(r, "turns", "logits_xxh64", "has a hash of a token without logits");
    }
    return RP_OK;
}

static RpStatus copy(const Reader *r, const char *from, char **to) {
    *to = from != NULL ? strdup(from) : NULL;
    return from == NULL || *to != NULL ? RP_OK : no_memory(r);
}

static RpStatus grammar(const Reader *r, const json_t *in, ManifestGrammar *g) {
    const json_t *o;
    const char   *kind, *text_then, *template_then;
    if (r->format == 1 || json_is_null(json_object_get(in, "grammar"))) return RP_OK;
    RP_TRY(object(r, in, "grammar", 4, &o));
    RP_TRY(text(r, o, "grammar", "kind", &kind));
    for (int k = MANIFEST_FREE + 1; k < MANIFEST_GRAMMAR_COUNT; k++)
        if (strcmp(kind, manifest_grammar_kinds[k]) == 0) g->kind = (ManifestGrammarKind)k;
    if (g->kind == MANIFEST_FREE) return bad(r, "grammar", "kind", "is none of schema, gbnf, regex, json and chat");
    RP_TRY(text(r, o, "grammar", "text", &text_then));
    RP_TRY(text_or_null(r, o, "grammar", "chat_template", &template_then));
    RP_TRY(count(r, o, "grammar", "reasoning_budget", &g->reasoning_budget));
    RP_TRY(copy(r, text_then, &g->text));
    return copy(r, template_then, &g->chat_template);
}

static RpStatus turn(const Reader *r, const json_t *o, ManifestTurn *t) {
    const char *reason;
    if (json_object_size(o) != (r->format == 1 ? 12 : 13))
        return bad(r, "", "turns", "has a member too many or too few");
    RP_TRY(grammar(r, o, &t->grammar));
    RP_TRY(flag(r, o, "turns", "fresh", &t->fresh));
    RP_TRY(count(r, o, "turns", "kept", &t->kept));
    RP_TRY(token_list(r, o, "turns", "prompt", &t->prompt));
    RP_TRY(token_list(r, o, "turns", "tokens", &t->tokens));
    if (t->prompt.n == 0 || (size_t)t->kept >= t->prompt.n || t->tokens.n == 0 || t->tokens.n > INT32_MAX ||
        t->prompt.n > INT32_MAX)
        return bad(r, "turns", "tokens", "is empty, or the prompt is, or it is shorter than what was kept");
    RP_TRY(draws(r, o, t));
    RP_TRY(text_or_null(r, o, "turns", "prompt_text", &t->prompt_text));
    RP_TRY(text_or_null(r, o, "turns", "reply_text", &t->reply_text));
    RP_TRY(text(r, o, "turns", "reason", &reason));
    if (strlen(reason) >= sizeof t->reason) return bad(r, "turns", "reason", "is too long");
    strcpy(t->reason, reason);
    RP_TRY(number(r, o, "turns", "prefill_s", &t->prefill_s));
    RP_TRY(number(r, o, "turns", "decode_s", &t->decode_s));
    return number(r, o, "turns", "first_token_s", &t->first_token_s);
}

static RpStatus turns(const Reader *r, const json_t *root) {
    const json_t *items;
    RP_TRY(list(r, root, "", "turns", MANIFEST_TURNS, &items));
    const size_t n = json_array_size(items);
    if (n == 0) return bad(r, "", "turns", "is empty");
    r->m->turns = take(r->m, n, sizeof *r->m->turns);
    if (r->m->turns == NULL) return no_memory(r);
    r->m->n_turns = n;
    for (size_t i = 0; i < n; i++) RP_TRY(turn(r, json_array_get(items, i), &r->m->turns[i]));
    return RP_OK;
}

/* ---- the whole ---- */

static RpStatus members(Reader *r, const json_t *root) {
    Manifest     *m = r->m;
    const json_t *o;
    RP_TRY(whole(r, root, "", "reprise_manifest", 1, INT32_MAX, &r->format));
    if (r->format > MANIFEST_FORMAT)
        return rp_fail(RP_E_UNSUPPORTED, "%s: a manifest of format %lld, and this program reads formats 1 to %d",
                       r->path, (long long)r->format, MANIFEST_FORMAT);
    RP_TRY(object(r, root, "", 17, &root));
    RP_TRY(object(r, root, "program", 2, &o));
    RP_TRY(text(r, o, "program", "version", &m->version));
    RP_TRY(text(r, o, "program", "commit", &m->commit));
    RP_TRY(text(r, root, "", "command", &m->command));
    if (!json_is_null(json_object_get(root, "arguments")))
        RP_TRY(text_list(r, root, "", "arguments", &m->arguments, &m->n_arguments));
    RP_TRY(text_list(r, root, "", "environment", &m->environment, &m->n_environment));
    RP_TRY(text(r, root, "", "begun", &m->begun));
    RP_TRY(number(r, root, "", "load_s", &m->load_s));
    RP_TRY(files(r, root));
    RP_TRY(run(r, root));
    RP_TRY(sampling(r, root));
    RP_TRY(count(r, root, "", "max_tokens", &m->max_tokens));
    RP_TRY(flag(r, root, "", "ignore_end", &m->ignore_end));
    RP_TRY(text_list(r, root, "", "stop", &m->stop, &m->n_stop));
    return turns(r, root);
}

/* The last member is the checksum of all that stands before it, so that each damaged byte is found. */
static RpStatus check_sum(const char *text_of, size_t n, const char *path) {
    static const char before[] = ",\"checksum\":\"";
    const size_t      tail     = sizeof before - 1 + 16 + 3;
    char              end[64];
    if (n <= tail || memcmp(text_of + n - tail, before, sizeof before - 1) != 0)
        return rp_fail(RP_E_FORMAT, "%s is no manifest, or not all of one: it does not end with a checksum", path);
    snprintf(end, sizeof end, "%s%016" PRIx64 "\"}\n", before, rp_xxh64(text_of, n - tail));
    return memcmp(text_of + n - tail, end, tail) == 0
               ? RP_OK
               : rp_fail(RP_E_FORMAT, "%s: the checksum is wrong: the manifest is damaged", path);
}

/* The parser recurses for each level. */
static RpStatus check_depth(const char *p, size_t n, const char *path) {
    int  depth  = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && p[i] == '\\')
            i++;
        else if (p[i] == '"')
            quoted = !quoted;
        else if (!quoted && (p[i] == '{' || p[i] == '[') && ++depth > MANIFEST_DEPTH)
            return rp_fail(RP_E_FORMAT, "%s: more than %d levels", path, MANIFEST_DEPTH);
        else if (!quoted && (p[i] == '}' || p[i] == ']'))
            depth--;
    }
    return RP_OK;
}

RpStatus manifest_parse(const char *text_of, size_t n, const char *path, Manifest *out) {
    json_error_t e;
    *out = (Manifest){0};
    if (n > MANIFEST_BYTES)
        return rp_fail(RP_E_FORMAT, "%s has %zu bytes, and a manifest at most %d", path, n, MANIFEST_BYTES);
    RP_TRY(check_sum(text_of, n, path));
    RP_TRY(check_depth(text_of, n, path));
    json_t *root = json_loadb(text_of, n, JSON_REJECT_DUPLICATES, &e);
    out->json    = root;
    if (root == NULL) return rp_fail(RP_E_FORMAT, "%s: line %d: %s", path, e.line, e.text);
    Reader r = {.path = path, .m = out};
    return members(&r, root);
}

RpStatus manifest_read(const char *path, Manifest *out) {
    FILE *f = fopen(path, "re");
    *out    = (Manifest){0};
    if (f == NULL) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    size_t n = 0, room = 1 << 16;
    char  *bytes = malloc(room);
    while (bytes != NULL && n <= MANIFEST_BYTES) {
        const size_t got = fread(bytes + n, 1, room - n, f);
        if (got == 0) break;
        n += got;
        if (n < room) continue;
        room *= 2;
        char *grown = realloc(bytes, room);
        if (grown == NULL) free(bytes);
        bytes = grown;
    }
    RpStatus st = bytes == NULL ? rp_fail(RP_E_NOMEM, "%s: out of memory", path)
                  : ferror(f)   ? rp_fail(RP_E_IO, "%s: %s", path, strerror(errno))
                                : manifest_parse(bytes, n, path, out);
    fclose(f);
    free(bytes);
    return st;
}

void manifest_free(Manifest *m) {
    for (size_t i = 0; i < m->n_turns; i++) manifest_turn_free(&m->turns[i]);
    for (Block *b = m->memory, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    json_decref(m->json);
    *m = (Manifest){0};
}
