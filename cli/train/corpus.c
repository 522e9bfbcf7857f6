/* Texts and token files as one stream of tokens, cut into what is learned and what is held out:
 *
 *     files -> documents -> tokens, an end token after each document -> train | held
 *
 * Every 20th document is held out (--hold-out), or every 20th sequence of tokens if there are too few documents. */
#include "cli/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cli_corpus_free(Corpus *c) {
    for (size_t i = 0; i < c->n_files; i++) free(c->files[i].bytes);
    free(c->files);
    free(c->documents);
    free(c->starts);
    rp_token_list_free(&c->train);
    rp_token_list_free(&c->held);
    *c = (Corpus){0};
}

/* ---- documents ---- */

/* Adds a document without the line ends around it. An empty one is left out. The text is borrowed. */
static RpStatus add_document(Corpus *c, const char *text, size_t len) {
    while (len > 0 && (*text == '\n' || *text == '\r')) text++, len--;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) len--;
    if (len == 0) return RP_OK;
    if (c->n_documents == c->document_room) {
        const size_t  room  = 2 * c->document_room + 64;
        RpGgufString *grown = realloc(c->documents, room * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu documents", room);
        c->documents     = grown;
        c->document_room = room;
    }
    c->documents[c->n_documents++] = (RpGgufString){text, len};
    return RP_OK;
}

/* A line end, then a line with no more than spaces: its bytes, 0 if there is none at p. */
static size_t blank_line(const char *p, const char *end) {
    const char *q = p;
    if (*q++ != '\n') return 0;
    while (q < end && (*q == ' ' || *q == '\t' || *q == '\r')) q++;
    return q < end && *q == '\n' ? (size_t)(q - p) : 0;
}

/* The next place where a document ends, `end` if there is none, and the bytes of the separator there. */
static const char *next_separator(const char *p, const char *end, const char *separator, size_t *n) {
    *n = separator != NULL ? strlen(separator) : 0;
    if (separator != NULL) {
        const char *found = *n > 0 ? memmem(p, (size_t)(end - p), separator, *n) : NULL;
        return found != NULL ? found : end;
    }
    for (const char *q = p; (q = memchr(q, '\n', (size_t)(end - q))) != NULL; q++) {
        *n = blank_line(q, end);
        if (*n > 0) return q;
    }
    return end;
}

/* Cuts a file into documents at the separator, which belongs to none of them. */
static RpStatus cut(Corpus *c, const Text *text, const char *separator) {
    const char *end = text->bytes + text->n;
    for (const char *p = text->bytes; p < end;) {
        size_t      n;
        const char *q = next_separator(p, end, separator, &n);
        RP_TRY(add_document(c, p, (size_t)(q - p)));
        p = q < end ? q + n : end;
    }
    return RP_OK;
}

RpStatus cli_corpus_read(Corpus *c, const TextList *paths, const char *separator) {
    c->files = calloc(paths->n, sizeof *c->files);
    if (c->files == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu texts", paths->n);
    for (size_t i = 0; i < paths->n; i++) {
        const size_t before = c->n_documents;
        RP_TRY(cli_read_text(NULL, paths->items[i], &c->files[i]));
        c->n_files++;
        RP_TRY(cut(c, &c->files[i], separator));
        if (c->n_documents == before) return rp_fail(RP_E_ARG, "%s: there is no text in it", paths->items[i]);
    }
    return RP_OK;
}

size_t cli_corpus_period(float share) { return share > 0.0f ? (size_t)lroundf(1.0f / share) : 0; }

/* Every period-th document or sequence is held out, beginning in the middle of the first period. period 0: none. */
static bool is_held(size_t i, size_t period) { return period > 0 && i % period == period / 2; }

RpStatus cli_corpus_training_texts(const Corpus *c, float share, RpGgufString **out, size_t *n) {
    const size_t period = c->n_documents >= cli_corpus_period(share) ? cli_corpus_period(share) : 0;
    *n                  = 0;
    *out                = malloc((c->n_documents + 1) * sizeof **out);
    if (*out == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu documents", c->n_documents);
    for (size_t i = 0; i < c->n_documents; i++)
        if (!is_held(i, period)) (*out)[(*n)++] = c->documents[i];
    return RP_OK;
}

/* ---- tokens ---- */

/* The next document begins at the end of the tokens so far. */
static RpStatus begin_document(Corpus *c, size_t at) {
    if (c->n_starts == c->start_room) {
        const size_t room  = 2 * c->start_room + 64;
        size_t      *grown = realloc(c->starts, room * sizeof *grown);
        if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu documents", room);
        c->starts     = grown;
        c->start_room = room;
    }
    c->starts[c->n_starts++] = at;
    return RP_OK;
}

/* BOS in front of a document if the model adds one; where it is EOS too, only in front of the first. */
static RpStatus tokenize(Corpus *c, const RpTokenizer *tk, Progress *p) {
    const int32_t bos = rp_tokenizer_adds_bos(tk) ? rp_tokenizer_bos(tk) : -1, eos = rp_tokenizer_eos(tk);
    size_t        done = 0, total = 0;
    for (size_t i = 0; i < c->n_documents; i++) total += c->documents[i].len;
    for (size_t i = 0; i < c->n_documents; i++) {
        const RpGgufString *d = &c->documents[i];
        RP_TRY(begin_document(c, c->train.n));
        if (bos >= 0 && (bos != eos || i == 0)) RP_TRY(rp_token_list_push(&c->train, bos));
        RP_TRY(rp_tokenize(tk, d->ptr, d->len, 0, &c->train));
        if (eos >= 0) RP_TRY(rp_token_list_push(&c->train, eos));
        done += d->len;
        if (!cli_progress(p, (double)done, (double)total)) return rp_fail(RP_E_CANCELLED, "interrupted");
    }
    return RP_OK;
}

RpStatus cli_corpus_tokenize(Corpus *c, const RpTokenizer *tk, bool quiet) {
    Progress       p  = {.label = "tokens", .off = quiet};
    const RpStatus st = tokenize(c, tk, &p);
    cli_progress_end(&p);
    return st;
}

/* Id i of a token file: an unsigned little-endian integer of `bytes` bytes. */
static int64_t id_at(const Text *t, size_t i, int32_t bytes) {
    const unsigned char *p  = (const unsigned char *)t->bytes + i * (size_t)bytes;
    uint32_t             id = 0;
    for (int32_t k = bytes - 1; k >= 0; k--) id = id << 8 | p[k];
    return (int64_t)id;
}

/* Appends the ids of a token file. A document begins after each end token; without a tokenizer all are one document. */
static RpStatus add_ids(Corpus *c, const char *path, const Text *t, int32_t bytes, int32_t n_vocab,
                        const RpTokenizer *tk) {
    const int32_t eos    = tk != NULL ? rp_tokenizer_eos(tk) : -1;
    bool          begins = true;
    if (t->n == 0) return rp_fail(RP_E_ARG, "%s: there are no tokens in it", path);
    if (t->n % (size_t)bytes != 0)
        return rp_fail(RP_E_ARG, "%s: %zu bytes are no whole tokens of %d bytes (see --token-bytes)", path, t->n,
                       bytes);
    for (size_t i = 0; i < t->n / (size_t)bytes; i++) {
        const int64_t id = id_at(t, i, bytes);
        if (id >= n_vocab)
            return rp_fail(RP_E_ARG, "%s: token %zu is %lld, outside of a vocabulary of %d", path, i, (long long)id,
                           n_vocab);
        if (begins) RP_TRY(begin_document(c, i));
        RP_TRY(rp_token_list_push(&c->train, (int32_t)id));
        begins = id == eos && i > 0;
    }
    c->n_documents = c->n_starts;
    return RP_OK;
}

RpStatus cli_corpus_read_tokens(Corpus *c, const char *path, int32_t bytes, int32_t n_vocab, const RpTokenizer *tk) {
    Text text = {0};
    RP_TRY(cli_read_text(NULL, path, &text));
    const RpStatus st = add_ids(c, path, &text, bytes, n_vocab, tk);
    free(text.bytes);
    return st;
}

/* ---- the split ---- */

/* Moves ids [from, end) of the tokens so far to the held-out ones, or to the end of the training tokens. */
static RpStatus move(Corpus *c, size_t from, size_t end, bool held, size_t *n_train) {
    if (!held) memmove(c->train.ids + *n_train, c->train.ids + from, (end - from) * sizeof *c->train.ids);
    if (!held) *n_train += end - from;
    for (size_t i = from; held && i < end; i++) RP_TRY(rp_token_list_push(&c->held, c->train.ids[i]));
    return RP_OK;
}

/* The index after the last token of a document. */
static size_t end_of(const Corpus *c, size_t document) {
    return document + 1 < c->n_starts ? c->starts[document + 1] : c->train.n;
}

/* Whether the held documents fill a sequence. */
static bool documents_suffice(const Corpus *c, size_t period, size_t width) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_starts; i++)
        if (is_held(i, period)) n += end_of(c, i) - c->starts[i];
    return n >= width;
}

/* Whole documents are held out if they fill at least one sequence, else blocks of seq + 1 tokens. Training tokens
 * close the gaps, so a sequence may contain the end of one document and the beginning of another. */
RpStatus cli_corpus_split(Corpus *c, float share, int32_t seq) {
    const size_t width = (size_t)seq + 1, n = c->train.n, period = cli_corpus_period(share);
    size_t       n_train = 0;
    c->in_blocks         = !documents_suffice(c, period, width);
    for (size_t i = 0; !c->in_blocks && i < c->n_starts; i++) {
        c->n_held += is_held(i, period);
        RP_TRY(move(c, c->starts[i], end_of(c, i), is_held(i, period), &n_train));
    }
    for (size_t i = 0; c->in_blocks && i * width < n; i++) {
        const size_t end  = (i + 1) * width < n ? (i + 1) * width : n;
        const bool   held = is_held(i, period) && end == (i + 1) * width;
        c->n_held += held;
        RP_TRY(move(c, i * width, end, held, &n_train));
    }
    c->train.n = n_train;
    if (n_train >= width) return RP_OK;
    return rp_fail(RP_E_ARG, "%zu tokens, %zu of them held out: a sequence of --seq %d needs %zu", n, n - n_train, seq,
                   width);
}
