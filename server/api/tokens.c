/* llama.cpp's /tokenize and /detokenize (plain.h). */
#include "server/api/json.h"
#include "server/api/plain.h"

#include <limits.h>
#include <stdlib.h>

/* The text of a token, or its bytes if they are no whole characters. */
static void put_piece(const RpTokenizer *tk, int32_t id, Bytes *out) {
    RpGgufString s = {.ptr = "", .len = 0};
    if (rp_token_bytes(tk, id, true, &s) != RP_OK || s.ptr == NULL) s = (RpGgufString){.ptr = "", .len = 0};
    json_t *text = json_stringn(s.ptr, s.len); /* NULL: no UTF-8 */
    json_put(out, "{'id':%d,'piece':", id);
    if (text != NULL) {
        json_put(out, "%t}", s.ptr, (size_t)s.len);
    } else {
        for (size_t i = 0; i < s.len; i++) json_put(out, "%r%d", i > 0 ? "," : "[", (int)(unsigned char)s.ptr[i]);
        bytes_text(out, "]}");
    }
    json_decref(text);
}

bool api_tokenize(const json_t *body, const RpTokenizer *tk, Bytes *out, ApiError *error) {
    const char *text    = NULL;
    bool        special = false, parse = true, pieces = false;
    RpTokenList ids = {0};
    if (!api_read_string(body, "", "content", &text, error) ||
        !api_read_bool(body, "", "add_special", &special, error) ||
        !api_read_bool(body, "", "parse_special", &parse, error) ||
        !api_read_bool(body, "", "with_pieces", &pieces, error))
        return false;
    if (text == NULL) return api_refuse(error, "", "content", "must be a string");
    const unsigned flags = (special ? RP_TOK_ADD_SPECIAL : 0u) | (parse ? RP_TOK_PARSE_SPECIAL : 0u);
    if (rp_tokenize(tk, text, json_string_length(json_object_get(body, "content")), flags, &ids) != RP_OK) {
        rp_token_list_free(&ids);
        return api_refuse(error, "", "content", "%s", rp_last_error());
    }
    json_put(out, "{'tokens':[");
    for (size_t i = 0; i < ids.n; i++) {
        if (i > 0) bytes_text(out, ",");
        if (pieces)
            put_piece(tk, ids.ids[i], out);
        else
            json_put(out, "%d", ids.ids[i]);
    }
    bytes_text(out, "]}");
    rp_token_list_free(&ids);
    return true;
}

bool api_detokenize(const json_t *body, const RpTokenizer *tk, Bytes *out, ApiError *error) {
    const json_t *tokens = NULL, *id;
    Bytes         text   = {0};
    size_t        i;
    char          at[API_PATH];
    if (!api_read_tree(body, "", "tokens", JSON_ARRAY, &tokens, error)) return false;
    if (tokens == NULL) return api_refuse(error, "", "tokens", "must be an array");
    json_array_foreach(tokens, i, id) {
        RpGgufString s     = {.ptr = NULL, .len = 0};
        const bool   whole = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= INT_MAX;
        api_path(at, "", "tokens", i);
        if (!whole || rp_token_bytes(tk, (int32_t)json_integer_value(id), true, &s) != RP_OK) {
            bytes_free(&text);
            return api_refuse(error, at, "", "must be the id of a token");
        }
        if (s.ptr != NULL) bytes_put(&text, s.ptr, s.len);
    }
    json_put(out, "{'content':%t}", text.p != NULL ? text.p : "", text.n);
    const bool ok = !text.failed;
    bytes_free(&text);
    return ok || api_no_memory(error);
}
