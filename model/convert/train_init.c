/* The model with which a training begins: the shape of a preset, initial weights, and a tokenizer. */
#include "reprise/convert.h"

#include "base/argument.h"
#include "base/sized.h"
#include "model/convert/preset.h"
#include "model/convert/random.h"
#include "model/gguf/gguf_file.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Init {
    Preset             preset;
    RpGgufFile        *values; /* the metadata that `config` was read from */
    ModelConfig        config;
    GgufWriter        *out;
    RpTrainInitOptions options;
    size_t             done;
    uint64_t           n_tensor; /* number of the tensor, for its random stream */
} Init;

static bool contains(const char *name, const char *part) { return strstr(name, part) != NULL; }

/* Deviation of the weights of a tensor, and in *mean their mean. */
static float deviation_of(const Init *s, const char *name, const int64_t ne[RP_MAX_DIMS], float *mean) {
    const bool norm     = contains(name, "norm.weight"),
               constant = norm || contains(name, ".bias") || contains(name, "sinks");
    const bool adds     = contains(name, "attn_output") || contains(name, "ffn_down");
    *mean               = norm ? 1.0f : 0.0f;
    if (constant) return 0.0f;
    return 1.0f / sqrtf((float)ne[0] * (adds ? 2.0f * (float)s->config.n_layer : 1.0f));
}

/* Writes one tensor. Its rows are functions of (seed, number of the tensor, number of the row) alone. */
static RpStatus write_rows(Init *s, const char *name, const int64_t ne[RP_MAX_DIMS], float *row) {
    float          mean;
    const float    deviation = deviation_of(s, name, ne, &mean);
    const size_t   bytes     = (size_t)ne[0] * sizeof *row;
    const uint64_t tensor    = rp_mix64(s->options.seed ^ rp_mix64(++s->n_tensor));
    for (int64_t r = 0; r < ne[1] * ne[2]; r++) {
        uint64_t state = rp_mix64(tensor + (uint64_t)r);
        for (int64_t i = 0; i < ne[0]; i++) row[i] = deviation > 0.0f ? deviation * rp_normal(&state) : mean;
        RP_TRY(rp_gguf_writer_data(s->out, row, bytes));
        s->done += bytes;
        if (s->options.progress != NULL && !s->options.progress(s->done, rp_gguf_writer_total(s->out), s->options.user))
            return rp_fail(RP_E_CANCELLED, "%s: writing was stopped", s->preset.name);
    }
    return RP_OK;
}

static RpStatus write_tensor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    float *row = malloc((size_t)ne[0] * sizeof *row);
    if (row == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a row", name);
    const RpStatus st = write_rows(user, name, ne, row);
    free(row);
    return st;
}

static RpStatus announce_tensor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    Init *s = user;
    rp_gguf_put_tensor(s->out, name, strlen(name), RP_F32, ne);
    return RP_OK;
}

/* The size of the vocabulary of a tokenizer, which is opened to check it. */
static RpStatus vocabulary_of(const RpGgufFile *f, int32_t *n) {
    RpTokenizer *tk;
    if (rp_gguf_find(f, "tokenizer.ggml.model") == NULL)
        return rp_fail(RP_E_UNSUPPORTED, "%s has no tokenizer (tokenizer.ggml.model is absent)", rp_gguf_path(f));
    RP_TRY(rp_tokenizer_new(f, &tk));
    *n = rp_tokenizer_n_vocab(tk);
    rp_tokenizer_free(tk);
    return RP_OK;
}

static void put_tokenizer(GgufWriter *w, const RpGgufFile *f) {
    static const char prefix[] = "tokenizer.";
    for (int64_t i = 0; i < rp_gguf_n_values(f); i++) {
        const RpGgufValue *v = rp_gguf_value(f, i);
        if (v->key.len > strlen(prefix) && memcmp(v->key.ptr, prefix, strlen(prefix)) == 0) rp_gguf_put_value(w, v);
    }
}

/* The tensor table must be complete before any data is written, so the tensors are listed twice. */
static RpStatus write_all(Init *s, const RpGgufFile *tokenizer) {
    enum { FILE_TYPE_F32 = 0 };
    const Preset *p = &s->preset;
    rp_preset_put_values(s->out, p, p->name, FILE_TYPE_F32);
    if (tokenizer != NULL)
        put_tokenizer(s->out, tokenizer);
    else
        rp_preset_put_byte_tokenizer(s->out, p->n_vocab);
    RP_TRY(rp_model_list_weights(&s->config, p->n_vocab, p->tied, p->biases, announce_tensor, s));
    RP_TRY(rp_gguf_writer_begin(s->out));
    return rp_model_list_weights(&s->config, p->n_vocab, p->tied, p->biases, write_tensor, s);
}

RpStatus rp_train_init_sized(const char *preset, const RpTrainInitOptions *options, size_t options_bytes,
                             const char *path) {
    RP_NOT_NULL(preset, "preset");
    RP_NOT_NULL(path, "path");
    Init          s = {0};
    const Preset *found;
    RpGgufFile   *tokenizer = NULL;
    RP_TRY(rp_sized_in(&s.options, sizeof s.options, options, options_bytes, "RpTrainInitOptions"));
    RP_TRY(rp_preset_find(preset, &found));
    s.preset    = *found;
    RpStatus st = RP_OK;
    if (s.options.tokenizer != NULL) {
        RP_TRY(rp_gguf_open(s.options.tokenizer, &tokenizer));
        st = rp_gguf_refuse_output(tokenizer, path);
        if (st == RP_OK) st = vocabulary_of(tokenizer, &s.preset.n_vocab);
    }
    if (st == RP_OK) st = rp_preset_config(&s.preset, &s.values, &s.config);
    if (st == RP_OK) st = rp_gguf_writer_open(path, &s.out);
    if (st == RP_OK) st = rp_gguf_writer_close(s.out, write_all(&s, tokenizer));
    rp_gguf_close(tokenizer);
    rp_gguf_close(s.values);
    return st;
}
