/* $ref: JSON pointers (RFC 6901), anchors, and the URI of the schema itself. */
#include "grammar/schema/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool equal(RpGgufString a, const char *p, size_t n) { return a.len == n && memcmp(a.ptr, p, n) == 0; }

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes %XX, then ~0 and ~1, in place. */
static size_t decode(char *p, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '%' && n - i > 2 && hex(p[i + 1]) >= 0 && hex(p[i + 2]) >= 0) {
            c = (char)(hex(p[i + 1]) * 16 + hex(p[i + 2]));
            i += 2;
        }
        p[k++] = c;
    }
    n = k;
    k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '~' && i + 1 < n && (p[i + 1] == '0' || p[i + 1] == '1')) c = p[++i] == '0' ? '~' : '/';
        p[k++] = c;
    }
    return k;
}

static const JsonNode *child_of(const Schema *s, const JsonNode *parent, const char *name, size_t n) {
    size_t wanted = 0, i = 0;
    for (size_t k = 0; k < n; k++)
        wanted = name[k] >= '0' && name[k] <= '9' ? wanted * 10 + (size_t)(name[k] - '0') : SIZE_MAX / 20;
    for (const JsonNode *c = rp_json_first(&s->json, parent); c != NULL; c = rp_json_next(&s->json, parent, c), i++)
        if (parent->type == JSON_OBJECT ? equal(rp_json_key(&s->json, c), name, n)
                                        : parent->type == JSON_ARRAY && i == wanted)
            return c;
    return NULL;
}

static RpStatus pointer(const Schema *s, uint32_t from, const char *text, size_t n, const JsonNode **out) {
    char *copy = malloc(n + 1);
    *out       = schema_node(s, from);
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a grammar");
    while (n > 0 && *out != NULL) {
        const char  *slash = memchr(text + 1, '/', n - 1);
        const size_t part  = slash == NULL ? n - 1 : (size_t)(slash - text - 1);
        memcpy(copy, text + 1, part);
        *out = child_of(s, *out, copy, decode(copy, part));
        text += part + 1;
        n -= part + 1;
    }
    free(copy);
    return RP_OK;
}

/* The innermost schema around the node that has a URI of its own: where "#" begins. */
static const JsonNode *resource_of(const Schema *s, uint32_t node) {
    const JsonNode *at = schema_node(s, 0), *resource = at;
    while (at != NULL && schema_index(s, at) != node) {
        const JsonNode *child = rp_json_first(&s->json, at);
        while (child != NULL && child->end <= node) child = rp_json_next(&s->json, at, child);
        at                 = child;
        const JsonNode *id = rp_json_get(&s->json, at, s->old_refs ? "id" : "$id");
        if (id == NULL) id = rp_json_get(&s->json, at, "$id");
        if (id != NULL && id->type == JSON_STRING && id->len > 0 && rp_json_string(&s->json, id).ptr[0] != '#')
            resource = at;
    }
    return resource;
}

/* The schema with `keyword` equal to the text; within a resource unless that is NULL. */
static const JsonNode *find(const Schema *s, const JsonNode *resource, const char *keyword, const char *text,
                            size_t n) {
    const size_t length = strlen(keyword);
    if (n == 0) return NULL;
    for (uint32_t i = 0; i < s->json.n_nodes; i++) {
        const JsonNode *object = schema_node(s, i);
        for (const JsonNode *m = object->type == JSON_OBJECT ? rp_json_first(&s->json, object) : NULL; m != NULL;
             m                 = rp_json_next(&s->json, object, m))
            if (m->type == JSON_STRING && equal(rp_json_key(&s->json, m), keyword, length) &&
                equal(rp_json_string(&s->json, m), text, n) && (resource == NULL || resource_of(s, i) == resource))
                return object;
    }
    return NULL;
}

static RpStatus lookup(const Schema *s, uint32_t node, const JsonNode *ref, uint32_t *target) {
    static const char *const ids[] = {"$id", "id"};
    const RpGgufString       uri   = rp_json_string(&s->json, ref);
    const char              *hash  = uri.len > 0 ? memchr(uri.ptr, '#', uri.len) : NULL;
    const size_t             base  = hash == NULL ? uri.len : (size_t)(hash - uri.ptr);
    const JsonNode          *found = resource_of(s, node);
    if (ref->type != JSON_STRING) return rp_schema_bad(s, node, "$ref is no string");
    if (base > 0) {
        found = NULL;
        for (int i = 0; i < 2 && found == NULL; i++) found = find(s, NULL, ids[i], uri.ptr, base);
    }
    if (found != NULL && hash != NULL && base + 1 < uri.len) {
        const char  *fragment = hash + 1;
        const size_t n        = uri.len - base - 1;
        if (fragment[0] == '/') {
            RP_TRY(pointer(s, schema_index(s, found), fragment, n, &found));
        } else {
            const JsonNode *resource = found;
            found                    = find(s, resource, "$anchor", fragment, n);
            for (int i = 0; i < 2 && found == NULL; i++) found = find(s, resource, ids[i], hash, n + 1);
        }
    }
    const bool is_schema =
        found != NULL && (found->type == JSON_OBJECT || found->type == JSON_TRUE || found->type == JSON_FALSE);
    *target = is_schema ? schema_index(s, found) : UINT32_MAX;
    return RP_OK;
}

bool rp_schema_try_lookup(Schema *s, uint32_t node, const JsonNode *ref, uint32_t *target) {
    const RpStatus st = lookup(s, node, ref, target);
    if (st == RP_E_NOMEM && s->rx->status == RP_OK) s->rx->status = st; /* compiling ends with it */
    return st == RP_OK && *target != UINT32_MAX;
}

RpStatus rp_schema_resolve(Schema *s, uint32_t node, const JsonNode *ref, uint32_t *target) {
    const RpGgufString uri = rp_json_string(&s->json, ref);
    char               text[256];
    RP_TRY(lookup(s, node, ref, target));
    if (*target != UINT32_MAX) return RP_OK;
    snprintf(text, sizeof text, "$ref \"%.*s\"", (int)(uri.len < 200 ? uri.len : 200), uri.ptr);
    return rp_schema_drop(s, node, text, "there is no such schema in this one");
}
