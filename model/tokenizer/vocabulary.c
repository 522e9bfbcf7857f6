/* The vocabulary of a tokenizer: its memory, the bytes of a token, and its properties. */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/argument.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ---- */

char *rp_tokenizer_bytes(RpTokenizer *tk, size_t n) {
    assert(n <= tk->room - tk->used);
    char *p = tk->memory + tk->used;
    tk->used += n;
    return p;
}

RpStatus rp_tokenizer_load_id(const RpTokenizer *tk, const RpGgufFile *f, const char *key, int32_t *out) {
    uint32_t id = UINT32_MAX;
    RP_TRY(rp_gguf_get_u32(f, key, &id));
    if (id == UINT32_MAX) { /* absent, or "none" as some files write it */
        if (rp_gguf_find(f, key) != NULL) *out = -1;
        return RP_OK;
    }
    if (id >= (uint32_t)tk->n_vocab)
        return rp_fail(RP_E_FORMAT, "%s: %s is %u, the vocabulary has %d tokens", rp_gguf_path(f), key, id,
                       tk->n_vocab);
    *out = (int32_t)id;
    return RP_OK;
}

/* ---- tokens to text, and properties ---- */

/* Control and unknown tokens print nothing unless `special`. */
RpStatus rp_token_bytes(const RpTokenizer *tk, int32_t id, bool special, RpGgufString *out) {
    RP_NOT_NULL(tk, "tk");
    RP_NOT_NULL(out, "out");

    if (id < 0 || id >= tk->n_vocab)
        return rp_fail(RP_E_ARG, "token %d is outside of the vocabulary of %d", id, tk->n_vocab);
    const bool hidden = tk->types[id] == TOKEN_CONTROL || tk->types[id] == TOKEN_UNKNOWN;
    *out              = hidden && !special ? (RpGgufString){"", 0} : tk->pieces[id];
    return RP_OK;
}

int32_t rp_tokenizer_find(const RpTokenizer *tk, const char *text) {
    if (tk == NULL || text == NULL) return -1;
    return rp_strings_find(&tk->by_text, text, strlen(text));
}

bool rp_tokenizer_is_end(const RpTokenizer *tk, int32_t id) {
    if (tk == NULL) return false;
    return id >= 0 && id < tk->n_vocab && tk->ends[id];
}
bool rp_tokenizer_is_control(const RpTokenizer *tk, int32_t id) {
    if (tk == NULL) return false;
    return id >= 0 && id < tk->n_vocab && (tk->types[id] == TOKEN_CONTROL || tk->types[id] == TOKEN_UNKNOWN);
}

/* The token of a text, or -1. Control, unknown and byte tokens come from no text: "</" and "s>" are not merged to </s>,
 * and "<0x4" and "1>" not to byte 0x41. */
int32_t rp_spm_token_of(const RpTokenizer *tk, const char *text, size_t len) {
    const int32_t id = rp_strings_find(&tk->by_text, text, len);
    return rp_tokenizer_is_control(tk, id) || (id >= 0 && tk->types[id] == TOKEN_BYTE) ? -1 : id;
}

const char *rp_tokenizer_kind(const RpTokenizer *tk) { return tk != NULL ? tk->kind : ""; }
const char *rp_tokenizer_pre(const RpTokenizer *tk) { return tk != NULL ? tk->pre : ""; }
int32_t     rp_tokenizer_n_vocab(const RpTokenizer *tk) { return tk != NULL ? tk->n_vocab : 0; }
int32_t     rp_tokenizer_bos(const RpTokenizer *tk) { return tk != NULL ? tk->bos : -1; }
int32_t     rp_tokenizer_eos(const RpTokenizer *tk) { return tk != NULL ? tk->eos : -1; }
bool        rp_tokenizer_adds_bos(const RpTokenizer *tk) { return tk != NULL && tk->add_bos && tk->bos >= 0; }

void rp_token_list_free(RpTokenList *list) {
    if (list == NULL) return;
    free(list->ids);
    *list = (RpTokenList){0};
}

RpStatus rp_token_list_push(RpTokenList *list, int32_t id) {
    RP_NOT_NULL(list, "list");

    if (list->n == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        int32_t     *ids      = realloc(list->ids, capacity * sizeof *ids);
        if (ids == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu tokens", capacity);
        list->ids      = ids;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
    return RP_OK;
}
