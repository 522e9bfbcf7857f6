/* The context of a session in a file, GGUF with checksums (gguf_checksum.h):
 *
 *     general.type     "context"
 *     context.format   u32                   2
 *     context.model    string                rp_model_fingerprint in hexadecimal
 *     context.passes   string                the passes of the session
 *     context.note     string                the caller's
 *     tokens           i32 [n_past]
 *     k.<layer>, ...   [d, n_past, heads]    positions 0 to n_past - 1 of each cache
 *     delta.<layer>... f32 [n, 1]            the recurrent state after the last token */
#include "base/argument.h"
#include "model/context/fingerprint.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
#include "model/runner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONTEXT_FORMAT = 2 };

static const char key_format[] = "context.format", key_model[] = "context.model", key_passes[] = "context.passes",
                  key_note[] = "context.note", tensor_tokens[] = "tokens";

typedef struct Fingerprint {
    char hex[17];
} Fingerprint;

static Fingerprint fingerprint_of(const RpSession *s) {
    Fingerprint f;
    snprintf(f.hex, sizeof f.hex, "%016" PRIx64, rp_model_fingerprint(s->model));
    return f;
}

/* ---- states of the decode graph ---- */

static const ComputeGraph *graph_of(const RpSession *s) { return s->runners[s->n_runners - 1].graph; }
static RpExecutor         *executor_of(const RpSession *s) { return s->runners[s->n_runners - 1].executor; }

/* The i-th node if it is a state, else NULL. */
static const TensorNode *state_at(const RpSession *s, int i) {
    const TensorNode *node = rp_graph_node(graph_of(s), i);
    return strcmp(rp_node_op_name(node), "state") == 0 ? node : NULL;
}

/* A recurrent state is a row of the slot; all others have a row for each position of each head (slots.h). */
static bool is_recurrent(const TensorNode *state) {
    const char *name = rp_node_name(state);
    return strncmp(name, "window.", 7) == 0 || strncmp(name, "delta.", 6) == 0 || strncmp(name, "ssm.", 4) == 0;
}

/* The part of a state that is stored: `pieces` of `bytes` each in the file, `step` apart in memory. */
typedef struct Stored {
    RpTensorView view; /* in the file */
    int64_t      pieces;
    size_t       bytes, step;
} Stored;

static Stored stored_of(const TensorNode *state, int32_t n_past) {
    const RpTensorView v    = rp_node_view(state);
    const int64_t      rows = is_recurrent(state) ? 1 : n_past;
    return (Stored){.view   = rp_view_contiguous(v.dtype, (int64_t[]){v.ne[0], rows, v.ne[2], 1}, NULL),
                    .pieces = v.ne[2],
                    .bytes  = (size_t)rows * v.nb[1],
                    .step   = v.nb[2]};
}

/* Memory for a piece of any state. */
static RpStatus new_buffer(const RpSession *s, int32_t n_past, char **out) {
    size_t most = 1;
    for (int i = 0; i < rp_graph_n_nodes(graph_of(s)); i++) {
        const TensorNode *state = state_at(s, i);
        const size_t      bytes = state != NULL ? stored_of(state, n_past).bytes : 0;
        if (bytes > most) most = bytes;
    }
    *out = malloc(most);
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a context of %d tokens", n_past);
}

/* ---- saving ---- */

static void describe(const RpSession *s, const RpTokenList *tokens, const char *note, GgufWriter *w) {
    rp_gguf_put_checksums(w);
    rp_gguf_put_string(w, "general.type", "context");
    rp_gguf_put_u32(w, key_format, CONTEXT_FORMAT);
    rp_gguf_put_string(w, key_model, fingerprint_of(s).hex);
    rp_gguf_put_string(w, key_passes, s->passes);
    rp_gguf_put_string(w, key_note, note != NULL ? note : "");
    rp_gguf_put_tensor(w, tensor_tokens, sizeof tensor_tokens - 1, RP_I32, (int64_t[]){(int64_t)tokens->n, 1, 1, 1});
    for (int i = 0; i < rp_graph_n_nodes(graph_of(s)); i++) {
        const TensorNode *state = state_at(s, i);
        if (state == NULL) continue;
        const RpTensorView v    = stored_of(state, s->n_past).view;
        const char        *name = rp_node_name(state);
        rp_gguf_put_tensor(w, name, strlen(name), v.dtype, v.ne);
    }
}

static RpStatus write_states(const RpSession *s, int32_t slot, char *buffer, GgufWriter *w) {
    for (int i = 0; i < rp_graph_n_nodes(graph_of(s)); i++) {
        const TensorNode *state = state_at(s, i);
        if (state == NULL) continue;
        const Stored part = stored_of(state, s->n_past);
        size_t       at   = is_recurrent(state) ? (size_t)slot * part.bytes : 0;
        for (int64_t k = 0; k < part.pieces; k++, at += part.step) {
            RP_TRY(rp_executor_get_at(executor_of(s), state, at, buffer, part.bytes));
            RP_TRY(rp_gguf_writer_data(w, buffer, part.bytes));
        }
    }
    return RP_OK;
}

static RpStatus write_file(const RpSession *s, const RpTokenList *tokens, const char *note, int32_t slot,
                           GgufWriter *w) {
    char    *buffer;
    RpStatus st = new_buffer(s, s->n_past, &buffer);
    if (st == RP_OK) {
        describe(s, tokens, note, w);
        st = rp_gguf_writer_begin(w);
    }
    if (st == RP_OK) st = rp_gguf_writer_data(w, tokens->ids, tokens->n * sizeof *tokens->ids);
    if (st == RP_OK) st = write_states(s, slot, buffer, w);
    free(buffer);
    return st;
}

static bool is_context(const RpGgufFile *f) {
    RpGgufString type = {"", 0};
    return rp_gguf_get_string(f, "general.type", &type) == RP_OK && type.len == 7 &&
           memcmp(type.ptr, "context", 7) == 0;
}

/* A slip in the name of a file must not cost a model. What is no regular file, the writer refuses. */
static RpStatus check_replaced(const char *path) {
    struct stat old;
    RpGgufFile *f;
    if (stat(path, &old) != 0) return errno == ENOENT ? RP_OK : rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(old.st_mode) || old.st_size == 0) return RP_OK;
    const RpStatus st    = rp_gguf_open(path, &f);
    const bool     known = st == RP_OK && is_context(f);
    if (st == RP_OK) rp_gguf_close(f);
    if (known || (st != RP_OK && st != RP_E_FORMAT && st != RP_E_UNSUPPORTED)) return st;
    return rp_fail(RP_E_ARG, "%s: the file is no context of a session: it was not replaced", path);
}

static RpStatus check_saved(const RpSession *s, const RpTokenList *tokens, int32_t slot) {
    if (s->n_past == 0) return rp_fail(RP_E_STATE, "the context is empty: there is nothing to save");
    if (tokens->n != (size_t)s->n_past)
        return rp_fail(RP_E_ARG, "the context has %zu tokens, the session %d", tokens->n, s->n_past);
    if (s->slots.n > 0 && slot < 0)
        return rp_fail(RP_E_STATE, "the recurrent state after %d tokens was lost by a failed run: rewind to %d",
                       s->n_past, rp_slots_reach(&s->slots, s->n_past));
    return RP_OK;
}

RpStatus rp_session_save(const RpSession *s, const RpTokenList *tokens, const char *note, const char *path) {
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(tokens, "tokens");
    RP_NOT_NULL(path, "path");
    GgufWriter   *w;
    const int32_t slot = rp_slots_find(&s->slots, s->n_past);
    RP_TRY(check_saved(s, tokens, slot));
    RP_TRY(check_replaced(path));
    RP_TRY(rp_gguf_writer_open(path, &w));
    const RpStatus st = write_file(s, tokens, note, slot, w);
    return rp_gguf_writer_close(w, st);
}

/* ---- restoring ---- */

static RpStatus check_text(const RpGgufFile *f, const char *key, const char *own, const char *what) {
    RpGgufString text = {"", 0};
    RP_TRY(rp_gguf_get_string(f, key, &text));
    if (text.len == strlen(own) && memcmp(text.ptr, own, text.len) == 0) return RP_OK;
    return rp_fail(RP_E_ARG, "%s: the context was saved with %s '%.*s', the session has '%s'", rp_gguf_path(f), what,
                   (int)(text.len < 96 ? text.len : 96), text.ptr, own);
}

static RpStatus check_header(const RpSession *s, const RpGgufFile *f) {
    uint32_t format = 0;
    if (!is_context(f)) return rp_fail(RP_E_FORMAT, "%s: the file is no context of a session", rp_gguf_path(f));
    RP_TRY(rp_gguf_get_u32(f, key_format, &format));
    if (format != CONTEXT_FORMAT)
        return rp_fail(RP_E_UNSUPPORTED, "%s: %s is %u: this version reads %d", rp_gguf_path(f), key_format, format,
                       CONTEXT_FORMAT);
    if (rp_gguf_find(f, GGUF_KEY_TENSORS) == NULL)
        return rp_fail(RP_E_FORMAT, "%s: %s is missing: the file is damaged", rp_gguf_path(f), GGUF_KEY_TENSORS);
    RP_TRY(check_text(f, key_model, fingerprint_of(s).hex, "a model with the fingerprint"));
    return check_text(f, key_passes, s->passes, "the passes");
}

/* A tensor of the file with this type and shape, whose checksum is right. */
static RpStatus find_tensor(const RpGgufFile *f, const char *name, const RpTensorView *want, const RpGgufTensor **out) {
    const RpGgufTensor *t = *out = rp_gguf_find_tensor(f, name);
    if (t == NULL) return rp_fail(RP_E_FORMAT, "%s: tensor %s is missing", rp_gguf_path(f), name);
    if (!t->known || t->view.dtype != want->dtype || memcmp(t->view.ne, want->ne, sizeof want->ne) != 0)
        return rp_fail(RP_E_SHAPE, "%s: tensor %s is %s [%lld,%lld,%lld], the session has %s [%lld,%lld,%lld]",
                       rp_gguf_path(f), name, t->known ? rp_dtype_name(t->view.dtype) : "of an unknown type",
                       (long long)t->view.ne[0], (long long)t->view.ne[1], (long long)t->view.ne[2],
                       rp_dtype_name(want->dtype), (long long)want->ne[0], (long long)want->ne[1],
                       (long long)want->ne[2]);
    return rp_gguf_check_tensor(f, t - f->tensors);
}

/* The tokens of the file, which say how many positions there are. */
static RpStatus read_tokens(const RpSession *s, const RpGgufFile *f, RpTokenList *tokens) {
    const RpGgufTensor *t       = rp_gguf_find_tensor(f, tensor_tokens);
    const int64_t       n       = t != NULL ? t->view.ne[0] : 0;
    const RpTensorView  want    = rp_view_contiguous(RP_I32, (int64_t[]){n, 1, 1, 1}, NULL);
    const int32_t       n_vocab = rp_model_info(s->model)->n_vocab;
    RP_TRY(find_tensor(f, tensor_tokens, &want, &t));
    if (n > s->n_ctx)
        return rp_fail(RP_E_CONTEXT_FULL, "%s: %lld tokens do not fit: the context holds %d", rp_gguf_path(f),
                       (long long)n, s->n_ctx);
    const int32_t *ids = t->view.data;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_vocab)
            return rp_fail(RP_E_FORMAT, "%s: token %d at %lld is outside of the vocabulary of %d", rp_gguf_path(f),
                           ids[i], (long long)i, n_vocab);
        RP_TRY(rp_token_list_push(tokens, ids[i]));
    }
    return RP_OK;
}

/* Checks all states, or copies them all into the slot and the first positions. */
static RpStatus read_states(const RpSession *s, const RpGgufFile *f, int32_t n_past, bool copy) {
    for (int i = 0; i < rp_graph_n_nodes(graph_of(s)); i++) {
        const RpGgufTensor *t;
        const TensorNode   *state = state_at(s, i);
        if (state == NULL) continue;
        const Stored part = stored_of(state, n_past);
        if (!copy) RP_TRY(find_tensor(f, rp_node_name(state), &part.view, &t));
        if (!copy) continue;
        t = rp_gguf_find_tensor(f, rp_node_name(state));
        for (int64_t k = 0; k < part.pieces; k++)
            RP_TRY(rp_executor_set_at(executor_of(s), state, (size_t)k * part.step,
                                      (const char *)t->view.data + (size_t)k * part.bytes, part.bytes));
    }
    return RP_OK;
}

/* Nothing may fail before the session is changed but what was checked, and then only the device. */
static RpStatus replace_context(RpSession *s, const RpGgufFile *f, int32_t n_past) {
    RP_TRY(rp_session_rewind(s, 0));
    RP_TRY(read_states(s, f, n_past, true));
    if (s->slots.n > 0) {
        rp_slots_put(&s->slots, rp_slots_take(&s->slots, -1), n_past); /* the first: all are free */
        rp_slots_keep(&s->slots, n_past);
    }
    s->n_past = n_past;
    return RP_OK;
}

static RpStatus copy_note(const RpGgufFile *f, char **note) {
    RpGgufString text = {"", 0};
    RP_TRY(rp_gguf_get_string(f, key_note, &text));
    if (note == NULL) return RP_OK;
    *note = strndup(text.ptr, text.len);
    return *note != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "%s: out of memory for the note", rp_gguf_path(f));
}

RpStatus rp_session_restore(RpSession *s, const char *path, RpTokenList *tokens, char **note) {
    if (note != NULL) *note = NULL;
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(path, "path");
    RP_NOT_NULL(tokens, "tokens");
    RpGgufFile *f;
    RpTokenList read = {0};
    RP_TRY(rp_gguf_open(path, &f));
    RpStatus st = check_header(s, f);
    if (st == RP_OK) st = read_tokens(s, f, &read);
    if (st == RP_OK) st = read_states(s, f, (int32_t)read.n, false);
    if (st == RP_OK) st = copy_note(f, note);
    if (st == RP_OK) st = replace_context(s, f, (int32_t)read.n);
    if (st == RP_OK) {
        rp_token_list_free(tokens);
        *tokens = read;
    } else {
        rp_token_list_free(&read);
        if (note != NULL) free(*note), *note = NULL;
    }
    rp_gguf_close(f);
    return st;
}
