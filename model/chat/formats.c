/* Chat formats for files without a template: the text that each puts around the messages, with a mask that tells
 * template from message. Templates of model files are Jinja programs, which template.c runs. rp_chat_detect does not
 * run a template, but recognises its format by the marks that it contains. */
#include "reprise/tokenizer.h"

#include "base/argument.h"

#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

/* A growing string, and which of its bytes may be part of a control token: those of the template. Out of
 * memory is sticky. */
typedef struct Text {
    char  *p;
    bool  *control; /* [n] */
    size_t n, capacity;
    bool   failed;
} Text;

static void grow(Text *t, size_t capacity) {
    char *p       = realloc(t->p, capacity);
    t->p          = p != NULL ? p : t->p;
    bool *control = realloc(t->control, capacity * sizeof *control);
    t->control    = control != NULL ? control : t->control;
    t->failed     = t->failed || p == NULL || control == NULL;
    if (!t->failed) t->capacity = capacity;
}

static void append(Text *t, const char *s, size_t n, bool control) {
    if (t->n + n + 1 > t->capacity) grow(t, 2 * (t->n + n + 1));
    if (t->failed) return;
    memcpy(t->p + t->n, s, n);
    for (size_t i = 0; i < n; i++) t->control[t->n + i] = control;
    t->n += n;
    t->p[t->n] = '\0';
}

/* Text of the template. Names of roles are: check_order lets only known ones pass. */
static void put(Text *t, const char *s) { append(t, s, strlen(s), true); }

static void put_message(Text *t, const char *s) { append(t, s, strlen(s), false); }

static void put_message_trimmed(Text *t, const char *s) {
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\n\r\v\f", s[0]) != NULL) s++, n--;
    while (n > 0 && strchr(" \t\n\r\v\f", s[n - 1]) != NULL) n--;
    append(t, s, n, false);
}

static bool is(const RpChatMessage *m, const char *role) { return strcmp(m->role, role) == 0; }

static void chatml(Text *t, const RpChatMessage *m, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put(t, "<|im_start|>"), put(t, m[i].role), put(t, "\n");
        put_message(t, m[i].text), put(t, "<|im_end|>\n");
    }
    put(t, "<|im_start|>assistant\n");
}

static void llama3(Text *t, const RpChatMessage *m, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put(t, "<|start_header_id|>"), put(t, m[i].role), put(t, "<|end_header_id|>\n\n");
        put_message_trimmed(t, m[i].text), put(t, "<|eot_id|>");
    }
    put(t, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* A system message is put in front of the first message of the user. */
static void gemma(Text *t, const RpChatMessage *m, size_t n) {
    const char *system = NULL;
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "system")) {
            system = m[i].text;
            continue;
        }
        put(t, "<start_of_turn>"), put(t, is(&m[i], "assistant") ? "model" : m[i].role), put(t, "\n");
        if (system != NULL && is(&m[i], "user")) {
            put_message_trimmed(t, system), put(t, "\n\n");
            system = NULL;
        }
        put_message_trimmed(t, m[i].text), put(t, "<end_of_turn>\n");
    }
    put(t, "<start_of_turn>model\n");
}

/* The "[INST]" formats. The system message is put at the start of the first user message:
 *     [INST] system_open system system_close user user_close reply reply_close next_turn [INST] user ... */
typedef struct InstMarks {
    const char *system_open, *system_close, *user_close, *reply_close, *next_turn;
} InstMarks;

static void inst(Text *t, const RpChatMessage *m, size_t n, const InstMarks *marks) {
    bool open = false;
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "assistant")) {
            put(t, " "), put_message_trimmed(t, m[i].text), put(t, marks->reply_close);
            continue;
        }
        if (!open) put(t, i > 0 ? marks->next_turn : ""), put(t, "[INST] ");
        open = is(&m[i], "system");
        if (open) put(t, marks->system_open);
        put_message_trimmed(t, m[i].text);
        put(t, open ? marks->system_close : marks->user_close);
    }
}

static void mistral(Text *t, const RpChatMessage *m, size_t n) {
    inst(t, m, n, &(InstMarks){"", "\n\n", "[/INST]", "</s>", ""});
}

static void llama2(Text *t, const RpChatMessage *m, size_t n) {
    inst(t, m, n, &(InstMarks){"<<SYS>>\n", "\n<</SYS>>\n\n", " [/INST]", " </s>", "<s>"});
}

static const struct {
    const char *name;
    void (*format)(Text *t, const RpChatMessage *m, size_t n);
    const char *marks[2]; /* a template of this kind contains all of them */
} kinds[] = {
    [RP_CHAT_CHATML]  = {"chatml",  chatml,  {"<|im_start|>", NULL}                      },
    [RP_CHAT_LLAMA3]  = {"llama3",  llama3,  {"<|start_header_id|>", "<|end_header_id|>"}},
    [RP_CHAT_MISTRAL] = {"mistral", mistral, {"[INST]", NULL}                            },
    [RP_CHAT_GEMMA]   = {"gemma",   gemma,   {"<start_of_turn>", NULL}                   },
    [RP_CHAT_LLAMA2]  = {"llama2",  llama2,  {"[INST]", "<<SYS>>"}                       },
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static bool contains(RpGgufString s, const char *mark) {
    return mark == NULL || memmem(s.ptr, s.len, mark, strlen(mark));
}

RpStatus rp_chat_detect(const RpGgufFile *f, RpChatKind *out) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(out, "out");

    /* llama2 before mistral: the marks of mistral are among its own */
    static const RpChatKind order[] = {RP_CHAT_CHATML, RP_CHAT_LLAMA3, RP_CHAT_GEMMA, RP_CHAT_LLAMA2, RP_CHAT_MISTRAL};
    RpGgufString            text    = {"", 0};
    RP_TRY(rp_gguf_get_string(f, "tokenizer.chat_template", &text));
    if (text.len == 0)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: the file has no chat template; name one of chatml, llama3, mistral, gemma, "
                       "llama2",
                       rp_gguf_path(f));
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (contains(text, kinds[order[i]].marks[0]) && contains(text, kinds[order[i]].marks[1])) {
            *out = order[i];
            return RP_OK;
        }
    size_t shown = 0;
    while (shown < text.len && shown < 40 && text.ptr[shown] != '\n') shown++;
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s: the chat template \"%.*s...\" is not known (there are chatml, llama3, mistral, "
                   "gemma, llama2)",
                   rp_gguf_path(f), (int)shown, text.ptr);
}

RpStatus rp_chat_from_name(const char *name, RpChatKind *out) {
    RP_NOT_NULL(name, "name");
    RP_NOT_NULL(out, "out");

    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = (RpChatKind)i;
            return RP_OK;
        }
    return rp_fail(RP_E_ARG, "there is no chat template '%s' (there are chatml, llama3, mistral, gemma, llama2)", name);
}

const char *rp_chat_name(RpChatKind kind) { return (unsigned)kind < N_KINDS ? kinds[kind].name : "?"; }

/* Legal orders: system? (user assistant)* user */
static RpStatus check_order(const RpChatMessage *m, size_t n) {
    const char *wanted = "user";
    for (size_t i = 0; i < n; i++) {
        if (m[i].role == NULL || m[i].text == NULL)
            return rp_fail(RP_E_ARG, "message %zu has no %s", i, m[i].role == NULL ? "role" : "text");
        if (!is(&m[i], "system") && !is(&m[i], "user") && !is(&m[i], "assistant"))
            return rp_fail(RP_E_ARG, "message %zu has the unknown role '%s'", i, m[i].role);
        if (i == 0 && is(&m[i], "system")) continue;
        if (!is(&m[i], wanted))
            return rp_fail(RP_E_ARG, "message %zu is of the %s: must be of the %s", i, m[i].role, wanted);
        wanted = is(&m[i], "user") ? "assistant" : "user";
    }
    if (n == 0 || !is(&m[n - 1], "user")) return rp_fail(RP_E_ARG, "the last message must be the user's");
    return RP_OK;
}

static RpStatus chat_format(RpChatKind kind, const RpChatMessage *messages, size_t n, Text *out) {
    if ((unsigned)kind >= N_KINDS) return rp_fail(RP_E_ARG, "there is no chat template %d", (int)kind);
    RP_TRY(check_order(messages, n));
    kinds[kind].format(out, messages, n);
    return out->failed ? rp_fail(RP_E_NOMEM, "out of memory for the text of a conversation") : RP_OK;
}

RpStatus rp_chat_format_masked_sized(RpChatKind kind, const RpChatMessage *messages, size_t message_bytes, size_t n,
                                     char **text, bool **control) {
    RP_OUT(text, "text");
    RP_OUT(control, "control");
    if (n > 0) RP_NOT_NULL(messages, "messages");

    void *own = NULL;
    Text  t   = {0};
    RP_TRY(rp_sized_array_in(&own, sizeof *messages, messages, message_bytes, n, "RpChatMessage"));
    const RpStatus st = chat_format(kind, own, n, &t);
    free(own);
    if (st != RP_OK) {
        free(t.p);
        free(t.control);
        return st;
    }
    *text    = t.p;
    *control = t.control;
    return RP_OK;
}

RpStatus rp_chat_format_sized(RpChatKind kind, const RpChatMessage *messages, size_t message_bytes, size_t n,
                              char **out) {
    RP_OUT(out, "out");
    if (n > 0) RP_NOT_NULL(messages, "messages");

    bool          *control;
    const RpStatus st = rp_chat_format_masked_sized(kind, messages, message_bytes, n, out, &control);
    free(control);
    return st;
}

RpStatus rp_chat_tokenize_sized(const RpTokenizer *tk, RpChatKind kind, const RpChatMessage *messages,
                                size_t message_bytes, size_t n, unsigned flags, RpTokenList *out) {
    RP_NOT_NULL(tk, "tk");
    RP_NOT_NULL(out, "out");
    if (n > 0) RP_NOT_NULL(messages, "messages");

    char *text;
    bool *control;
    RP_TRY(rp_chat_format_masked_sized(kind, messages, message_bytes, n, &text, &control));
    const RpStatus st = rp_tokenize_masked(tk, text, control, strlen(text), flags, out);
    free(text);
    free(control);
    return st;
}
