/* A recursive reader of JSON (json_read.h). Strings are decoded into one buffer of the length of the text: no escape is
 * shorter than what it stands for. */
#include "base/text/json_read.h"

#include "base/hash.h"
#include "base/text/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Json       *j;
    const char *p;
    size_t      at, n;
    int         depth, max_depth;
} Reader;

static RpStatus bad(const Reader *r, const char *what) {
    return rp_fail(RP_E_FORMAT, "%s: JSON: %s at byte %zu", r->j->path, what, r->at);
}

static void skip_space(Reader *r) {
    while (r->at < r->n && (r->p[r->at] == ' ' || r->p[r->at] == '\n' || r->p[r->at] == '\t' || r->p[r->at] == '\r'))
        r->at++;
}

static bool take(Reader *r, const char *word) {
    const size_t n = strlen(word);
    if (n > r->n - r->at || memcmp(r->p + r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static bool digit(const Reader *r) { return r->at < r->n && r->p[r->at] >= '0' && r->p[r->at] <= '9'; }

static bool take_digits(Reader *r) {
    if (!digit(r)) return false;
    while (digit(r)) r->at++;
    return true;
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static RpStatus read_number(Reader *r, JsonNode *node) {
    const size_t from  = r->at;
    bool         valid = true;
    (void)take(r, "-");
    if (!take(r, "Infinity") && !take(r, "NaN")) {
        valid = take(r, "0") || take_digits(r);
        if (take(r, ".")) valid = take_digits(r) && valid;
        if (take(r, "e") || take(r, "E")) {
            if (!take(r, "+")) (void)take(r, "-");
            valid = take_digits(r) && valid;
        }
    }
    if (!valid) return bad(r, "an unknown value");
    node->type = JSON_NUMBER;
    node->text = (uint32_t)r->j->n_text;
    node->len  = (uint32_t)(r->at - from);
    memcpy(r->j->text + r->j->n_text, r->p + from, node->len);
    r->j->n_text += node->len;
    return RP_OK;
}

static bool take_hex4(Reader *r, uint32_t *out) {
    *out = 0;
    if (r->n - r->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        const char c = r->p[r->at++], lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *out = 16 * *out + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *out = 16 * *out + (uint32_t)(lower - 'a' + 10);
        else
            return false;
    }
    return true;
}

static void put_utf8(Json *j, uint32_t c) {
    unsigned char *p = (unsigned char *)j->text + j->n_text;
    if (c < 0x80) {
        p[0] = (unsigned char)c;
        j->n_text += 1;
    } else if (c < 0x800) {
        p[0] = (unsigned char)(0xc0 | c >> 6), p[1] = (unsigned char)(0x80 | (c & 0x3f));
        j->n_text += 2;
    } else if (c < 0x10000) {
        p[0] = (unsigned char)(0xe0 | c >> 12), p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        p[2] = (unsigned char)(0x80 | (c & 0x3f));
        j->n_text += 3;
    } else {
        p[0] = (unsigned char)(0xf0 | c >> 18), p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
        p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f)), p[3] = (unsigned char)(0x80 | (c & 0x3f));
        j->n_text += 4;
    }
}

/* Behind the backslash. A character beyond U+FFFF is two escapes, a pair of surrogates. */
static RpStatus read_escape(Reader *r) {
    static const char short_names[] = "\"\\/bfnrt", short_values[] = "\"\\/\b\f\n\r\t";
    const char       *found = r->at < r->n && r->p[r->at] != '\0' ? strchr(short_names, r->p[r->at]) : NULL;
    uint32_t          c, low;
    if (found != NULL) {
        r->j->text[r->j->n_text++] = short_values[found - short_names];
        r->at++;
        return RP_OK;
    }
    if (!take(r, "u") || !take_hex4(r, &c)) return bad(r, "an unknown escape");
    if (c >= 0xd800 && c < 0xdc00) {
        if (!take(r, "\\u") || !take_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
            return bad(r, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return bad(r, "half of a surrogate pair");
    }
    put_utf8(r->j, c);
    return RP_OK;
}

/* The characters between two quotes; the first one is at r->at. */
static RpStatus read_string(Reader *r, uint32_t *text, uint32_t *len) {
    Json *j = r->j;
    *text   = (uint32_t)j->n_text;
    r->at++;
    while (r->at < r->n && r->p[r->at] != '"') {
        const unsigned char c = (unsigned char)r->p[r->at];
        if (c < 0x20) return bad(r, "a control character in a string");
        if (c == '\\') {
            r->at++;
            RP_TRY(read_escape(r));
            continue;
        }
        const size_t n = rp_utf8_length(r->p + r->at, r->n - r->at);
        if (n == 1 && c >= 0x80) return bad(r, "ill-formed UTF-8");
        memcpy(j->text + j->n_text, r->p + r->at, n);
        j->n_text += n;
        r->at += n;
    }
    if (r->at == r->n) return bad(r, "a string without an end");
    r->at++;
    *len = (uint32_t)(j->n_text - *text);
    return RP_OK;
}

static RpStatus add_node(Reader *r, uint32_t *out) {
    Json *j = r->j;
    if (j->n_nodes == JSON_MAX_NODES) return bad(r, "too many values");
    if (j->n_nodes == j->room) {
        const size_t room  = j->room == 0 ? 64 : 2 * j->room;
        JsonNode    *nodes = realloc(j->nodes, room * sizeof *nodes);
        if (nodes == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu values of JSON", j->path, room);
        j->nodes = nodes;
        j->room  = room;
    }
    *out           = (uint32_t)j->n_nodes++;
    j->nodes[*out] = (JsonNode){0};
    return RP_OK;
}

static bool same_key(const Json *j, uint32_t a, uint32_t b) {
    const JsonNode *x = &j->nodes[a], *y = &j->nodes[b];
    return x->key_len == y->key_len && memcmp(j->text + x->key, j->text + y->key, x->key_len) == 0;
}

/* Open addressing with linear probing; at most half full. */
static RpStatus check_names(const Reader *r, uint32_t object) {
    const Json     *j     = r->j;
    const JsonNode *o     = &j->nodes[object];
    const size_t    slots = 2 * (size_t)o->n + 1;
    if (o->n < 2) return RP_OK;
    uint32_t *table = calloc(slots, sizeof *table); /* node, 0: free */
    if (table == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %u names of JSON", j->path, o->n);
    RpStatus st = RP_OK;
    for (uint32_t i = object + 1; i < o->end && st == RP_OK; i = j->nodes[i].end) {
        const JsonNode *m = &j->nodes[i];
        size_t          s = (size_t)(rp_hash(j->text + m->key, m->key_len) % slots);
        while (table[s] != 0 && !same_key(j, table[s], i)) s = (s + 1) % slots;
        if (table[s] != 0)
            st = rp_fail(RP_E_FORMAT, "%s: JSON: the name \"%.*s\" occurs twice in one object", j->path,
                         (int)(m->key_len < 96 ? m->key_len : 96), j->text + m->key);
        table[s] = i;
    }
    free(table);
    return st;
}

static RpStatus read_value(Reader *r, uint32_t node);

/* One member or element, and the comma or bracket behind it. */
static RpStatus read_child(Reader *r, bool object, uint32_t *n, bool *more) {
    uint32_t i, key = 0, key_len = 0;
    skip_space(r);
    if (object) {
        if (r->at == r->n || r->p[r->at] != '"') return bad(r, "a name is expected");
        RP_TRY(read_string(r, &key, &key_len));
        skip_space(r);
        if (!take(r, ":")) return bad(r, "':' is expected");
    }
    RP_TRY(add_node(r, &i));
    r->j->nodes[i].key     = key;
    r->j->nodes[i].key_len = key_len;
    RP_TRY(read_value(r, i));
    ++*n;
    skip_space(r);
    *more = take(r, ",");
    if (!*more && !take(r, object ? "}" : "]"))
        return bad(r, object ? "',' or '}' is expected" : "',' or ']' is expected");
    return RP_OK;
}

static RpStatus read_container(Reader *r, uint32_t node) {
    const bool object = r->p[r->at++] == '{';
    uint32_t   n      = 0;
    if (++r->depth > r->max_depth) return bad(r, "values are nested too deeply");
    skip_space(r);
    bool more = !take(r, object ? "}" : "]");
    while (more) RP_TRY(read_child(r, object, &n, &more));
    r->depth--;
    JsonNode *c = &r->j->nodes[node];
    c->type     = object ? JSON_OBJECT : JSON_ARRAY;
    c->n        = n;
    c->end      = (uint32_t)r->j->n_nodes;
    return object ? check_names(r, node) : RP_OK;
}

static RpStatus read_value(Reader *r, uint32_t node) {
    Json *j = r->j;
    skip_space(r);
    if (r->at == r->n) return bad(r, "the text ends");
    j->nodes[node].end = node + 1;
    const char c       = r->p[r->at];
    if (c == '{' || c == '[') return read_container(r, node);
    if (c == '"') {
        uint32_t text, len;
        RP_TRY(read_string(r, &text, &len));
        j->nodes[node].type = JSON_STRING;
        j->nodes[node].text = text;
        j->nodes[node].len  = len;
        return RP_OK;
    }
    if (take(r, "null")) return RP_OK;
    if (take(r, "true")) {
        j->nodes[node].type = JSON_TRUE;
        return RP_OK;
    }
    if (take(r, "false")) {
        j->nodes[node].type = JSON_FALSE;
        return RP_OK;
    }
    return read_number(r, &j->nodes[node]);
}

RpStatus rp_json_read(const char *path, const char *text, size_t bytes, Json *out) {
    return rp_json_read_nested(path, text, bytes, JSON_MAX_DEPTH, out);
}

RpStatus rp_json_read_nested(const char *path, const char *text, size_t bytes, int max_depth, Json *out) {
    uint32_t root;
    *out = (Json){.path = path};
    if (bytes > JSON_MAX_BYTES)
        return rp_fail(RP_E_FORMAT, "%s: %zu bytes of JSON, at most %d are read", path, bytes, JSON_MAX_BYTES);
    out->text = malloc(bytes + 1);
    if (out->text == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu bytes of JSON", path, bytes);
    Reader r = {.j = out, .p = text, .n = bytes, .max_depth = max_depth};
    RP_TRY(add_node(&r, &root));
    RP_TRY(read_value(&r, root));
    skip_space(&r);
    return r.at == r.n ? RP_OK : bad(&r, "text behind the value");
}

void rp_json_free(Json *j) {
    free(j->nodes);
    free(j->text);
    *j = (Json){0};
}

const JsonNode *rp_json_first(const Json *j, const JsonNode *parent) {
    return parent != NULL && parent->n > 0 ? &j->nodes[parent - j->nodes + 1] : NULL;
}

const JsonNode *rp_json_next(const Json *j, const JsonNode *parent, const JsonNode *child) {
    return child->end < parent->end ? &j->nodes[child->end] : NULL;
}

RpGgufString rp_json_key(const Json *j, const JsonNode *member) {
    return (RpGgufString){j->text + member->key, member->key_len};
}

RpGgufString rp_json_string(const Json *j, const JsonNode *node) {
    if (node == NULL || (node->type != JSON_STRING && node->type != JSON_NUMBER)) return (RpGgufString){"", 0};
    return (RpGgufString){j->text + node->text, node->len};
}

static bool equal(const char *p, size_t n, const char *text) { return n == strlen(text) && memcmp(p, text, n) == 0; }

bool rp_json_is(const Json *j, const JsonNode *node, const char *text) {
    return node != NULL && node->type == JSON_STRING && equal(j->text + node->text, node->len, text);
}

const JsonNode *rp_json_get(const Json *j, const JsonNode *object, const char *key) {
    if (object == NULL || object->type != JSON_OBJECT) return NULL;
    for (const JsonNode *m = rp_json_first(j, object); m != NULL; m = rp_json_next(j, object, m))
        if (equal(j->text + m->key, m->key_len, key)) return m;
    return NULL;
}

double rp_json_number(const Json *j, const JsonNode *node) {
    char text[64];
    if (node == NULL || node->type != JSON_NUMBER || node->len >= sizeof text) return (double)NAN;
    memcpy(text, j->text + node->text, node->len);
    text[node->len]      = '\0';
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* glibc returns a static one */
    if (plain == (locale_t)0) return (double)NAN;
    const double x = strtod_l(text, NULL, plain);
    freelocale(plain);
    return x;
}

bool rp_json_u63(const Json *j, const JsonNode *node, uint64_t *out) {
    *out = 0;
    if (node == NULL || node->type != JSON_NUMBER) return false;
    for (uint32_t i = 0; i < node->len; i++) {
        const char c = j->text[node->text + i];
        if (c < '0' || c > '9' || *out > (INT64_MAX - 9) / 10) return false;
        *out = 10 * *out + (uint64_t)(c - '0');
    }
    return true;
}
