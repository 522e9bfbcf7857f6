/* Requests of templates that know no tools, as text (describe.h). The description is that of Hermes 2 and Qwen 2.5. */
#include "model/chat/describe.h"

#include <stdlib.h>
#include <string.h>

enum { CALL_OPEN, CALL_CLOSE, RESULT_OPEN, RESULT_CLOSE, BEGIN, N_WORDS };

/* The i-th text replaces d->word followed by the letter 'a' + i in the rendered prompt. */
static const char *const marks[N_WORDS] = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", ""};

static RpGgufString word(const char *text) { return (RpGgufString){text, strlen(text)}; }

static RpGgufString text_of(const JsonOut *o) { return (RpGgufString){o->n > 0 ? o->p : "", o->n}; }

static void put_mark(JsonOut *o, const Describe *d, int i) {
    const char letter[2] = {(char)('a' + i), '\0'};
    rp_json_put_text(o, d->word);
    rp_json_put_text(o, letter);
}

static void put_tools(JsonOut *o, const Json *j, const Describe *d) {
    const JsonNode *tools = rp_json_get(j, &j->nodes[0], "tools");
    put_mark(o, d, BEGIN);
    rp_json_put_text(o, "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
                        "provided with function signatures within <tools></tools> XML tags:\n<tools>\n");
    for (const JsonNode *t = rp_json_first(j, tools); t != NULL; t = rp_json_next(j, tools, t)) {
        rp_request_write_tool(j, t, o);
        rp_json_put_text(o, "\n");
    }
    rp_json_put_text(o, "</tools>\n\nFor each function call, return a json object with function name and arguments "
                        "within ");
    put_mark(o, d, CALL_OPEN);
    put_mark(o, d, CALL_CLOSE);
    rp_json_put_text(o, " XML tags:\n");
    put_mark(o, d, CALL_OPEN);
    rp_json_put_text(o, "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n");
    put_mark(o, d, CALL_CLOSE);
}

/* The text of a content: a string, or the texts of its parts in lines. */
static void put_content(JsonOut *o, const Json *j, const JsonNode *content) {
    bool first = true;
    if (content != NULL && content->type == JSON_STRING) rp_json_put(o, rp_json_string(j, content).ptr, content->len);
    if (content == NULL || content->type != JSON_ARRAY) return;
    for (const JsonNode *p = rp_json_first(j, content); p != NULL; p = rp_json_next(j, content, p)) {
        const RpGgufString s = rp_json_string(j, p->type == JSON_STRING ? p : rp_json_get(j, p, "text"));
        if (s.len == 0) continue;
        if (!first) rp_json_put_text(o, "\n");
        rp_json_put(o, s.ptr, s.len);
        first = false;
    }
}

/* How the model wrote the call, between its marks; length 0: that is not known. */
static RpGgufString written(const Describe *d, RpGgufString id) {
    const size_t n_open = strlen(marks[CALL_OPEN]), n_close = strlen(marks[CALL_CLOSE]);
    char         key[256];
    size_t       n;
    if (d->log == NULL || id.len == 0 || id.len >= sizeof key) return word("");
    memcpy(key, id.ptr, id.len);
    key[id.len]      = '\0';
    const char *text = rp_tool_call_log_find(d->log, key, &n);
    if (text == NULL || n < n_open + n_close || memcmp(text, marks[CALL_OPEN], n_open) != 0 ||
        memcmp(text + n - n_close, marks[CALL_CLOSE], n_close) != 0)
        return word("");
    return (RpGgufString){text + n_open, n - n_open - n_close};
}

static void put_call(JsonOut *o, const Json *j, const JsonNode *call, Describe *d) {
    const RequestCall  c = rp_request_call(j, call);
    const RpGgufString s = written(d, rp_json_string(j, c.id));
    d->n_calls++;
    d->n_replayed += s.len > 0;
    put_mark(o, d, CALL_OPEN);
    if (s.len > 0) {
        rp_json_put(o, s.ptr, s.len);
    } else {
        rp_json_put_text(o, "\n{\"name\": ");
        rp_json_put_node(o, j, c.name);
        rp_json_put_text(o, ", \"arguments\": ");
        if (c.arguments == NULL)
            rp_json_put_text(o, "{}");
        else if (c.arguments->type == JSON_STRING)
            rp_json_put(o, rp_json_string(j, c.arguments).ptr, c.arguments->len);
        else
            rp_json_put_node(o, j, c.arguments);
        rp_json_put_text(o, "}\n");
    }
    put_mark(o, d, CALL_CLOSE);
}

/* Writing the messages of a request. */
typedef struct Writer {
    const Json     *j;
    Describe       *d;
    JsonOut        *out;
    bool            parts;     /* contents are arrays of parts, as those of the request */
    bool            keep;      /* calls and results stay as they are */
    const JsonNode *folded;    /* the message of the system, until it stands in front of one of the user; or NULL */
    bool            described; /* the tools are */
    size_t          n;         /* messages written */
} Writer;

static void put_text(Writer *w, const JsonOut *text) {
    w->out->failed |= text->failed;
    if (w->parts) rp_json_put_text(w->out, "[{\"type\": \"text\", \"text\": ");
    rp_json_put_string(w->out, text_of(text));
    if (w->parts) rp_json_put_text(w->out, "}]");
}

static void next_message(Writer *w) {
    if (w->n++ > 0) rp_json_put_text(w->out, ", ");
}

static void put_new(Writer *w, const char *role, const JsonOut *text) {
    bool first = true;
    next_message(w);
    rp_json_put_key(w->out, &first, word("role"));
    rp_json_put_string(w->out, word(role));
    rp_json_put_key(w->out, &first, word("content"));
    put_text(w, text);
    rp_json_put_text(w->out, "}");
}

/* The message with another content, and without calls. */
static void put_changed(Writer *w, const JsonNode *message, const JsonOut *text) {
    const Json *j     = w->j;
    bool        first = true;
    next_message(w);
    for (const JsonNode *m = rp_json_first(j, message); m != NULL; m = rp_json_next(j, message, m)) {
        const RpGgufString key = rp_json_key(j, m);
        if ((key.len == 10 && memcmp(key.ptr, "tool_calls", 10) == 0) ||
            (key.len == 7 && memcmp(key.ptr, "content", 7) == 0))
            continue;
        rp_json_put_key(w->out, &first, key);
        rp_json_put_node(w->out, j, m);
    }
    rp_json_put_key(w->out, &first, word("content"));
    put_text(w, text);
    rp_json_put_text(w->out, "}");
}

static bool has_role(const Json *j, const JsonNode *m, const char *role) {
    return rp_json_is(j, rp_json_get(j, m, "role"), role);
}

/* Messages of tools from m on, as one of the user; returns the last of them. */
static const JsonNode *put_results(Writer *w, const JsonNode *messages, const JsonNode *m) {
    const Json     *j    = w->j;
    JsonOut         text = {0};
    const JsonNode *last = m;
    for (; m != NULL && has_role(j, m, "tool"); m = rp_json_next(j, messages, m)) {
        if (text.n > 0) rp_json_put_text(&text, "\n");
        put_mark(&text, w->d, RESULT_OPEN);
        rp_json_put_text(&text, "\n");
        put_content(&text, j, rp_json_get(j, m, "content"));
        rp_json_put_text(&text, "\n");
        put_mark(&text, w->d, RESULT_CLOSE);
        last = m;
    }
    put_new(w, "user", &text);
    free(text.p);
    return last;
}

static void put_message(Writer *w, const JsonNode *m) {
    const Json     *j      = w->j;
    const JsonNode *calls  = rp_json_get(j, m, "tool_calls");
    const bool      system = has_role(j, m, "system") || has_role(j, m, "developer");
    const bool      here   = w->d->tools && !w->described && (w->d->in_user ? has_role(j, m, "user") : system);
    const bool      fold   = w->folded != NULL && has_role(j, m, "user");
    JsonOut         text   = {0};
    if (!here && !fold && (w->keep || calls == NULL || calls->n == 0)) {
        next_message(w);
        rp_json_put_node(w->out, j, m);
        return;
    }
    if (fold) {
        put_content(&text, j, rp_json_get(j, w->folded, "content"));
        rp_json_put_text(&text, "\n\n");
        w->folded = NULL;
    }
    if (here && w->d->in_user) {
        put_tools(&text, j, w->d);
        rp_json_put_text(&text, "\n\n");
    }
    const size_t before = text.n;
    put_content(&text, j, rp_json_get(j, m, "content"));
    if (here && !w->d->in_user) {
        if (text.n > before) rp_json_put_text(&text, "\n\n");
        put_tools(&text, j, w->d);
    }
    for (const JsonNode *c = rp_json_first(j, calls); c != NULL; c = rp_json_next(j, calls, c)) {
        if (text.n > 0) rp_json_put_text(&text, "\n");
        put_call(&text, j, c, w->d);
    }
    w->described |= here;
    put_changed(w, m, &text);
    free(text.p);
}

/* The first message if it is of the system, and one of the user comes later; else NULL. */
static const JsonNode *foldable(const Json *j, const JsonNode *messages) {
    const JsonNode *first = rp_json_first(j, messages);
    if (first == NULL || (!has_role(j, first, "system") && !has_role(j, first, "developer"))) return NULL;
    for (const JsonNode *m = first; m != NULL; m = rp_json_next(j, messages, m))
        if (has_role(j, m, "user")) return first;
    return NULL;
}

static void put_messages(Writer *w, const JsonNode *messages) {
    const Json     *j     = w->j;
    const JsonNode *first = rp_json_first(j, messages);
    for (const JsonNode *m = first; m != NULL && !w->parts; m = rp_json_next(j, messages, m)) {
        const JsonNode *content = rp_json_get(j, m, "content");
        w->parts                = content != NULL && content->type == JSON_ARRAY;
    }
    rp_json_put_text(w->out, "[");
    if (w->d->tools && !w->d->in_user && !has_role(j, first, "system") && !has_role(j, first, "developer")) {
        JsonOut text = {0};
        put_tools(&text, j, w->d);
        put_new(w, "system", &text);
        w->described = true;
        free(text.p);
    }
    if (w->d->in_user) w->folded = foldable(j, messages);
    const JsonNode *skipped = w->folded;
    for (const JsonNode *m = first; m != NULL; m = rp_json_next(j, messages, m)) {
        if (m == skipped) continue;
        if (has_role(j, m, "tool") && !w->keep)
            m = put_results(w, messages, m);
        else
            put_message(w, m);
    }
    rp_json_put_text(w->out, "]");
}

bool rp_request_has_calls(const Json *j) {
    const JsonNode *messages = rp_json_get(j, &j->nodes[0], "messages");
    for (const JsonNode *m = rp_json_first(j, messages); m != NULL; m = rp_json_next(j, messages, m)) {
        const JsonNode *calls = rp_json_get(j, m, "tool_calls");
        if ((calls != NULL && calls->n > 0) || has_role(j, m, "tool")) return true;
    }
    return false;
}

/* The request with its messages as the writer has them; `tools`: also its tools. */
static RpStatus put_request(Writer *w, bool tools) {
    const Json     *j     = w->j;
    const JsonNode *root  = &j->nodes[0];
    bool            first = true;
    for (const JsonNode *m = rp_json_first(j, root); m != NULL; m = rp_json_next(j, root, m)) {
        const RpGgufString key = rp_json_key(j, m);
        if (!tools && key.len == 5 && memcmp(key.ptr, "tools", 5) == 0) continue;
        rp_json_put_key(w->out, &first, key);
        if (key.len == 8 && memcmp(key.ptr, "messages", 8) == 0)
            put_messages(w, m);
        else
            rp_json_put_node(w->out, j, m);
    }
    rp_json_put_text(w->out, "}");
    return w->out->failed ? rp_fail(RP_E_NOMEM, "out of memory for the messages of a chat") : RP_OK;
}

RpStatus rp_request_describe(const Json *j, Describe *d, JsonOut *out) {
    d->n_calls = d->n_replayed = 0;
    return put_request(&(Writer){.j = j, .d = d, .out = out}, false);
}

RpStatus rp_request_fold_system(const Json *j, JsonOut *out) {
    Describe d = {.word = "", .in_user = true};
    if (foldable(j, rp_json_get(j, &j->nodes[0], "messages")) == NULL) return RP_E_ARG; /* not reported */
    return put_request(&(Writer){.j = j, .d = &d, .out = out, .keep = true}, true);
}

RpStatus rp_request_new_prompt(size_t n, char **text, bool **control) {
    *text    = malloc(n);
    *control = malloc(n * sizeof **control);
    if (*text != NULL && *control != NULL) return RP_OK;
    free(*text);
    free(*control);
    return rp_fail(RP_E_NOMEM, "out of memory for a prompt of %zu bytes", n);
}

RpStatus rp_describe_marks(const char *mark_word, char **text, bool **control, bool *described) {
    const size_t n_word = strlen(mark_word), n = strlen(*text);
    size_t       room = n + 1, to = 0;
    for (const char *at = *text; (at = strstr(at, mark_word)) != NULL; at += n_word)
        room += strlen(marks[RESULT_CLOSE]);
    char *new_text;
    bool *new_control;
    *described = false;
    RP_TRY(rp_request_new_prompt(room, &new_text, &new_control));
    for (size_t i = 0; i < n;) {
        const int which = strncmp(*text + i, mark_word, n_word) == 0 ? (*text)[i + n_word] - 'a' : -1;
        if (which < 0 || which >= N_WORDS) {
            new_text[to]      = (*text)[i];
            new_control[to++] = (*control)[i++];
            continue;
        }
        *described |= which == BEGIN;
        for (const char *m = marks[which]; *m != '\0'; m++) new_text[to] = *m, new_control[to++] = true;
        i += n_word + 1;
    }
    new_text[to] = '\0';
    free(*text);
    free(*control);
    *text    = new_text;
    *control = new_control;
    return RP_OK;
}
