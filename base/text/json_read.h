/* json_read.h - a bounded reader of JSON (RFC 8259) for texts that nobody vouches for. A text becomes an array of
 * nodes:
 *
 *     nodes   0: the root, then in the order of the text; the children of node i begin at i + 1
 *     end     the node behind the last one inside of node i, so that siblings are walked by i = nodes[i].end
 *
 * Limits: depth JSON_MAX_DEPTH, JSON_MAX_NODES nodes, JSON_MAX_BYTES of text. A name that an object has twice is an
 * error, as is ill-formed UTF-8. NaN, Infinity and -Infinity are numbers, as Python writes them. */
#ifndef BASE_TEXT_JSON_READ_H
#define BASE_TEXT_JSON_READ_H

#include "reprise/gguf.h"

enum { JSON_MAX_DEPTH = 32, JSON_MAX_NODES = 1 << 24, JSON_MAX_BYTES = 256 << 20 };

typedef enum JsonType { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonType;

typedef struct JsonNode {
    JsonType type;
    uint32_t end;          /* the next sibling, if it is inside of the parent */
    uint32_t n;            /* elements of an array, members of an object */
    uint32_t key, key_len; /* name of a member, in Json.text */
    uint32_t text, len;    /* of a string, decoded, or of a number, in Json.text */
} JsonNode;

typedef struct Json {
    const char *path; /* for errors; borrowed */
    JsonNode   *nodes;
    size_t      n_nodes, room;
    char       *text;
    size_t      n_text;
} Json;

/* Reads `bytes` bytes of text, which are not kept. RP_E_FORMAT names path and byte. The caller frees *out with
 * rp_json_free, also after a failure. */
RP_NODISCARD RpStatus rp_json_read(const char *path, const char *text, size_t bytes, Json *out);

/* The same with another limit of the depth. */
RP_NODISCARD RpStatus rp_json_read_nested(const char *path, const char *text, size_t bytes, int max_depth, Json *out);
void                  rp_json_free(Json *j);

/* The member of that name; NULL if there is none, or `object` is NULL or no object. */
const JsonNode *rp_json_get(const Json *j, const JsonNode *object, const char *key);

/* Walks the elements or members of a node: the first, or the one behind `child`; NULL: there is none. `parent` may
 * be NULL. */
const JsonNode *rp_json_first(const Json *j, const JsonNode *parent);
const JsonNode *rp_json_next(const Json *j, const JsonNode *parent, const JsonNode *child);

RpGgufString rp_json_key(const Json *j, const JsonNode *member);
RpGgufString rp_json_string(const Json *j, const JsonNode *node); /* of a string or number; "" for others and NULL */
bool         rp_json_is(const Json *j, const JsonNode *node, const char *text); /* a string of that text */

/* The number of a node as a double, independent of the locale; NaN for NULL and what is no number. */
double rp_json_number(const Json *j, const JsonNode *node);

/* A whole number without sign, fraction and exponent. False for anything else, and above 2^63 - 1. */
bool rp_json_u63(const Json *j, const JsonNode *node, uint64_t *out);

#endif
