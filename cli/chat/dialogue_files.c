/* dialogue_files.c - conversations and tools in files (dialogue.h). */
#include "cli/chat/dialogue.h"
#include "cli/request.h"
#include "cli/text_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static RpStatus no_memory(void) { return rp_fail(RP_E_NOMEM, "out of memory for the conversation"); }

size_t cli_dialogue_n_messages(const Dialogue *d) { return json_array_size(json_object_get(d->request, "messages")); }
size_t cli_dialogue_n_tools(const Dialogue *d) { return json_array_size(json_object_get(d->request, "tools")); }

RpStatus cli_dialogue_set(Dialogue *d, const char *name, bool value) {
    return json_object_set_new(d->request, name, json_boolean(value)) == 0 ? RP_OK : no_memory();
}

/* True if the conversation is complete, so that a message of the user comes next. */
static bool user_is_next(const json_t *messages) {
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char   *role = json_string_value(json_object_get(last, "role"));
    if (json_array_size(messages) == 0) return true;
    if (role == NULL || strcmp(role, "user") == 0 || strcmp(role, "tool") == 0) return false;
    return json_array_size(json_object_get(last, "tool_calls")) == 0;
}

/* Renders the request as the next turn would, to find what the library or the template refuses. */
static RpStatus try_request(const Dialogue *d, json_t *request) {
    json_t      *copy    = json_deep_copy(request);
    json_t      *message = json_object_get(copy, "messages");
    char        *json = NULL, *text = NULL;
    bool        *control = NULL;
    RpChatPrompt prompt;
    if (json_is_array(message) && user_is_next(message))
        json_array_append_new(message, json_pack("{s:s, s:s}", "role", "user", "content", "Hi"));
    if (copy != NULL) json = json_dumps(copy, JSON_COMPACT);
    json_decref(copy);
    if (json == NULL) return no_memory();
    const RpChatRequest r  = {.json = json, .json_bytes = strlen(json)};
    const RpStatus      st = rp_chat_prompt(d->chat_template, &r, &text, &control, &prompt);
    free(text);
    free(control);
    free(json);
    return st;
}

/* stdin has the messages. */
static RpStatus load(const char *path, json_t **out) {
    *out = NULL;
    if (strcmp(path, "-") == 0)
        return rp_fail(RP_E_ARG, "-: standard input has the messages, so that no file can come from there");
    return cli_load_json(path, out);
}

/* A copy of the request with other tools. Takes ownership of `tools`. */
static RpStatus with_tools(const Dialogue *d, json_t *tools, json_t **out) {
    *out = json_copy(d->request);
    if (*out == NULL || json_object_set_new(*out, "tools", tools) != 0) return no_memory();
    return try_request(d, *out);
}

RpStatus cli_dialogue_tools(Dialogue *d, const char *path) {
    json_t *tools = NULL, *request = NULL;
    if (path != NULL) RP_TRY(load(path, &tools));
    if (path == NULL) tools = json_array();
    if (path != NULL && !json_is_array(tools)) {
        json_decref(tools);
        return rp_fail(RP_E_FORMAT, "%s: tools must be an array", path);
    }
    const RpStatus st = with_tools(d, tools, &request);
    if (st != RP_OK) {
        json_decref(request);
        return path != NULL && st != RP_E_NOMEM ? rp_fail(st, "%s: %s", path, rp_last_error()) : st;
    }
    json_decref(d->request);
    d->request = request;
    return RP_OK;
}

/* Makes an array of messages a request, and gives it the tools that it lacks. */
static RpStatus complete(json_t **request) {
    if (json_is_array(*request)) *request = json_pack("{s:o}", "messages", *request);
    if (*request == NULL) return no_memory();
    const json_t *tools = json_object_get(*request, "tools");
    if (tools != NULL && !json_is_null(tools)) return RP_OK;
    return json_object_set_new(*request, "tools", json_array()) == 0 ? RP_OK : no_memory();
}

static bool is_context(const char *path) {
    char  magic[4] = {0};
    FILE *f        = strcmp(path, "-") != 0 ? fopen(path, "rb") : NULL;
    if (f == NULL) return false;
    const size_t n = fread(magic, 1, sizeof magic, f);
    fclose(f);
    return n == sizeof magic && memcmp(magic, "GGUF", n) == 0;
}

/* The generator gets the context of the file, whose note is the conversation. */
static RpStatus load_context(Dialogue *d, const char *path, json_t **request, int32_t *n_kept) {
    char        *note;
    json_error_t e;
    RP_TRY(cli_generator_restore(d->generator, path, &d->context, n_kept, &note));
    *request = json_loads(note, JSON_REJECT_DUPLICATES, &e);
    free(note);
    return *request != NULL ? RP_OK : rp_fail(RP_E_FORMAT, "%s: line %d: %s", path, e.line, e.text);
}

RpStatus cli_dialogue_load(Dialogue *d, const char *path) {
    json_t    *request;
    int32_t    n_kept  = 0;
    const bool context = is_context(path);
    RP_TRY(context ? load_context(d, path, &request, &n_kept) : load(path, &request));
    RpStatus st = complete(&request);
    if (st == RP_OK) st = try_request(d, request);
    if (st != RP_OK) {
        json_decref(request);
        return st != RP_E_NOMEM ? rp_fail(st, "%s: %s", path, rp_last_error()) : st;
    }
    json_decref(d->request);
    d->request    = request;
    d->n_restored = context ? (int32_t)d->context.n : 0;
    d->n_kept     = n_kept;
    return RP_OK;
}

/* A mistyped file name must not destroy a model. Devices and pipes are written to, empty files are replaced. A file
 * that is no JSON is read only as far as its first bytes. */
static RpStatus check_replaced(const char *path) {
    struct stat  s;
    json_error_t e;
    if (strcmp(path, "-") == 0 || stat(path, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size == 0) return RP_OK;
    json_t       *old      = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    const json_t *messages = json_is_array(old) ? old : json_object_get(old, "messages");
    const json_t *first    = json_array_get(messages, 0);
    const bool    is_empty = json_is_array(messages) && json_array_size(messages) == 0;
    const bool    is_one   = is_empty || json_is_string(json_object_get(first, "role"));
    json_decref(old);
    return is_one ? RP_OK : rp_fail(RP_E_ARG, "%s: the file is no conversation: it was not replaced", path);
}

static bool names_context(const char *path) {
    static const char end[] = ".context";
    const size_t      n     = strlen(path);
    return n >= sizeof end - 1 && strcmp(path + n - (sizeof end - 1), end) == 0;
}

RpStatus cli_dialogue_check_save(const char *path) {
    struct stat  s;
    RpGgufFile  *f;
    RpGgufString type = {"", 0};
    if (!names_context(path)) return check_replaced(path);
    if (stat(path, &s) != 0 || s.st_size == 0) return RP_OK;
    if (rp_gguf_open(path, &f) == RP_OK && rp_gguf_get_string(f, "general.type", &type) != RP_OK) type.len = 0;
    const bool known = type.len == 7 && memcmp(type.ptr, "context", 7) == 0;
    rp_gguf_close(f);
    if (known) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: the file is no context: it was not replaced", path);
}

static RpStatus write_json(const char *json, const char *path) {
    RpNewFile *file;
    FILE      *out;
    RP_TRY(cli_open_output(path, &file, &out));
    fprintf(out, "%s\n", json);
    if (file == NULL) fflush(out);
    return cli_close_output(file, RP_OK);
}

RpStatus cli_dialogue_save(const Dialogue *d, const char *path) {
    RP_TRY(cli_dialogue_check_save(path));
    char *json = json_dumps(d->request, JSON_INDENT(1));
    if (json == NULL) return no_memory();
    const RpStatus st =
        names_context(path) ? cli_generator_save(d->generator, &d->context, json, path) : write_json(json, path);
    free(json);
    return st;
}
