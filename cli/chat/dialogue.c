/* dialogue.c - messages of a conversation, and replies that join it (dialogue.h). */
#include "cli/chat/dialogue.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static RpStatus no_memory(void) { return rp_fail(RP_E_NOMEM, "out of memory for the conversation"); }

static json_t *messages_of(const Dialogue *d) { return json_object_get(d->request, "messages"); }

RpStatus cli_dialogue_open(Dialogue *d, Generator *generator, RpSampler *sampler, const RpChatTemplate *chat_template) {
    d->generator     = generator;
    d->sampler       = sampler;
    d->chat_template = chat_template;
    d->request       = json_pack("{s:[], s:[]}", "messages", "tools");
    return d->request != NULL ? rp_tool_call_log_new(0, &d->log) : no_memory();
}

void cli_dialogue_free(Dialogue *d) {
    json_decref(d->request);
    free(d->asked);
    rp_tool_call_log_free(d->log);
    rp_token_list_free(&d->context);
    *d = (Dialogue){0};
}

/* Takes ownership of `message`, which is NULL if memory ran out. */
static RpStatus append(Dialogue *d, json_t *message) {
    if (message == NULL || json_array_append_new(messages_of(d), message) != 0) return no_memory();
    return RP_OK;
}

RpStatus cli_dialogue_reset(Dialogue *d, const char *system) {
    json_array_clear(messages_of(d));
    rp_sampler_reset(d->sampler);
    RP_TRY(cli_generator_rewind(d->generator, 0, &d->context.n));
    return system != NULL ? append(d, json_pack("{s:s, s:s}", "role", "system", "content", system)) : RP_OK;
}

RpStatus cli_dialogue_ask(Dialogue *d, const char *text) {
    return append(d, json_pack("{s:s, s:s}", "role", "user", "content", text));
}

RpStatus cli_dialogue_result(Dialogue *d, const json_t *call, const char *text) {
    json_t *id = json_object_get(call, "id"), *name = json_object_get(json_object_get(call, "function"), "name");
    return append(d,
                  json_pack("{s:s, s:O, s:O, s:s}", "role", "tool", "tool_call_id", id, "name", name, "content", text));
}

json_t *cli_dialogue_call(const Dialogue *d, size_t i, const char **name) {
    const json_t *messages = messages_of(d);
    const size_t  n        = json_array_size(messages);
    json_t       *call     = NULL;
    for (size_t m = n; m > 0 && call == NULL; m--) { /* results may stand behind it */
        const json_t *message = json_array_get(messages, m - 1);
        const char   *role    = json_string_value(json_object_get(message, "role"));
        call                  = json_array_get(json_object_get(message, "tool_calls"), i);
        if (role == NULL || strcmp(role, "tool") != 0) break;
    }
    *name = json_string_value(json_object_get(json_object_get(call, "function"), "name"));
    return call;
}

json_t *cli_dialogue_keep(const Dialogue *d) { return json_copy(messages_of(d)); }

void cli_dialogue_restore(Dialogue *d, json_t *kept) { json_object_set_new(d->request, "messages", kept); }

void cli_dialogue_drop(json_t *kept) { json_decref(kept); }

bool cli_dialogue_back(Dialogue *d, bool keep_it) {
    json_t *messages = messages_of(d);
    size_t  n        = json_array_size(messages);
    for (; n > 0; n--) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, n - 1), "role"));
        if (role == NULL) continue;
        if (strcmp(role, "user") == 0 || (keep_it && n == json_array_size(messages) && strcmp(role, "tool") == 0))
            break;
    }
    if (n == 0) return false;
    if (!keep_it) n--;
    while (json_array_size(messages) > n) json_array_remove(messages, json_array_size(messages) - 1);
    return true;
}

/* ---- replies ---- */

typedef struct Buffer {
    char  *text; /* malloc; NULL: "" */
    size_t n;
} Buffer;

typedef struct Collect {
    const ReplyOptions *o;
    Buffer              text, reasoning, arguments;
    json_t             *calls; /* those that are complete */
    bool                no_memory;
} Collect;

static bool add(Buffer *b, const char *text, size_t n) {
    char *grown = realloc(b->text, b->n + n + 1);
    if (grown == NULL) return false;
    memcpy(grown + b->n, text, n);
    b->text     = grown;
    b->n        = b->n + n;
    grown[b->n] = '\0';
    return true;
}

static const char *text_of(const Buffer *b) { return b->text != NULL ? b->text : ""; }

static bool add_call(Collect *c, const RpReplyEvent *e) {
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", e->id, "type", "function", "function", "name", e->name,
                             "arguments", text_of(&c->arguments));
    return call != NULL && json_array_append_new(c->calls, call) == 0;
}

/* A malformed call is text of the reply, as the model wrote it. */
static bool collect(Collect *c, const RpReplyEvent *e) {
    switch (e->kind) {
    case RP_REPLY_TEXT:
    case RP_REPLY_MALFORMED:
        return add(&c->text, e->text, e->len);
    case RP_REPLY_REASONING:
        return add(&c->reasoning, e->text, e->len);
    case RP_REPLY_CALL_BEGIN:
        c->arguments.n = 0;
        return add(&c->arguments, "", 0);
    case RP_REPLY_CALL_ARGUMENTS:
        return add(&c->arguments, e->text, e->len);
    case RP_REPLY_CALL_END:
        return add_call(c, e);
    case RP_REPLY_END:
        break;
    }
    return true;
}

static bool on_event(const RpReplyEvent *e, void *user) {
    Collect *c = user;
    if (!collect(c, e)) {
        c->no_memory = true;
        return false;
    }
    return c->o->on_event(e, c->o->user);
}

static bool on_prefill(int64_t done, int64_t total, void *user) {
    const Collect *c = user;
    return c->o->on_prefill(done, total, c->o->user);
}

/* FNV-1a. It seeds the ids of calls, so that they differ from all others of the conversation, also from those of a
 * resumed file: the log finds calls by their ids. */
static uint64_t hash(const char *text, uint64_t seed) {
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (; *text != '\0'; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

/* gpt-oss's template takes the reasoning before calls as `thinking`, and refuses it beside content. */
static RpStatus append_reply(Dialogue *d, const Collect *c) {
    json_t *m  = json_pack("{s:s, s:s}", "role", "assistant", "content", text_of(&c->text));
    bool    ok = m != NULL;
    if (ok && c->reasoning.n > 0)
        ok = json_object_set_new(m, "reasoning_content", json_string(text_of(&c->reasoning))) == 0;
    if (ok && json_array_size(c->calls) > 0) ok = json_object_set(m, "tool_calls", c->calls) == 0;
    if (ok && json_array_size(c->calls) > 0 && c->reasoning.n > 0 && c->text.n == 0)
        ok = json_object_set_new(m, "thinking", json_string(text_of(&c->reasoning))) == 0;
    if (ok) return append(d, m);
    json_decref(m);
    return no_memory();
}

static RpStatus generate(Dialogue *d, Collect *c, RpChatResult *result) {
    char *json = json_dumps(d->request, JSON_COMPACT);
    c->calls   = json_array();
    if (json == NULL || c->calls == NULL) {
        free(json);
        return no_memory();
    }
    const RpChatOptions o  = {.json             = json,
                              .json_bytes       = strlen(json),
                              .log              = d->log,
                              .chat_template    = d->chat_template,
                              .context          = &d->context,
                              .max_tokens       = c->o->max_tokens,
                              .reasoning_budget = c->o->budget,
                              .id_seed          = hash(json, c->o->seed),
                              .prefill_progress = on_prefill,
                              .on_event         = on_event,
                              .user             = c,
                              .on_note          = c->o->on_note};
    const RpStatus      st = cli_generator_chat(d->generator, d->sampler, &o, result);
    free(d->asked);
    d->asked = json;
    RP_TRY(st);
    return c->no_memory ? rp_fail(RP_E_NOMEM, "out of memory for the text of the reply") : RP_OK;
}

RpStatus cli_dialogue_reply(Dialogue *d, const ReplyOptions *o, RpChatResult *result, bool *kept) {
    Collect  c  = {.o = o};
    RpStatus st = generate(d, &c, result);
    if (result->reason == RP_STOP_CANCELLED && c.calls != NULL) json_array_clear(c.calls);
    *kept = result->reason != RP_STOP_CANCELLED || c.text.n > 0;
    if (st == RP_OK && *kept) st = append_reply(d, &c);
    json_decref(c.calls);
    free(c.text.text);
    free(c.reasoning.text);
    free(c.arguments.text);
    return st;
}
