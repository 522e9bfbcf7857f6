/* Prompts of requests. A call that the log has is first rendered with a mark of its own as arguments; the text around
 * this mark, from the mark that opens the call to the one that closes it, is then replaced by what the model wrote. */
#include "model/chat/chat_template.h"
#include "model/chat/describe.h"
#include "model/chat/parser.h"
#include "model/chat/request.h"

#include "base/argument.h"
#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 24, MARKER_BYTES = 64 };

typedef struct Replay {
    const JsonNode *id;
    const char     *text; /* in the log; NULL: it is not replayed */
    size_t          n;
    char            marker[MARKER_BYTES];
    size_t          from, to; /* in the rendered text */
} Replay;

typedef struct Prompt {
    const RpChatTemplate *t;
    const ReplyFormat    *format;
    Json                  j;
    bool                  tools;
    Replay               *replays; /* of all calls */
    const char          **instead;
    size_t                n, n_found;
    char                 *text;
    bool                 *control;
    const JsonNode       *begun;              /* the message that begins the reply, or NULL */
    char                  marker[WORD_BYTES]; /* in place of its text; "": the template does not get it */
} Prompt;

static void drop_text(Prompt *p) {
    free(p->text);
    free(p->control);
    p->text    = NULL;
    p->control = NULL;
}

/* A word that the request does not have. */
static void make_word(const RpChatRequest *r, const char *letters, char out[WORD_BYTES]) {
    unsigned salt = 7001;
    do snprintf(out, WORD_BYTES, "%s%u", letters, ++salt);
    while (memmem(r->json, r->json_bytes, out, strlen(out)) != NULL);
}

/* Finds the calls of the messages in the log. */
static RpStatus find_calls(Prompt *p, const RpChatRequest *r) {
    const Json     *j        = &p->j;
    const JsonNode *messages = rp_json_get(j, &j->nodes[0], "messages");
    char            text[WORD_BYTES];
    make_word(r, "rpcall", text);
    for (const JsonNode *m = rp_json_first(j, messages); m != NULL; m = rp_json_next(j, messages, m)) {
        const JsonNode *calls = rp_json_get(j, m, "tool_calls");
        p->n += calls != NULL ? calls->n : 0;
    }
    p->replays = calloc(p->n + 1, sizeof *p->replays);
    p->instead = calloc(p->n + 1, sizeof *p->instead);
    if (p->replays == NULL || p->instead == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the calls of a chat");
    size_t i = 0;
    for (const JsonNode *m = rp_json_first(j, messages); m != NULL; m = rp_json_next(j, messages, m)) {
        const JsonNode *calls = rp_json_get(j, m, "tool_calls");
        for (const JsonNode *c = rp_json_first(j, calls); c != NULL; c = rp_json_next(j, calls, c), i++) {
            Replay            *replay = &p->replays[i];
            char               id[256];
            const RpGgufString s = rp_json_string(j, rp_request_call(j, c).id);
            snprintf(id, sizeof id, "%.*s", (int)(s.len < sizeof id ? s.len : 0), s.ptr);
            if (s.len > 0) replay->text = rp_tool_call_log_find(r->log, id, &replay->n);
            snprintf(replay->marker, sizeof replay->marker, "{\"x\": \"%sn%zuw\"}", text, i);
        }
    }
    return RP_OK;
}

/* `variant`: bit 0, content is not null; bit 1, arguments are texts. */
static RpStatus render(Prompt *p, int variant, bool replay) {
    JsonOut out = {0};
    bool    any = false;
    for (size_t i = 0; i < p->n; i++) {
        p->instead[i] = replay && p->replays[i].text != NULL ? p->replays[i].marker : NULL;
        any |= p->instead[i] != NULL;
    }
    drop_text(p);
    RpStatus st = replay && !any ? RP_E_NOT_AVAILABLE : RP_OK; /* not reported: there is nothing to replay */
    if (st == RP_OK)
        st = rp_request_write(&p->j,
                              &(RequestStyle){p->instead, (variant & 2) != 0, (variant & 1) != 0, p->tools, p->begun,
                                              p->marker[0] != '\0' ? p->marker : NULL},
                              &out);
    if (st == RP_OK) st = rp_chat_template_render(p->t, out.p, out.n, &p->text, &p->control);
    free(out.p);
    return st;
}

static bool template_has(const Prompt *p, size_t at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!p->control[at + i]) return false;
    return true;
}

/* The last place of a mark of the template in [from, to); SIZE_MAX: there is none. */
static size_t last_mark(const Prompt *p, size_t from, size_t to, const char *mark) {
    const size_t n = strlen(mark);
    for (size_t at = to; at-- > from;)
        if (strncmp(p->text + at, mark, n) == 0 && template_has(p, at, n)) return at;
    return SIZE_MAX;
}

/* Behind the first mark of the template at or after `from`; without a mark, behind the object that is being written. */
static size_t end_of_call(const Prompt *p, size_t from, const char *mark) {
    if (mark == NULL) {
        const char *brace = strchr(p->text + from, '}');
        return brace != NULL ? (size_t)(brace - p->text) + 1 : SIZE_MAX;
    }
    const size_t n = strlen(mark);
    for (const char *at = strstr(p->text + from, mark); at != NULL; at = strstr(at + 1, mark))
        if (template_has(p, (size_t)(at - p->text), n)) return (size_t)(at - p->text) + n;
    return SIZE_MAX;
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Finds where the template wrote a call. The model must have written the same marks around it. */
static bool locate(const Prompt *p, Replay *r, size_t from) {
    const char *open = p->format->marks[MARK_CALL], *close = p->format->marks[MARK_CALL_END];
    char        core[MARKER_BYTES];
    if (p->format->syntax == SYNTAX_HARMONY) open = "<|start|>assistant";
    if (open == NULL) open = p->format->marks[MARK_NAME], close = p->format->marks[MARK_FUNCTION_END];
    if (open == NULL || p->format->syntax == SYNTAX_NONE) return false;
    snprintf(core, sizeof core, "%.*s", (int)strcspn(r->marker + 7, "\""), r->marker + 7);
    const char *at = strstr(p->text + from, core);
    if (at == NULL) return false;
    r->from = last_mark(p, from, (size_t)(at - p->text), open);
    r->to   = end_of_call(p, (size_t)(at - p->text), close);
    if (r->from == SIZE_MAX || r->to == SIZE_MAX) return false;
    if (close == NULL) { /* only arguments end such a call, not a list of calls */
        const char *behind_name = p->format->marks[MARK_NAME_END];
        if (behind_name == NULL || strstr(r->text, behind_name) == NULL) return false;
        if (last_mark(p, r->from, (size_t)(at - p->text), behind_name) == SIZE_MAX) return false;
    }
    if (p->format->syntax == SYNTAX_HARMONY)
        r->from += strlen(open); /* the prompt of the reply ended there */
    else if (!begins(r->text, open))
        return false;
    const size_t n = close != NULL ? strlen(close) : 0;
    return close == NULL || (r->n >= n && begins(r->text + r->n - n, close));
}

/* Finds the calls in the text; those that are not found are no longer replayed. True: all were found. */
static bool locate_all(Prompt *p) {
    size_t at  = 0;
    bool   all = true;
    p->n_found = 0;
    for (size_t i = 0; i < p->n; i++) {
        Replay *r = &p->replays[i];
        if (r->text == NULL) continue;
        if (locate(p, r, at)) {
            at = r->to;
            p->n_found++;
        } else {
            r->text = NULL;
            all     = false;
        }
    }
    return all;
}

/* The marks in what the model wrote become control tokens again. In JSON they are found around the object only. */
static void mark_control(const ReplyFormat *f, const char *text, size_t n, bool *control) {
    const bool  json  = f->syntax == SYNTAX_JSON || f->syntax == SYNTAX_NAMED || f->syntax == SYNTAX_HARMONY;
    const char *first = json ? memchr(text, '{', n) : NULL, *last = json ? memrchr(text, '}', n) : NULL;
    memset(control, 0, n * sizeof *control);
    for (size_t i = 0; i < n; i++) {
        if (first != NULL && last != NULL && text + i >= first && text + i <= last) continue;
        for (unsigned m = 0; m < N_MARKS; m++) {
            const size_t length = f->marks[m] != NULL ? strlen(f->marks[m]) : 0;
            if (length == 0 || length > n - i || memcmp(text + i, f->marks[m], length) != 0) continue;
            for (size_t k = 0; k < length; k++) control[i + k] = true;
        }
    }
}

static RpStatus splice(Prompt *p) {
    size_t n = strlen(p->text) + 1, at = 0, from = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->replays[i].text != NULL) n += p->replays[i].n;
    char *text;
    bool *control;
    RP_TRY(rp_request_new_prompt(n, &text, &control));
    for (size_t i = 0; i <= p->n; i++) {
        const Replay *r = i < p->n ? &p->replays[i] : NULL;
        if (r != NULL && r->text == NULL) continue;
        const size_t to = r != NULL ? r->from : strlen(p->text);
        memcpy(text + at, p->text + from, to - from);
        memcpy(control + at, p->control + from, (to - from) * sizeof *control);
        at += to - from;
        if (r == NULL) break;
        memcpy(text + at, r->text, r->n);
        mark_control(p->format, r->text, r->n, control + at);
        at += r->n;
        from = r->to;
    }
    text[at] = '\0';
    drop_text(p);
    p->text    = text;
    p->control = control;
    return RP_OK;
}

static RpStatus render_replayed(Prompt *p, int variant) {
    RP_TRY(render(p, variant, true));
    if (!locate_all(p)) {
        RP_TRY(render(p, variant, true));
        if (!locate_all(p)) return RP_E_NOT_AVAILABLE; /* not reported */
    }
    return splice(p);
}

/* With objects as arguments and content that may be null; if the template fails, otherwise. A template that cannot have
 * the markers gets the calls as they are. */
static RpStatus render_any(Prompt *p) {
    RpStatus st      = RP_E_ARG;
    int      variant = -1, n_variants = p->n > 0 ? 4 : 1;
    while (st == RP_E_ARG && ++variant < n_variants) st = render(p, variant, false);
    if (st == RP_E_ARG) return render(p, 0, false); /* for the text of its failure */
    RP_TRY(st);
    char *text    = p->text;
    bool *control = p->control;
    p->text       = NULL;
    p->control    = NULL;
    st            = render_replayed(p, variant);
    if (st == RP_OK || st == RP_E_NOMEM) {
        free(text);
        free(control);
        return st;
    }
    drop_text(p);
    p->text    = text;
    p->control = control;
    p->n_found = 0;
    return RP_OK;
}

/* Ends the text in front of the marker. False: the template has dropped it. */
static bool cut_at_marker(Prompt *p) {
    char *at = NULL;
    for (char *next = p->text; (next = strstr(next, p->marker)) != NULL; next++) at = next;
    if (at != NULL) *at = '\0';
    return at != NULL;
}

/* A reply that is begun goes on where the template puts the text of its message; if it takes no such message, behind
 * the prompt of the others. */
static RpStatus render_begun(Prompt *p, const RpChatRequest *r) {
    p->begun = rp_request_begun(&p->j);
    if (rp_request_begun_text(&p->j, p->begun) == NULL) return render_any(p);
    make_word(r, "rpbegun", p->marker);
    const RpStatus st = render_any(p);
    if (st != RP_OK && st != RP_E_ARG) return st;
    if (st == RP_OK && cut_at_marker(p)) return RP_OK;
    p->marker[0] = '\0';
    return render_any(p);
}

/* For a template that refuses a message of the system: its text in front of the first message of the user. The error is
 * that of the first try if this fails too. */
static RpStatus render_folded(Prompt *p, const RpChatRequest *r) {
    char    why[512];
    JsonOut out = {0};
    Json    j   = {0};
    snprintf(why, sizeof why, "%s", rp_last_error());
    RpStatus st = rp_request_fold_system(&p->j, &out);
    if (st == RP_OK) st = rp_json_read("request", out.p, out.n, &j);
    free(out.p);
    if (st == RP_OK) {
        rp_json_free(&p->j);
        p->j         = j;
        p->marker[0] = '\0';
        st           = render_begun(p, r);
    }
    return st == RP_E_ARG ? rp_fail(st, "%s", why) : st;
}

/* The request as text of messages, for a template that knows no tools. */
static RpStatus rewrite(Prompt *p, const Json *j, Describe *d) {
    JsonOut  out = {0};
    RpStatus st  = rp_request_describe(j, d, &out);
    rp_json_free(&p->j);
    if (st == RP_OK) st = rp_json_read("request", out.p, out.n, &p->j);
    free(out.p);
    return st;
}

/* Puts the description into the system message; if the template refuses or drops that, into the first user message. */
static RpStatus render_rewritten(Prompt *p, const RpChatRequest *r, const Json *j, Describe *d) {
    bool     described = false;
    RpStatus st;
    do {
        p->marker[0] = '\0';
        RP_TRY(rewrite(p, j, d));
        st = render_begun(p, r);
        if (st == RP_OK) st = rp_describe_marks(d->word, &p->text, &p->control, &described);
        if (st == RP_OK && (described || !d->tools)) return RP_OK;
        if (st != RP_OK && st != RP_E_ARG) return st;
        d->in_user = !d->in_user;
    } while (d->tools && d->in_user);
    return st != RP_OK ? st
                       : rp_fail(RP_E_UNSUPPORTED, "the chat template of this model drops the description of tools");
}

static RpStatus prompt_without_tools(Prompt *p, const RpChatRequest *r, RpChatPrompt *out) {
    char     text[WORD_BYTES];
    Json     j = p->j;
    Describe d = {.word = text, .log = r->log, .tools = p->tools};
    make_word(r, "rpmark", text);
    out->describes_tools = p->tools;
    if (p->tools) out->format.calls = "hermes";
    p->j              = (Json){0};
    p->tools          = false;
    const RpStatus st = render_rewritten(p, r, &j, &d);
    out->n_calls      = d.n_calls;
    out->n_replayed   = d.n_replayed;
    rp_json_free(&j);
    return st;
}

static RpStatus prompt(Prompt *p, const RpChatRequest *r, RpChatPrompt *out) {
    const ReplyFormat *reasoning;
    RP_TRY(rp_json_read("request", r->json, r->json_bytes, &p->j));
    RP_TRY(rp_request_check(&p->j, &p->tools));
    if (p->tools || rp_request_has_calls(&p->j)) p->t = rp_chat_template_for_tools(p->t);
    const RpReplyFormat own = rp_chat_template_format_of_replies(p->t);
    out->format.calls       = r->format.calls != NULL ? r->format.calls : own.calls;
    out->format.reasoning   = r->format.reasoning != NULL ? r->format.reasoning : own.reasoning;
    RP_TRY(rp_reply_format_of(out->format.calls, &p->format));
    RP_TRY(rp_reasoning_format_of(out->format.reasoning, &reasoning));
    out->format        = (RpReplyFormat){p->format->name, reasoning->name};
    const bool without = !rp_chat_template_has_tools(p->t) && (p->tools || rp_request_has_calls(&p->j));
    if (without && p->tools && r->format.calls != NULL && strcmp(r->format.calls, "hermes") != 0)
        return rp_fail(RP_E_UNSUPPORTED,
                       "the chat template of this model has no tools: calls have the format \"hermes\", not \"%s\"",
                       p->format->name);
    if (without) {
        RP_TRY(prompt_without_tools(p, r, out));
    } else {
        RP_TRY(find_calls(p, r));
        RpStatus st = render_begun(p, r);
        if (st == RP_E_ARG) st = render_folded(p, r);
        RP_TRY(st);
        out->n_calls    = (int32_t)p->n;
        out->n_replayed = (int32_t)p->n_found;
    }
    out->in_reasoning = rp_reply_format_opens(&out->format, p->text, strlen(p->text));
    return rp_request_put_begun(&p->j, p->marker[0] == '\0', &p->text, &p->control, out);
}

RpStatus rp_chat_prompt_sized(const RpChatTemplate *t, const RpChatRequest *request, size_t request_bytes, char **text,
                              bool **control, RpChatPrompt *out, size_t out_bytes) {
    RP_OUT(text, "text");
    RP_OUT(control, "control");
    RP_NOT_NULL(t, "t");
    RP_NOT_NULL(request, "request");
    RP_NOT_NULL(out, "out");
    RpChatRequest r;
    RpChatPrompt  result = {
         .format = {"none", "none"}
    };
    Prompt p = {.t = t};
    RP_TRY(rp_sized_in(&r, sizeof r, request, request_bytes, "RpChatRequest"));
    RpStatus st = r.json != NULL ? prompt(&p, &r, &result) : rp_fail(RP_E_ARG, "the request has no JSON");
    if (st == RP_OK) {
        *text    = p.text;
        *control = p.control;
    } else {
        drop_text(&p);
    }
    rp_json_free(&p.j);
    free(p.replays);
    free(p.instead);
    rp_sized_out(out, out_bytes, &result, sizeof result);
    return st;
}
