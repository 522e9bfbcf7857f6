/* Reads members of a request (json.h). */
#include "server/api/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool api_refuse(ApiError *e, const char *at, const char *name, const char *format, ...) {
    char    text[sizeof e->message - sizeof e->param - 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *e = (ApiError){.status = 400, .type = "invalid_request_error"};
    snprintf(e->param, sizeof e->param, "%s%s%s", at, *at != '\0' && *name != '\0' ? "." : "", name);
    snprintf(e->message, sizeof e->message, "%s%s%s", e->param, e->param[0] != '\0' ? ": " : "", text);
    return false;
}

bool api_no_memory(ApiError *e) {
    *e = (ApiError){.status = 500, .type = "server_error", .message = "out of memory"};
    return false;
}

void api_path(char out[API_PATH], const char *at, const char *name, size_t i) {
    char place[API_PATH];
    snprintf(place, sizeof place, "%s%s%s", at, *at != '\0' && *name != '\0' ? "." : "", name);
    const size_t n = strlen(place);
    memcpy(out, place, n + 1);
    snprintf(out + n, API_PATH - n, "[%zu]", i);
}

bool api_body_read(const char *body, size_t n, json_t **out, ApiError *error) {
    json_error_t why;
    *out = json_loadb(body, n, JSON_DECODE_ANY, &why);
    if (*out == NULL && why.line < 0) return api_no_memory(error);
    if (*out == NULL) return api_refuse(error, "", "", "the body is no JSON: line %d, %s", why.line, why.text);
    if (json_is_object(*out)) return true;
    json_decref(*out);
    *out = NULL;
    return api_refuse(error, "", "", "the body must be a JSON object");
}

const json_t *api_member(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

bool api_read_whole(const json_t *object, const char *at, const char *name, int64_t low, int64_t high, int64_t *out,
                    ApiError *e) {
    const json_t *value = api_member(object, name);
    if (value == NULL) return true;
    const double  x     = json_number_value(value);
    const bool    whole = json_is_integer(value) || (json_is_real(value) && x == floor(x) && fabs(x) < 9e15);
    const int64_t i     = json_is_integer(value) ? json_integer_value(value) : whole ? (int64_t)x : 0;
    if (!whole || i < low || i > high)
        return api_refuse(e, at, name, "must be a whole number from %lld to %lld", (long long)low, (long long)high);
    *out = i;
    return true;
}

bool api_read_number(const json_t *object, const char *at, const char *name, double low, double high, double *out,
                     ApiError *e) {
    const json_t *value = api_member(object, name);
    if (value == NULL) return true;
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(x >= low && x <= high))
        return api_refuse(e, at, name, "must be a number from %g to %g", low, high);
    *out = x;
    return true;
}

bool api_read_bool(const json_t *object, const char *at, const char *name, bool *out, ApiError *e) {
    const json_t *value = api_member(object, name);
    if (value != NULL && !json_is_boolean(value)) return api_refuse(e, at, name, "must be true or false");
    if (value != NULL) *out = json_is_true(value);
    return true;
}

bool api_read_string(const json_t *object, const char *at, const char *name, const char **out, ApiError *e) {
    const json_t *value = api_member(object, name);
    if (value != NULL && !json_is_string(value)) return api_refuse(e, at, name, "must be a string");
    if (value != NULL) *out = json_string_value(value);
    return true;
}

bool api_read_tree(const json_t *object, const char *at, const char *name, json_type type, const json_t **out,
                   ApiError *e) {
    const json_t *value = api_member(object, name);
    if (value != NULL && json_typeof(value) != type)
        return api_refuse(e, at, name, "must be %s", type == JSON_OBJECT ? "an object" : "an array");
    if (value != NULL) *out = value;
    return true;
}

bool api_need_string(const json_t *object, const char *at, const char *name, const char **out, ApiError *e) {
    const char *text = NULL;
    if (!api_read_string(object, at, name, &text, e)) return false;
    if (text == NULL || *text == '\0') return api_refuse(e, at, name, "must be a string that is not empty");
    *out = text;
    return true;
}

/* The member of a part that has its text; NULL: a part of this type has none. */
static const char *text_member(const char *type) {
    static const char *const texts[] = {"text", "input_text", "output_text", "summary_text", "reasoning_text"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(type, texts[i]) == 0) return "text";
    return strcmp(type, "refusal") == 0 ? "refusal" : NULL;
}

bool api_read_part(const json_t *part, const char *at, Bytes *out, ApiError *e) {
    const char *type, *member, *text = NULL;
    if (!json_is_object(part)) return api_refuse(e, at, "", "must be an object");
    if (!api_need_string(part, at, "type", &type, e)) return false;
    member = text_member(type);
    if (member == NULL)
        return api_refuse(e, at, "", "parts of type \"%.40s\" are not supported: the model reads text only", type);
    if (!api_read_string(part, at, member, &text, e)) return false;
    if (text == NULL) return api_refuse(e, at, member, "must be a string");
    bytes_text(out, text);
    return true;
}

bool api_read_text(const json_t *value, const char *at, const char *name, Bytes *out, ApiError *e) {
    char          place[API_PATH];
    size_t        i;
    const json_t *part;
    if (json_is_string(value)) {
        bytes_text(out, json_string_value(value));
    } else {
        if (!json_is_array(value)) return api_refuse(e, at, name, "must be a string or an array of parts");
        bytes_text(out, "");
        json_array_foreach(value, i, part) {
            api_path(place, at, name, i);
            if (i > 0) bytes_text(out, "\n");
            if (!api_read_part(part, place, out, e)) return false;
        }
    }
    return !out->failed || api_no_memory(e);
}

static bool is_ids(const json_t *text) {
    for (size_t i = 0; i < json_array_size(text); i++) {
        const json_t *id = json_array_get(text, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) return false;
    }
    return json_array_size(text) > 0;
}

bool api_read_texts(const json_t *object, const char *name, size_t most, json_t **out, ApiError *e) {
    const json_t *given  = api_member(object, name), *one;
    const bool    single = json_is_string(given) || is_ids(given);
    size_t        i;
    char          at[API_PATH];
    if (!single && (!json_is_array(given) || json_array_size(given) == 0))
        return api_refuse(e, "", name, "must be a string, an array of token ids, or an array of these");
    if (!single && json_array_size(given) > most) return api_refuse(e, "", name, "must have at most %zu texts", most);
    *out = single ? json_array() : json_deep_copy(given);
    if (*out == NULL || (single && json_array_append_new(*out, json_deep_copy(given)) != 0)) return api_no_memory(e);
    json_array_foreach(*out, i, one) {
        api_path(at, "", name, i);
        if (!json_is_string(one) && !is_ids(one))
            return api_refuse(e, at, "", "must be a string or an array of token ids");
    }
    return true;
}

bool api_set(json_t *object, const char *name, json_t *value) { return json_object_set_new(object, name, value) == 0; }
