/* The context of a sequence in a file, GGUF with checksums (gguf_checksum.h):
 *
 *     general.type     "context"
 *     context.format   u32                   2; 3 with context.window_from
 *     context.model    string                rp_model_fingerprint in hexadecimal
 *     context.passes   string                the passes of the session or engine
 *     context.note     string                the caller's
 *     context.window_from u32                the first position that layers with a window have; absent: 0
 *     tokens           i32 [n]
 *     k.<layer>, ...   [d, n, heads]         positions 0 to n - 1 of each cache; with a window from window_from on
 *     delta.<layer>... f32 [m, 1]            the recurrent state after the last token
 *
 * A file without tokens has no tensors. */
#include "model/context/context.h"

#include "model/context/fingerprint.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
#include "model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONTEXT_FORMAT = 2, CONTEXT_FORMAT_WINDOWS = 3 };

static const char key_format[] = "context.format", key_model[] = "context.model", key_passes[] = "context.passes",
                  key_note[] = "context.note", key_window[] = "context.window_from", tensor_tokens[] = "tokens";

typedef struct Fingerprint {
    char hex[17];
} Fingerprint;

static Fingerprint fingerprint_of(const ContextPlace *p) {
    Fingerprint f;
    snprintf(f.hex, sizeof f.hex, "%016" PRIx64, rp_model_fingerprint(p->model));
    return f;
}

/* ---- states of the graph ---- */

/* The i-th node if it is a state, else NULL. */
static const TensorNode *state_at(const ContextPlace *p, int i) {
    const TensorNode *node = rp_graph_node(p->graph, i);
    return strcmp(rp_node_op_name(node), "state") == 0 ? node : NULL;
}

/* A recurrent state is a row of the slot; all others have a row for each position of each head (slots.h). */
static bool is_recurrent(const TensorNode *state) {
    const char *name = rp_node_name(state);
    return strncmp(name, "window.", 7) == 0 || strncmp(name, "delta.", 6) == 0 || strncmp(name, "ssm.", 4) == 0;
}

/* The cache of a layer with a window. */
static bool has_window(const ContextPlace *p, const TensorNode *state) {
    int layer;
    return !is_recurrent(state) && sscanf(rp_node_name(state), "%*[kv].%d", &layer) == 1 && layer >= 0 &&
           layer < p->model->config.n_layer && rp_config_layer(&p->model->config, layer).window > 0;
}

/* A state in the file: `pieces` of `rows` rows, the first of them that of position `first`. In memory the pieces are
 * `step` bytes apart. */
typedef struct Stored {
    RpTensorView view; /* in the file */
    int64_t      pieces;
    int32_t      rows, first;
    size_t       row, step;
} Stored;

static Stored stored_of(const ContextPlace *p, const TensorNode *state, int32_t n, int32_t window_from) {
    const RpTensorView v     = rp_node_view(state);
    const int32_t      first = has_window(p, state) ? window_from : 0, rows = is_recurrent(state) ? 1 : n - first;
    return (Stored){.view   = rp_view_contiguous(v.dtype, (int64_t[]){v.ne[0], rows, v.ne[2], 1}, NULL),
                    .pieces = v.ne[2],
                    .rows   = rows,
                    .first  = first,
                    .row    = v.nb[1],
                    .step   = v.nb[2]};
}

/* Rows that follow each other in memory. */
typedef struct Run {
    int32_t from, n; /* positions */
    bool    none;    /* they have no place */
    size_t  at;      /* byte of the first in a piece */
} Run;

/* The longest run from position `from` to `end` at most. */
static Run run_at(const ContextPlace *p, const TensorNode *state, const Stored *part, int32_t from, int32_t end) {
    if (is_recurrent(state)) return (Run){.n = 1, .at = (size_t)p->slot * part->row};
    const int32_t *blocks = p->windows != NULL && has_window(p, state) ? p->windows : p->blocks;
    if (blocks == NULL) return (Run){.from = from, .n = end - from, .at = (size_t)from * part->row};
    const int32_t in = from % p->block, left = p->block - in, n = left < end - from ? left : end - from;
    const int32_t block = blocks[from / p->block];
    if (block < 0) return (Run){.from = from, .n = n, .none = true};
    return (Run){.from = from, .n = n, .at = (size_t)(block * p->block + in) * part->row};
}

/* ---- writing ---- */

/* Memory for a piece of any state. */
static RpStatus new_buffer(const ContextPlace *p, int32_t n, char **out) {
    size_t most = 1;
    for (int i = 0; i < rp_graph_n_nodes(p->graph); i++) {
        const TensorNode *state = state_at(p, i);
        if (state == NULL) continue;
        const Stored part = stored_of(p, state, n, p->window_from);
        if ((size_t)part.rows * part.row > most) most = (size_t)part.rows * part.row;
    }
    *out = malloc(most);
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a context of %d tokens", n);
}

static void describe(const ContextPlace *p, int32_t n, const char *note, GgufWriter *w) {
    rp_gguf_put_checksums(w);
    rp_gguf_put_string(w, "general.type", "context");
    rp_gguf_put_u32(w, key_format, p->window_from > 0 ? CONTEXT_FORMAT_WINDOWS : CONTEXT_FORMAT);
    if (p->window_from > 0) rp_gguf_put_u32(w, key_window, (uint32_t)p->window_from);
    rp_gguf_put_string(w, key_model, fingerprint_of(p).hex);
    rp_gguf_put_string(w, key_passes, p->passes);
    rp_gguf_put_string(w, key_note, note != NULL ? note : "");
    if (n == 0) return;
    rp_gguf_put_tensor(w, tensor_tokens, sizeof tensor_tokens - 1, RP_I32, (int64_t[]){n, 1, 1, 1});
    for (int i = 0; i < rp_graph_n_nodes(p->graph); i++) {
        const TensorNode *state = state_at(p, i);
        if (state == NULL) continue;
        const RpTensorView v    = stored_of(p, state, n, p->window_from).view;
        const char        *name = rp_node_name(state);
        rp_gguf_put_tensor(w, name, strlen(name), v.dtype, v.ne);
    }
}

static RpStatus write_state(const ContextPlace *p, const TensorNode *state, int32_t n, char *buffer, GgufWriter *w) {
    const Stored part = stored_of(p, state, n, p->window_from);
    for (int64_t k = 0; k < part.pieces; k++) {
        for (int32_t at = 0; at < part.rows;) {
            const Run run = run_at(p, state, &part, part.first + at, part.first + part.rows);
            RP_TRY(rp_executor_get_at(p->executor, state, (size_t)k * part.step + run.at,
                                      buffer + (size_t)at * part.row, (size_t)run.n * part.row));
            at += run.n;
        }
        RP_TRY(rp_gguf_writer_data(w, buffer, (size_t)part.rows * part.row));
    }
    return RP_OK;
}

static RpStatus write_file(const ContextPlace *p, const int32_t *tokens, int32_t n, const char *note, GgufWriter *w) {
    char    *buffer;
    RpStatus st = new_buffer(p, n, &buffer);
    if (st == RP_OK) {
        describe(p, n, note, w);
        st = rp_gguf_writer_begin(w);
    }
    if (st == RP_OK && n > 0) st = rp_gguf_writer_data(w, tokens, (size_t)n * sizeof *tokens);
    for (int i = 0; i < rp_graph_n_nodes(p->graph) && n > 0 && st == RP_OK; i++) {
        const TensorNode *state = state_at(p, i);
        if (state != NULL) st = write_state(p, state, n, buffer, w);
    }
    free(buffer);
    return st;
}

static bool is_context(const RpGgufFile *f) {
    RpGgufString type = {"", 0};
    return rp_gguf_get_string(f, "general.type", &type) == RP_OK && type.len == 7 &&
           memcmp(type.ptr, "context", 7) == 0;
}

/* A slip in the name of a file must not cost a model. The writer refuses paths that are no regular files. */
static RpStatus check_replaced(const char *path) {
    struct stat old;
    RpGgufFile *f;
    if (stat(path, &old) != 0) return errno == ENOENT ? RP_OK : rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(old.st_mode) || old.st_size == 0) return RP_OK;
    const RpStatus st    = rp_gguf_open(path, &f);
    const bool     known = st == RP_OK && is_context(f);
    if (st == RP_OK) rp_gguf_close(f);
    if (known || (st != RP_OK && st != RP_E_FORMAT && st != RP_E_UNSUPPORTED)) return st;
    return rp_fail(RP_E_ARG, "%s: the file is no context: it was not replaced", path);
}

RpStatus rp_context_write(const ContextPlace *p, const int32_t *tokens, int32_t n, const char *note, const char *path) {
    GgufWriter *w;
    RP_TRY(check_replaced(path));
    RP_TRY(rp_gguf_writer_open(path, &w));
    const RpStatus st = write_file(p, tokens, n, note, w);
    return rp_gguf_writer_close(w, st);
}

/* ---- reading ---- */

static RpStatus check_text(const ContextPlace *p, const RpGgufFile *f, const char *key, const char *own,
                           const char *what) {
    RpGgufString text = {"", 0};
    RP_TRY(rp_gguf_get_string(f, key, &text));
    if (text.len == strlen(own) && memcmp(text.ptr, own, text.len) == 0) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: the context was saved with %s '%.*s', the %s has '%s'", rp_gguf_path(f), what,
                   (int)(text.len < 96 ? text.len : 96), text.ptr, p->owner, own);
}

static RpStatus check_header(const ContextPlace *p, const RpGgufFile *f) {
    uint32_t format = 0;
    if (!is_context(f)) return rp_fail(RP_E_FORMAT, "%s: the file is no context", rp_gguf_path(f));
    RP_TRY(rp_gguf_get_u32(f, key_format, &format));
    if (format != CONTEXT_FORMAT && format != CONTEXT_FORMAT_WINDOWS)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %s is %u: this version reads %d and %d", rp_gguf_path(f), key_format,
                       format, CONTEXT_FORMAT, CONTEXT_FORMAT_WINDOWS);
    if (rp_gguf_find(f, GGUF_KEY_TENSORS) == NULL)
        return rp_fail(RP_E_FORMAT, "%s: %s is missing: the file is damaged", rp_gguf_path(f), GGUF_KEY_TENSORS);
    RP_TRY(check_text(p, f, key_model, fingerprint_of(p).hex, "a model with the fingerprint"));
    return check_text(p, f, key_passes, p->passes, "the passes");
}

/* A tensor of the file with this type and shape, whose checksum is right. */
static RpStatus find_tensor(const ContextPlace *p, const RpGgufFile *f, const char *name, const RpTensorView *want,
                            const RpGgufTensor **out) {
    const RpGgufTensor *t = *out = rp_gguf_find_tensor(f, name);
    if (t == NULL) return rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", rp_gguf_path(f), name);
    if (!t->known || t->view.dtype != want->dtype || memcmp(t->view.ne, want->ne, sizeof want->ne) != 0)
        return rp_fail(RP_E_SHAPE, "%s: tensor %s is %s [%lld,%lld,%lld], the %s has %s [%lld,%lld,%lld]",
                       rp_gguf_path(f), name, t->known ? rp_dtype_name(t->view.dtype) : "of an unknown type",
                       (long long)t->view.ne[0], (long long)t->view.ne[1], (long long)t->view.ne[2], p->owner,
                       rp_dtype_name(want->dtype), (long long)want->ne[0], (long long)want->ne[1],
                       (long long)want->ne[2]);
    return rp_gguf_check_tensor(f, t - f->tensors);
}

/* The tokens of the file, which say how many positions there are. */
static RpStatus check_tokens(const ContextPlace *p, ContextFile *c) {
    const RpGgufFile   *f       = c->file;
    const RpGgufTensor *t       = rp_gguf_find_tensor(f, tensor_tokens);
    const int64_t       n       = t != NULL ? t->view.ne[0] : 0;
    const RpTensorView  want    = rp_view_contiguous(RP_I32, (int64_t[]){n, 1, 1, 1}, NULL);
    const int32_t       n_vocab = rp_model_info(p->model)->n_vocab;
    RP_TRY(find_tensor(p, f, tensor_tokens, &want, &t));
    if (n > p->n_ctx)
        return rp_fail(RP_E_CONTEXT_FULL, "%s: %lld tokens do not fit: the context holds %d", rp_gguf_path(f),
                       (long long)n, p->n_ctx);
    c->tokens = malloc((size_t)n * sizeof *c->tokens);
    if (c->tokens == NULL)
        return rp_fail(RP_E_NOMEM, "%s: out of memory for %lld tokens", rp_gguf_path(f), (long long)n);
    c->n = (int32_t)n;
    memcpy(c->tokens, t->view.data, (size_t)n * sizeof *c->tokens);
    for (int32_t i = 0; i < c->n; i++)
        if (c->tokens[i] < 0 || c->tokens[i] >= n_vocab)
            return rp_fail(RP_E_FORMAT, "%s: token %d at %d is outside of the vocabulary of %d", rp_gguf_path(f),
                           c->tokens[i], i, n_vocab);
    return RP_OK;
}

/* Reads the first position that layers with a window have. It must not lie behind the first one that the next token
 * attends to. */
static RpStatus check_window(const ContextPlace *p, ContextFile *c) {
    const int32_t window = p->model->config.window;
    uint32_t      from   = 0, format;
    RP_TRY(rp_gguf_get_u32(c->file, key_format, &format));
    if (format != CONTEXT_FORMAT_WINDOWS) return RP_OK;
    RP_TRY(rp_gguf_get_u32(c->file, key_window, &from));
    if (window == 0 || from > (uint32_t)c->n || (int32_t)from > c->n - window + 1)
        return rp_fail(RP_E_FORMAT, "%s: %s is %u of %d tokens: the window of the model is %d", rp_gguf_path(c->file),
                       key_window, from, c->n, window);
    c->window_from = (int32_t)from;
    return RP_OK;
}

static RpStatus check_states(const ContextPlace *p, const ContextFile *c) {
    for (int i = 0; i < rp_graph_n_nodes(p->graph); i++) {
        const RpGgufTensor *t;
        const TensorNode   *state = state_at(p, i);
        if (state == NULL) continue;
        const Stored part = stored_of(p, state, c->n, c->window_from);
        RP_TRY(find_tensor(p, c->file, rp_node_name(state), &part.view, &t));
    }
    return RP_OK;
}

RpStatus rp_context_open(const ContextPlace *p, const char *path, ContextFile *out) {
    *out = (ContextFile){0};
    RP_TRY(rp_gguf_open(path, &out->file));
    RpStatus st = check_header(p, out->file);
    if (out->file->n_tensors > 0) {
        if (st == RP_OK) st = check_tokens(p, out);
        if (st == RP_OK) st = check_window(p, out);
        if (st == RP_OK) st = check_states(p, out);
    }
    if (st != RP_OK) rp_context_close(out);
    return st;
}

void rp_context_close(ContextFile *f) {
    rp_gguf_close(f->file);
    free(f->tokens);
    *f = (ContextFile){0};
}

/* Positions [from, end) of a piece, whose rows are at `data`. */
static RpStatus read_piece(const ContextPlace *p, const TensorNode *state, const Stored *part, int64_t piece,
                           const char *data, int32_t from, int32_t end) {
    while (from < end) {
        const Run run = run_at(p, state, part, from, end);
        if (!run.none)
            RP_TRY(rp_executor_set_at(p->executor, state, (size_t)piece * part->step + run.at,
                                      data + (size_t)(run.from - part->first) * part->row, (size_t)run.n * part->row));
        from += run.n;
    }
    return RP_OK;
}

RpStatus rp_context_read(const ContextPlace *p, const ContextFile *f, int32_t from, int32_t end, bool recurrent) {
    for (int i = 0; i < rp_graph_n_nodes(p->graph) && f->n > 0; i++) {
        const TensorNode *state = state_at(p, i);
        if (state == NULL || (is_recurrent(state) && !recurrent)) continue;
        const Stored  part  = stored_of(p, state, f->n, f->window_from);
        const char   *data  = rp_gguf_find_tensor(f->file, rp_node_name(state))->view.data;
        const int32_t first = has_window(p, state) ? part.first : from;
        for (int64_t k = 0; k < part.pieces; k++, data += (size_t)part.rows * part.row)
            RP_TRY(is_recurrent(state) ? read_piece(p, state, &part, k, data, 0, 1)
                                       : read_piece(p, state, &part, k, data, first, end));
    }
    return RP_OK;
}

RpStatus rp_context_text(const ContextFile *f, RpTokenList *tokens, char **note) {
    RpGgufString text = {"", 0};
    RpTokenList  list = {0};
    RpStatus     st   = rp_gguf_get_string(f->file, key_note, &text);
    for (int32_t i = 0; i < f->n && st == RP_OK; i++) st = rp_token_list_push(&list, f->tokens[i]);
    if (st == RP_OK && note != NULL && (*note = strndup(text.ptr, text.len)) == NULL)
        st = rp_fail(RP_E_NOMEM, "%s: out of memory for the note", rp_gguf_path(f->file));
    if (st != RP_OK) {
        rp_token_list_free(&list);
        return st;
    }
    rp_token_list_free(tokens);
    *tokens = list;
    return RP_OK;
}
