/* Log probabilities of the tokens of a reply (answer.h). */
#include "server/api/answer.h"

#include <stdlib.h>

void api_answer_logprobs(ApiAnswer *a, int choice, const RpTokenLogprob *chosen, const RpTokenLogprob *top,
                         size_t n_top) {
    ApiChoice   *c   = &a->choices[choice];
    const size_t row = 1 + (size_t)(a->n_logprobs > 0 ? a->n_logprobs : 0);
    if (a->n_logprobs < 0) return;
    if (c->n_log == c->log_room) {
        const size_t    room  = 2 * c->log_room + 4;
        RpTokenLogprob *grown = realloc(c->log, room * row * sizeof *grown);
        if (grown == NULL) {
            a->failed = true;
            return;
        }
        c->log      = grown;
        c->log_room = room;
    }
    RpTokenLogprob *next = c->log + row * c->n_log++;
    next[0]              = *chosen;
    for (size_t i = 1; i < row; i++) next[i] = i <= n_top ? top[i - 1] : (RpTokenLogprob){-1, 0};
}

RpGgufString api_token_text(const ApiAnswer *a, int32_t token) {
    RpGgufString s = {0};
    if (a->tokenizer == NULL || rp_token_bytes(a->tokenizer, token, true, &s) != RP_OK) s = (RpGgufString){0};
    if (s.ptr == NULL) s = (RpGgufString){.ptr = "", .len = 0};
    return s;
}

static void put_one(const ApiAnswer *a, const RpTokenLogprob *t, Bytes *out) {
    const RpGgufString s = api_token_text(a, t->token);
    json_put(out, "{'token':%t,'logprob':%f,'bytes':[", s.ptr, (size_t)s.len, (double)t->logprob);
    for (size_t i = 0; i < s.len; i++) json_put(out, "%r%d", i > 0 ? "," : "", (int)(unsigned char)s.ptr[i]);
    bytes_text(out, "]");
}

void api_put_logprobs(ApiAnswer *a, ApiChoice *c, Bytes *out) {
    const size_t row = 1 + (size_t)(a->n_logprobs > 0 ? a->n_logprobs : 0);
    for (size_t k = 0; k < c->n_log; k++) {
        const RpTokenLogprob *r = c->log + row * k;
        if (k > 0) bytes_text(out, ",");
        put_one(a, r, out);
        json_put(out, ",'top_logprobs':[");
        for (size_t i = 1; i < row && r[i].token >= 0; i++) {
            if (i > 1) bytes_text(out, ",");
            put_one(a, &r[i], out);
            bytes_text(out, "}");
        }
        bytes_text(out, "]}");
    }
    c->n_log = 0;
}
