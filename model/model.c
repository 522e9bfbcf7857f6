/* Opening a model: file -> configuration -> weights -> tokenizer -> summary.
 *
 * An RpModel owns its RpGgufFile, and that owns the mapping. A weight is a view into the mapping: nothing is
 * copied, pages are read when first touched, and every pointer stays valid until rp_model_free. */
#include "model/model.h"
#include "model/gguf/gguf_checksum.h"
#include "model/gguf/gguf_file.h"
#include "model/hf/origin.h"

#include "base/argument.h"

#include "reprise/options.h"
#include "reprise/text.h"

#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_AHEAD = 4 << 20 }; /* bytes between two calls of the progress callback */

void rp_model_free(RpModel *m) {
    if (m == NULL) return;
    rp_tokenizer_free(m->tokenizer);
    rp_gguf_close(m->file);
    rp_model_free_adapters(m);
    free(m->layers);
    rp_model_free_parts(m);
    free(m);
}

/* Subtracts what one token does not read of a tensor of n equal slices (experts, or rows), of which it uses
 * `used`. */
static void leave_out(const RpGgufTensor *t, int32_t n, int32_t used, RpModelInfo *info) {
    if (t == NULL) return;
    info->n_params_active -= rp_view_elems(&t->view) / n * (n - used);
    info->decode_weight_bytes -= t->bytes / (size_t)n * (size_t)(n - used);
}

/* The summary. A token reads every tensor once, except: of the experts it reads those chosen, of the embedding one row,
 * unless the embedding is the output matrix too, and nothing of layers that predict further tokens. */
static void fill_info(RpModel *m) {
    const ModelConfig *c    = &m->config;
    RpModelInfo       *info = &m->info;
    RpGgufString       name = {"", 0};
    if (rp_gguf_find(m->file, "general.name") != NULL && rp_gguf_get_string(m->file, "general.name", &name) != RP_OK)
        name.len = 0; /* only for display */
    rp_visible_text(name.ptr, name.len, m->name, sizeof m->name);
    *info = (RpModelInfo){.arch          = c->arch->name,
                          .name          = m->name,
                          .n_vocab       = (int32_t)m->token_embd->view.ne[1],
                          .n_embd        = c->n_embd,
                          .n_layer       = c->n_layer,
                          .n_layer_nextn = c->n_layer_next,
                          .n_head        = c->n_head,
                          .n_head_kv     = c->n_head_kv,
                          .head_dim      = c->head_dim,
                          .n_ff          = c->n_ff,
                          .window        = c->window,
                          .n_expert      = c->experts.n,
                          .n_expert_used = c->experts.n_used,
                          .n_ctx_train   = c->n_ctx_train,
                          .bidirectional = c->bidirectional,
                          .mtp           = m->mtp.eh_proj != NULL,
                          .assistant     = c->arch->assistant,
                          .pooling       = c->pooling,
                          .n_label       = m->embed.cls_out != NULL ? c->n_labels : 0};
    for (int64_t i = 0; i < rp_gguf_n_tensors(m->file); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(m->file, i);
        if (rp_gguf_is_training(t->name)) continue;
        info->n_params += rp_view_elems(&t->view);
        info->weight_bytes += t->bytes;
        if (rp_model_is_of_next_layers(m, t)) continue; /* no token reads it */
        info->decode_weight_bytes += t->bytes;
        info->n_params_active += rp_view_elems(&t->view);
    }
    for (int i = 0; i < c->n_layer; i++) {
        info->n_layer_local += rp_config_layer(c, i).attention == ATTENTION_WINDOW;
        info->n_layer_recurrent += c->arch->parallel_ssm || rp_attention_is_recurrent(rp_config_layer(c, i).attention);
        leave_out(m->layers[i].gate_exps, c->experts.n, c->experts.n_used, info);
        leave_out(m->layers[i].up_exps, c->experts.n, c->experts.n_used, info);
        leave_out(m->layers[i].down_exps, c->experts.n, c->experts.n_used, info);
    }
    leave_out(m->layer_embd, (int32_t)m->token_embd->view.ne[1], 1, info);
    if (m->output != m->token_embd) leave_out(m->token_embd, (int32_t)m->token_embd->view.ne[1], 1, info);
}

/* One token for each row of the embedding. This is compared before any memory is used for the tokens: their number
 * may be anything that the file has room for. A value that is not an array is left to the tokenizer. */
static RpStatus check_vocabulary(const RpModel *m) {
    const RpGgufValue *tokens = rp_gguf_find(m->file, "tokenizer.ggml.tokens");
    const int64_t     *ne     = m->token_embd->view.ne;
    if (tokens == NULL || tokens->type != RP_GGUF_ARRAY || tokens->n == (uint64_t)ne[1]) return RP_OK;
    return rp_fail(
        RP_E_FORMAT, "%s: tokenizer.ggml.tokens has %llu elements, tensor token_embd.weight [%lld,%lld] has %lld rows",
        rp_gguf_path(m->file), (unsigned long long)tokens->n, (long long)ne[0], (long long)ne[1], (long long)ne[1]);
}

/* A file without a tokenizer, or with "none", is legal: it is run on token ids. */
static RpStatus open_tokenizer(RpModel *m) {
    if (rp_gguf_find(m->file, "tokenizer.ggml.model") == NULL) return RP_OK;
    RpGgufString kind = {"", 0};
    RP_TRY(rp_gguf_get_string(m->file, "tokenizer.ggml.model", &kind));
    if (kind.len == 4 && memcmp(kind.ptr, "none", 4) == 0) return RP_OK;
    RP_TRY(check_vocabulary(m));
    return rp_tokenizer_new(m->file, &m->tokenizer);
}

/* Takes ownership of the file, also on failure. */
static RpStatus open_file(RpGgufFile *file, RpModel **out) {
    RpModel *m = calloc(1, sizeof *m);
    *out       = NULL;
    if (m == NULL) {
        rp_gguf_close(file);
        return rp_fail(RP_E_NOMEM, "out of memory for a model");
    }
    m->file     = file;
    RpStatus st = rp_gguf_refuse_kinds(file);
    if (st == RP_OK) st = rp_config_read(file, &m->config);
    if (st == RP_OK) {
        m->layers = calloc((size_t)m->config.n_layer + 1, sizeof *m->layers);
        if (m->layers == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for %d layers", m->config.n_layer);
    }
    if (st == RP_OK) st = rp_model_find_weights(m);
    if (st == RP_OK) st = rp_model_check_unused(m);
    if (st == RP_OK) st = open_tokenizer(m);
    if (st != RP_OK) {
        st = rp_hf_name_origin(file, st);
        rp_model_free(m);
        return st;
    }
    fill_info(m);
    *out = m;
    return RP_OK;
}

static RpStatus stopped(const RpModel *m) {
    return rp_fail(RP_E_CANCELLED, "%s: loading was stopped", rp_gguf_path(m->file));
}

/* Reads the pages that are not in memory yet, READ_AHEAD bytes at a time. */
static RpStatus read_pages(const RpModel *m, const RpModelOptions *o, bool huge) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), total = m->info.weight_bytes;
    size_t       done = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(m->file); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(m->file, i);
        if (rp_gguf_is_training(t->name)) continue;
        for (size_t at = 0; t->known && at < t->bytes; at += READ_AHEAD) {
            const size_t    n    = t->bytes - at < READ_AHEAD ? t->bytes - at : READ_AHEAD;
            const uintptr_t from = ((uintptr_t)t->view.data + at) / page * page;
            const size_t    len  = (uintptr_t)t->view.data + at + n - from;
            unsigned char resident[READ_AHEAD / 4096 + 2]; /* one byte a page; the range may begin and end inside one */
            size_t        missing = 0;
            if (page >= 4096 &&
                mincore((void *)from, len, resident) == 0) /* a failure is no fallback (I10): pages are read on use */
                for (size_t p = 0; p * page < len; p++) missing += (resident[p] & 1) == 0;
            if (missing > 0) RP_TRY(rp_gguf_read_pages(rp_gguf_path(m->file), (void *)from, len, huge));
            done += n;
            if (!o->progress(done, total, o->user)) return stopped(m);
        }
    }
    return RP_OK;
}

/* Reads the whole file into private memory. Padding between tensors does not count as progress. */
static RpStatus copy_file(const RpModel *m, const RpModelOptions *o) {
    const size_t bytes = rp_gguf_bytes(m->file), total = m->info.weight_bytes;
    for (size_t end = bytes - (total < bytes ? total : bytes), done; end < bytes;) {
        end = bytes - end < READ_AHEAD ? bytes : end + READ_AHEAD;
        RP_TRY(rp_gguf_read_in(m->file, end));
        done = bytes - end < total ? total - (bytes - end) : 0;
        if (o->progress != NULL && !o->progress(done, total, o->user)) return stopped(m);
    }
    return RP_OK;
}

static RpStatus read_weights(const RpModel *m, const RpModelOptions *o) {
    if (o->copy && m->file->parts.n_files == 0) return copy_file(m, o); /* parts were read when they were opened */
    const bool huge = rp_gguf_want_huge_pages(m->file);
    return o->progress != NULL ? read_pages(m, o, huge) : RP_OK;
}

RpStatus rp_model_open_sized(const char *path, const RpModelOptions *options, size_t options_bytes, RpModel **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(path, "path");

    RpGgufFile    *file = NULL;
    RpModelOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpModelOptions"));
    RP_TRY(rp_gguf_begin_load(path, o.copy, &file));
    RP_TRY(open_file(file, out));
    RpStatus st = read_weights(*out, &o);
    if (st == RP_OK) st = rp_gguf_end_load(file);
    if (st == RP_OK) st = rp_gguf_check_tensors(file, false);
    if (st != RP_OK) {
        rp_model_free(*out);
        *out = NULL;
    }
    return st;
}

RpStatus rp_model_open_memory(const void *data, size_t bytes, const char *name, RpModel **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(data, "data");
    RP_NOT_NULL(name, "name");

    RpGgufFile *file = NULL;
    RP_TRY(rp_gguf_open_memory(data, bytes, name, &file));
    RP_TRY(open_file(file, out));
    const RpStatus st = rp_gguf_check_tensors(file, false);
    if (st == RP_OK) return RP_OK;
    rp_model_free(*out);
    *out = NULL;
    return st;
}

const RpModelInfo *rp_model_info(const RpModel *m) { return m != NULL ? &m->info : NULL; }
const RpGgufFile  *rp_model_file(const RpModel *m) { return m != NULL ? m->file : NULL; }

const char *rp_model_find_bytes(const RpModel *m, const void *data, size_t *offset) {
    if (m == NULL || data == NULL || offset == NULL) return NULL;
    const char *path = rp_gguf_find_bytes(m->file, data, offset);
    for (int i = 0; i < m->n_adapters && path == NULL; i++) path = rp_gguf_find_bytes(m->adapters[i], data, offset);
    return path;
}

const RpTokenizer *rp_model_tokenizer(const RpModel *m) { return m != NULL ? m->tokenizer : NULL; }
