/* logprobs.c - prints what rp_generate gives to on_logprobs. */
#include "cli/logprobs.h"

#include "reprise/reprise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool cli_logprobs_add(Logprobs *l, const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top) {
    const size_t    row   = 1 + n_top;
    RpTokenLogprob *grown = realloc(l->items, (l->n_tokens + 1) * row * sizeof *grown);
    if (grown == NULL) return false;
    l->items                 = grown;
    grown[l->n_tokens * row] = *chosen;
    if (n_top > 0) memcpy(&grown[l->n_tokens * row + 1], top, n_top * sizeof *top);
    l->n_tokens++;
    l->n_top = n_top;
    return true;
}

void cli_logprobs_free(Logprobs *l) { free(l->items); }

/* A token may be a part of a character: its text is then not UTF-8, which JSON shows as U+FFFD. */
static void put_text(const RpTokenizer *tk, int32_t token, FILE *out) {
    RpGgufString text = {.ptr = ""};
    if (rp_token_bytes(tk, token, true, &text) != RP_OK) text.len = 0;
    rp_put_json_string(text.ptr, text.len, out);
}

void cli_logprobs_print(const Logprobs *l, const RpTokenizer *tk, FILE *out) {
    const size_t row = 1 + l->n_top;
    for (size_t i = 0; i < l->n_tokens * row; i++) {
        if (i % row > 0) fputs(i % row == 1 ? "   of: " : ", ", out);
        put_text(tk, l->items[i].token, out);
        fprintf(out, " %.4f", (double)l->items[i].logprob);
        if (i % row == row - 1) fputc('\n', out);
    }
}

/* JSON has no infinity: a token of probability 0 has -9999, as in the API of OpenAI. */
static void put_item(const RpTokenLogprob *t, const RpTokenizer *tk, FILE *out) {
    fprintf(out, "{\"id\":%d,\"text\":", t->token);
    put_text(tk, t->token, out);
    fprintf(out, ",\"logprob\":%.6g", isfinite(t->logprob) ? (double)t->logprob : -9999.0);
}

void cli_logprobs_json(const Logprobs *l, const RpTokenizer *tk, FILE *out) {
    fputs(",\"logprobs\":[", out);
    for (size_t i = 0; i < l->n_tokens; i++) {
        const RpTokenLogprob *t = &l->items[i * (1 + l->n_top)];
        if (i > 0) fputc(',', out);
        put_item(t, tk, out);
        fputs(",\"top\":[", out);
        for (size_t k = 1; k <= l->n_top; k++) {
            if (k > 1) fputc(',', out);
            put_item(&t[k], tk, out);
            fputc('}', out);
        }
        fputs("]}", out);
    }
    fputc(']', out);
}
