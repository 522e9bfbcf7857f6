/* The begin of a reply that the request has as its last message (request.h). Where the template does not take it, it is
 * put behind the prompt of the other messages:
 *
 *     think     <think>\nREASONING\n</think>\n\nCONTENT        the other marks of reasoning without line ends
 *     harmony   <|channel|>analysis<|message|>REASONING<|end|><|start|>assistant<|channel|>final<|message|>CONTENT
 *
 * Marks that the template has put there already are not put again. What follows the last text is left to the model. */
#include "model/chat/parser.h"
#include "model/chat/request.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 16 };

typedef struct Piece {
    RpGgufString text;
    bool         control; /* text of the template, which may be a control token */
} Piece;

typedef struct Pieces {
    Piece  all[MOST_PIECES];
    int    n;
    size_t bytes;
} Pieces;

static void put(Pieces *p, RpGgufString text, bool control) {
    if (text.len == 0) return;
    p->all[p->n++] = (Piece){text, control};
    p->bytes += text.len;
}

static void put_mark(Pieces *p, const char *mark) {
    if (mark != NULL) put(p, (RpGgufString){mark, strlen(mark)}, true);
}

static void put_channel(Pieces *p, const ReplyFormat *f, const char *name) {
    put_mark(p, f->marks[MARK_CHANNEL]);
    put_mark(p, name);
    put_mark(p, f->marks[MARK_MESSAGE]);
}

static void put_harmony(Pieces *p, const ReplyFormat *f, RpGgufString reasoning, RpGgufString content) {
    if (reasoning.len > 0) {
        put_channel(p, f, "analysis");
        put(p, reasoning, false);
        if (content.len == 0) return;
        put_mark(p, f->marks[MARK_MESSAGE_END]);
        put_mark(p, f->marks[MARK_HEADER]);
        put_mark(p, "assistant");
    }
    if (content.len > 0) put_channel(p, f, "final");
    put(p, content, false);
}

static void put_marked(Pieces *p, const ReplyFormat *f, bool opened, RpGgufString reasoning, RpGgufString content) {
    const bool lines = strcmp(f->name, "think") == 0;
    if (reasoning.len > 0 && !opened) {
        put_mark(p, f->marks[MARK_THINK]);
        if (lines) put_mark(p, "\n");
    }
    put(p, reasoning, false);
    if (content.len == 0) return;
    if (reasoning.len > 0 || opened) {
        if (lines) put_mark(p, "\n");
        put_mark(p, f->marks[MARK_THINK_END]);
        if (lines) put_mark(p, "\n\n");
    }
    put(p, content, false);
}

/* Grows text and control by the pieces. */
static RpStatus append(const Pieces *p, char **text, bool **control) {
    size_t n      = strlen(*text);
    char  *longer = realloc(*text, n + p->bytes + 1);
    if (longer != NULL) *text = longer;
    bool *more = realloc(*control, (n + p->bytes + 1) * sizeof *more);
    if (more != NULL) *control = more;
    if (longer == NULL || more == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for a prompt of %zu bytes", n + p->bytes);
    for (int i = 0; i < p->n; i++) {
        const Piece *x = &p->all[i];
        memcpy(longer + n, x->text.ptr, x->text.len);
        for (size_t k = 0; k < x->text.len; k++) more[n++] = x->control;
    }
    longer[n] = '\0';
    return RP_OK;
}

RpStatus rp_request_put_begun(const Json *j, bool whole, char **text, bool **control, RpChatPrompt *out) {
    const JsonNode *m = rp_request_begun(j), *last = rp_request_begun_text(j, m);
    if (last == NULL) return RP_OK;
    const RpGgufString content   = rp_json_string(j, rp_json_get(j, m, "content"));
    const RpGgufString reasoning = rp_json_string(j, rp_json_get(j, m, "reasoning_content"));
    const ReplyFormat *calls, *marks;
    Pieces             pieces = {0};
    RP_TRY(rp_reply_format_of(out->format.calls, &calls));
    RP_TRY(rp_reasoning_format_of(out->format.reasoning, &marks));
    if (!whole)
        put(&pieces, rp_json_string(j, last), false);
    else if (calls->syntax == SYNTAX_HARMONY)
        put_harmony(&pieces, calls, reasoning, content);
    else if (reasoning.len > 0 && marks->marks[MARK_THINK] == NULL)
        return rp_fail(RP_E_ARG,
                       "continue_final_message: this model writes no reasoning, and the last message has some");
    else
        put_marked(&pieces, marks, out->in_reasoning, reasoning, content);
    out->in_reasoning = content.len == 0;
    out->continues    = true;
    return append(&pieces, text, control);
}
