/* Requests of chats from files (request.h). */
#include "cli/request.h"

#include "cli/text_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

RpStatus cli_load_json(const char *path, json_t **out) {
    Text         text;
    json_error_t e;
    *out = NULL;
    RP_TRY(cli_read_text(NULL, path, &text));
    *out = json_loadb(text.bytes, text.n, JSON_REJECT_DUPLICATES, &e);
    free(text.bytes);
    return *out != NULL ? RP_OK : rp_fail(RP_E_FORMAT, "%s: line %d: %s", path, e.line, e.text);
}

static json_t *message(const char *role, const char *text) {
    return json_pack("{s:s, s:s}", "role", role, "content", text);
}

/* {"messages": ...}; NULL if memory ran out. */
static json_t *of_prompt(const char *prompt, const char *system) {
    json_t *messages = json_array();
    if (system != NULL && messages != NULL) json_array_append_new(messages, message("system", system));
    if (messages != NULL) json_array_append_new(messages, message("user", prompt));
    return json_pack("{s:o}", "messages", messages);
}

/* NULL: memory ran out, or the grammar is no UTF-8. */
static RpStatus read_format(const StructuredArgs *s, json_t **format) {
    json_t *schema = NULL;
    Text    gbnf   = {0};
    if (s->schema != NULL) RP_TRY(cli_load_json(s->schema, &schema));
    if (s->grammar != NULL) RP_TRY(cli_read_text(NULL, s->grammar, &gbnf));
    if (schema != NULL)
        *format = json_pack("{s:s, s:o}", "type", "json_schema", "schema", schema);
    else if (s->grammar != NULL)
        *format = json_pack("{s:s, s:s%}", "type", "grammar", "grammar", gbnf.bytes, gbnf.n);
    else if (s->regex != NULL)
        *format = json_pack("{s:s, s:s}", "type", "regex", "regex", s->regex);
    else
        *format = json_pack("{s:s}", "type", "json_object");
    free(gbnf.bytes);
    return RP_OK;
}

static RpStatus set_response_format(const StructuredArgs *s, json_t *root) {
    json_t *format;
    if (!json_is_object(root) || (s->schema == NULL && s->grammar == NULL && s->regex == NULL && !s->json_object))
        return RP_OK;
    RP_TRY(read_format(s, &format));
    return json_object_set_new(root, "response_format", format) == 0
               ? RP_OK
               : rp_fail(RP_E_NOMEM, "out of memory for the form of a reply, or it is no UTF-8");
}

RpStatus cli_request_json(const RequestArgs *a, const char *prompt, const char *system, char **out) {
    json_t  *root = NULL, *tools = NULL;
    RpStatus st = RP_OK;
    *out        = NULL;
    if (a->messages != NULL)
        st = cli_load_json(a->messages, &root);
    else
        root = of_prompt(prompt, system);
    if (st == RP_OK && json_is_array(root)) root = json_pack("{s:o}", "messages", root);
    if (st == RP_OK && a->tools != NULL) st = cli_load_json(a->tools, &tools);
    if (st == RP_OK && tools != NULL && json_is_object(root)) json_object_set(root, "tools", tools);
    if (st == RP_OK) st = set_response_format(a->structured, root);
    if (st == RP_OK) *out = json_dumps(root, JSON_ENCODE_ANY);
    if (st == RP_OK && *out == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for the request");
    json_decref(tools);
    json_decref(root);
    return st;
}

static bool print(EventPrinter *p, const char *text, size_t n) {
    if (n == 0) return true;
    p->any  = true;
    p->last = text[n - 1];
    return cli_print(text, n);
}

static bool print_word(EventPrinter *p, const char *text) { return print(p, text, strlen(text)); }

static bool print_line(const RpReplyEvent *e) {
    static const char *const names[] = {"text",     "reasoning", "call_begin", "call_arguments",
                                        "call_end", "malformed", "end"};
    printf("{\"event\":\"%s\"", names[e->kind]);
    if (e->call >= 0) printf(",\"call\":%d", e->call);
    if (e->id != NULL) {
        printf(",\"id\":");
        rp_put_json_string(e->id, strlen(e->id), stdout);
        printf(",\"name\":");
        rp_put_json_string(e->name, strlen(e->name), stdout);
    }
    if (e->kind != RP_REPLY_END && e->kind != RP_REPLY_CALL_BEGIN) {
        printf(",\"text\":");
        rp_put_json_string(e->text, e->len, stdout);
    }
    printf("}\n");
    return cli_print("", 0);
}

/* Each kind has lines of its own:  (reasoning) ...  and  name({"a": 1})  and  (malformed call) ... */
static bool print_text(EventPrinter *p, const RpReplyEvent *e) {
    const bool arguments = e->kind == RP_REPLY_CALL_ARGUMENTS, end = e->kind == RP_REPLY_CALL_END;
    const bool other = !p->any || p->kind != e->kind || e->kind == RP_REPLY_CALL_BEGIN;
    if (e->kind == RP_REPLY_END) return true;
    if (p->any && other && !arguments && !end && p->last != '\n' && !print_word(p, "\n")) return false;
    if (other && e->kind == RP_REPLY_REASONING && !print_word(p, "(reasoning) ")) return false;
    if (other && e->kind == RP_REPLY_MALFORMED && !print_word(p, "(malformed call) ")) return false;
    p->kind = e->kind;
    if (e->kind == RP_REPLY_CALL_BEGIN) return print_word(p, e->name) && print_word(p, "(");
    return end ? print_word(p, ")") : print(p, e->text, e->len);
}

bool cli_print_event(const RpReplyEvent *e, void *user) {
    EventPrinter *p = user;
    return (p->json ? print_line(e) : print_text(p, e)) && !cli_interrupted();
}
