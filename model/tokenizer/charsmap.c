/* The normalisation of SentencePiece models in GGUF files: rules for spaces, and a map from strings to strings. The
 * longest string of the map that begins the rest of a text is replaced.
 *
 *     tokenizer.ggml.precompiled_charsmap    u32 bytes of the nodes | nodes, u32 each | replacements, each with NUL
 *
 * The nodes are a double array (Darts-clone; Kanda et al. 2018 call the layout XCDA). The child of node i by byte c is
 * node base(i) ^ c, if its label is c; a leaf has the place of a replacement in a node of its own:
 *
 *     node      bits 0..7 and 31 label, 8 has a leaf, 9 the base is multiplied by 256, 10.. base
 *     leaf      bits 0..30 place */
#include "model/tokenizer/charsmap.h"

#include "model/tokenizer/tokenizer_impl.h"

#include "base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

static const char space_mark[3]  = {'\xe2', '\x96', '\x81'};
static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* of a byte that is not UTF-8 */

static uint32_t base_of(uint32_t node) { return (node >> 10) << ((node & (1u << 9)) >> 6); }
static uint32_t label_of(uint32_t node) { return node & ((1u << 31) | 0xffu); }

RpStatus rp_charsmap_read(Charsmap *map, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.ggml.precompiled_charsmap");
    uint32_t           bytes;
    if (v == NULL || (v->type == RP_GGUF_ARRAY && v->n == 0)) return RP_OK;
    if (v->type != RP_GGUF_ARRAY || (v->elem_type != RP_GGUF_U8 && v->elem_type != RP_GGUF_I8) ||
        v->n < sizeof bytes + 1)
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.precompiled_charsmap is not an array of bytes",
                       rp_gguf_path(f));
    memcpy(&bytes, v->data, sizeof bytes);
    if (bytes % 4 != 0 || bytes == 0 || bytes >= v->n - sizeof bytes || ((const char *)v->data)[v->n - 1] != '\0')
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.precompiled_charsmap has %u bytes of nodes in %llu",
                       rp_gguf_path(f), bytes, (unsigned long long)v->n);
    map->n_nodes = bytes / 4;
    map->n_bytes = (size_t)v->n - sizeof bytes;
    map->bytes   = malloc(map->n_bytes);
    if (map->bytes == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    memcpy(map->bytes, (const char *)v->data + sizeof bytes, map->n_bytes);
    return RP_OK;
}

RpStatus rp_charsmap_load(RpTokenizer *tk, const RpGgufFile *f) {
    tk->normalizes = true;
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.remove_extra_whitespaces", &tk->merges_spaces));
    return rp_charsmap_read(&tk->map, f);
}

static RpStatus damaged(void) { return rp_fail(RP_E_FORMAT, "tokenizer.ggml.precompiled_charsmap is damaged"); }

static RpStatus node_at(const Charsmap *map, uint32_t i, uint32_t *out) {
    if (i >= map->n_nodes) return damaged();
    memcpy(out, map->bytes + (size_t)i * sizeof *out, sizeof *out);
    return RP_OK;
}

RpStatus rp_charsmap_find(const Charsmap *map, const char *text, size_t len, bool shortest, size_t *used,
                          RpGgufString *by) {
    uint32_t node = 0, at, place = 0;
    *used = 0;
    if (map->bytes == NULL) return RP_OK;
    RP_TRY(node_at(map, 0, &node));
    at = base_of(node);
    for (size_t i = 0; i < len && text[i] != '\0' && !(shortest && *used > 0); i++) {
        const unsigned char c = (unsigned char)text[i];
        at ^= c;
        if (at >= map->n_nodes) return RP_OK; /* no child */
        RP_TRY(node_at(map, at, &node));
        if (label_of(node) != c) return RP_OK;
        at ^= base_of(node);
        if ((node >> 8 & 1) == 0) continue;
        RP_TRY(node_at(map, at, &place));
        place &= (1u << 31) - 1;
        if (place >= map->n_bytes - 4 * map->n_nodes) return damaged();
        by->ptr = map->bytes + 4 * map->n_nodes + place; /* the last byte of the map is NUL */
        by->len = strlen(by->ptr);
        *used   = i + 1;
    }
    return RP_OK;
}

RpStatus rp_charsmap_next(const Charsmap *map, const char *text, size_t len, bool shortest, size_t *used,
                          RpGgufString *by) {
    RP_TRY(rp_charsmap_find(map, text, len, shortest, used, by));
    if (*used > 0) return RP_OK;
    *used = rp_utf8_length(text, len);
    *by   = (RpGgufString){text, *used};
    if (*used == 1 && (unsigned char)text[0] >= 0x80) *by = (RpGgufString){replacement, sizeof replacement};
    return RP_OK;
}

typedef struct Output {
    char  *p;
    size_t n, room;
    bool   in_word;
} Output;

static RpStatus put(Output *o, const char *p, size_t n) {
    if (o->n + n > o->room) {
        const size_t room = 2 * (o->n + n) + 64;
        char        *more = realloc(o->p, room);
        if (more == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the normal form of a text");
        o->p    = more;
        o->room = room;
    }
    memcpy(o->p + o->n, p, n);
    o->n += n;
    return RP_OK;
}

/* Spaces of a part become U+2581: each of them, or with merges_spaces one before each word. */
static RpStatus put_part(const RpTokenizer *tk, RpGgufString by, bool prefix, Output *o) {
    for (size_t i = 0; i < by.len; i++) {
        if (by.ptr[i] == ' ') {
            o->in_word = false;
            if (!tk->merges_spaces) RP_TRY(put(o, space_mark, sizeof space_mark));
            continue;
        }
        const bool mark = !o->in_word && tk->merges_spaces && (prefix || o->n > 0);
        if (mark) RP_TRY(put(o, space_mark, sizeof space_mark));
        o->in_word = true;
        RP_TRY(put(o, by.ptr + i, 1));
    }
    return RP_OK;
}

RpStatus rp_charsmap_encode(const RpTokenizer *tk, const char *text, size_t len, bool prefix, RpTokenList *out) {
    Output   o  = {0};
    RpStatus st = RP_OK;
    if (prefix && !tk->merges_spaces && len > 0) st = put(&o, space_mark, sizeof space_mark);
    for (size_t at = 0, used = 0; at < len && st == RP_OK; at += used) {
        RpGgufString by = {"", 0};
        st              = rp_charsmap_next(&tk->map, text + at, len - at, false, &used, &by);
        if (st == RP_OK) st = put_part(tk, by, prefix, &o);
    }
    if (st == RP_OK && o.n > 0) st = rp_unigram_encode(tk, o.p, o.n, out);
    free(o.p);
    return st;
}
