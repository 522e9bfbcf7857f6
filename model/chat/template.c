/* Chat templates that are run (template/template.h), with the special tokens of a tokenizer. */
#include "model/chat/chat_template.h"

#include "base/argument.h"
#include "base/sized.h"
#include "template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct RpChatTemplate {
    TplProgram   *program;
    char         *bos, *eos; /* texts of the tokens, "" for none */
    bool          adds_bos;
    RpReplyFormat format;    /* of replies */
    bool          has_tools; /* the template names them */

    RpChatTemplate *for_tools; /* or NULL; owned */
};

void rp_chat_template_free(RpChatTemplate *t) {
    if (t == NULL) return;
    rp_chat_template_free(t->for_tools);
    rp_template_free(t->program);
    free(t->bos);
    free(t->eos);
    free(t);
}

/* The text of a token, "" for -1; malloc. */
static RpStatus token_text(const RpTokenizer *tk, int32_t id, char **out) {
    RpGgufString s = {"", 0};
    if (id >= 0) RP_TRY(rp_token_bytes(tk, id, true, &s));
    *out = strndup(s.ptr, s.len);
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a chat template");
}

static RpStatus fill(RpChatTemplate *t, const RpTokenizer *tk, const char *name, const char *text, size_t n) {
    t->adds_bos = rp_tokenizer_adds_bos(tk);
    RP_TRY(token_text(tk, rp_tokenizer_bos(tk), &t->bos));
    RP_TRY(token_text(tk, rp_tokenizer_eos(tk), &t->eos));
    rp_reply_format_detect(text, n, &t->format);
    t->has_tools = memmem(text, n, "tools", 5) != NULL;
    return rp_template_new(name, text, n, &t->program);
}

RpStatus rp_chat_template_new(const RpTokenizer *tk, const char *name, const char *text, size_t n,
                              RpChatTemplate **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(tk, "tk");
    RP_NOT_NULL(name, "name");
    RP_NOT_NULL(text, "text");

    RpChatTemplate *t = calloc(1, sizeof *t);
    if (t == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a chat template");
    const RpStatus st = fill(t, tk, name, text, n);
    if (st != RP_OK) {
        rp_chat_template_free(t);
        return st;
    }
    *out = t;
    return RP_OK;
}

RpReplyFormat rp_chat_template_format_of_replies(const RpChatTemplate *t) { return t->format; }

bool rp_chat_template_has_tools(const RpChatTemplate *t) { return t->has_tools; }

const RpChatTemplate *rp_chat_template_for_tools(const RpChatTemplate *t) {
    return t->for_tools != NULL ? t->for_tools : t;
}

/* Files of some models have a second template. One that cannot be read is an error, as the first would be. */
static RpStatus open_for_tools(const RpGgufFile *f, const RpTokenizer *tk, RpChatTemplate *t) {
    static const char key[] = "tokenizer.chat_template.tool_use";
    RpGgufString      text  = {"", 0};
    RP_TRY(rp_gguf_get_string(f, key, &text));
    return text.len > 0 ? rp_chat_template_new(tk, key + 10, text.ptr, text.len, &t->for_tools) : RP_OK;
}

RpStatus rp_chat_template_of(const RpGgufFile *f, const RpTokenizer *tk, RpChatTemplate **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(tk, "tk");

    RpGgufString text = {"", 0};
    RP_TRY(rp_gguf_get_string(f, "tokenizer.chat_template", &text));
    if (text.len == 0)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: the file has no chat template; name one of chatml, llama3, mistral, gemma, llama2",
                       rp_gguf_path(f));
    RP_TRY(rp_named_template(rp_gguf_path(f), &text));
    RP_TRY(rp_chat_template_new(tk, "chat_template", text.ptr, text.len, out));
    const RpStatus st = open_for_tools(f, tk, *out);
    if (st == RP_OK) return RP_OK;
    rp_chat_template_free(*out);
    *out = NULL;
    return st;
}

static RpStatus run(const RpChatTemplate *t, TplInput *in, char **text, bool **control) {
    const TplVariableText special[] = {
        {"bos_token", t->bos},
        {"eos_token", t->eos}
    };
    const time_t now = time(NULL);
    struct tm    date;
    TplRendered  r;
    in->texts    = special;
    in->n_texts  = sizeof special / sizeof special[0];
    in->defaults = true;
    in->now      = localtime_r(&now, &date);
    RP_TRY(rp_template_render(t->program, in, &r));
    if (strlen(r.text) != r.n) {
        free(r.text);
        free(r.control);
        return rp_fail(RP_E_ARG, "the conversation holds a NUL byte, which a text cannot");
    }
    const size_t n = strlen(t->bos);
    if (t->adds_bos && n > 0 && strncmp(r.text, t->bos, n) == 0 && r.control[0]) { /* else it would be there twice */
        memmove(r.text, r.text + n, r.n - n + 1);
        memmove(r.control, r.control + n, (r.n - n) * sizeof *r.control);
    }
    *text    = r.text;
    *control = r.control;
    return RP_OK;
}

/* Templates that refuse a message of the system get it in front of the first of the user. The error is that of the
 * first run if this fails too. */
static RpStatus run_without_system(const RpChatTemplate *t, TplMessage *m, size_t n, char **text, bool **control) {
    char   why[512];
    size_t bytes = strlen(m[0].text) + strlen(m[1].text) + 3;
    char  *both  = malloc(bytes);
    snprintf(why, sizeof why, "%s", rp_last_error());
    if (both == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the text of a conversation");
    snprintf(both, bytes, "%s\n\n%s", m[0].text, m[1].text);
    m[1].text         = both;
    const RpStatus st = run(t, &(TplInput){.n_messages = n - 1, .messages = m + 1}, text, control);
    free(both);
    return st == RP_E_ARG ? rp_fail(st, "%s", why) : st;
}

RpStatus rp_chat_template_format_sized(const RpChatTemplate *t, const RpChatMessage *messages, size_t message_bytes,
                                       size_t n, char **text, bool **control) {
    RP_OUT(text, "text");
    RP_OUT(control, "control");
    RP_NOT_NULL(t, "t");
    if (n > 0) RP_NOT_NULL(messages, "messages");

    void       *own = NULL;
    RpStatus    st  = rp_sized_array_in(&own, sizeof *messages, messages, message_bytes, n, "RpChatMessage");
    TplInput    in  = {.n_messages = n, .messages = calloc(n + 1, sizeof(TplMessage))};
    TplMessage *m   = (TplMessage *)(uintptr_t)in.messages;
    if (st == RP_OK && m == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for the text of a conversation");
    for (size_t i = 0; i < n && st == RP_OK; i++) {
        const RpChatMessage *from = (const RpChatMessage *)own + i;
        m[i]                      = (TplMessage){from->role, from->text};
        if (from->role == NULL || from->text == NULL)
            st = rp_fail(RP_E_ARG, "message %zu has no %s", i, from->role == NULL ? "role" : "text");
    }
    if (st == RP_OK) st = run(t, &in, text, control);
    if (st == RP_E_ARG && n > 1 && strcmp(m[0].role, "system") == 0 && strcmp(m[1].role, "user") == 0)
        st = run_without_system(t, m, n, text, control);
    free(m);
    free(own);
    return st;
}

RpStatus rp_chat_template_tokenize_sized(const RpTokenizer *tk, const RpChatTemplate *t, const RpChatMessage *messages,
                                         size_t message_bytes, size_t n, unsigned flags, RpTokenList *out) {
    RP_NOT_NULL(tk, "tk");
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(out, "out");
    if (n > 0) RP_NOT_NULL(messages, "messages");

    char *text;
    bool *control;
    RP_TRY(rp_chat_template_format_sized(t, messages, message_bytes, n, &text, &control));
    const RpStatus st = rp_tokenize_masked(tk, text, control, strlen(text), flags, out);
    free(text);
    free(control);
    return st;
}

RpStatus rp_chat_template_render(const RpChatTemplate *t, const char *json, size_t n, char **text, bool **control) {
    RP_OUT(text, "text");
    RP_OUT(control, "control");
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(json, "json");

    Json     j;
    RpStatus st = rp_json_read("messages", json, n, &j);
    if (st == RP_OK) st = run(t, &(TplInput){.json = &j}, text, control);
    rp_json_free(&j);
    return st;
}
