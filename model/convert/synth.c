/* Model files of random weights, in the shape of a preset. A file takes as long as its bytes take to write,
 * because quantised blocks are generated directly:
 *
 *     block = one of N_TEMPLATES quantised blocks of normal values, its quants replaced by random bits
 *
 * Matrices deviate by 1/sqrt(row length), so that activations keep their size; norms by 0.1 around 1. The
 * same seed gives the same file. The tokenizer is SentencePiece with a token for each byte. */
#include "reprise/convert.h"

#include "base/argument.h"

#include "base/dtypes.h"
#include "base/files/temporary.h"
#include "base/sized.h"
#include "model/convert/preset.h"
#include "model/convert/quant_mix.h"
#include "model/convert/random.h"
#include "model/gguf/gguf_write.h"
#include "model/model.h"
#include "reprise/quants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROW = 1 << 16, N_TEMPLATES = 16, MAX_BLOCK = 256 };

typedef struct Synth {
    const Preset   *preset; /* with mtp `shape` */
    Preset          shape;
    RpGgufFile     *values; /* the metadata that `config` was read from */
    ModelConfig     config;
    const QuantMix *mix;
    GgufWriter     *out;
    RpSynthOptions  options;
    size_t          done;
    uint64_t        n_tensor; /* number of the tensor, for its random stream */
    QuantMixModel   model;
    int32_t         n_of_part[RP_MIX_PARTS]; /* matrices so far */
    float          *row;
    unsigned char  *quantized;
    unsigned char   templates[N_TEMPLATES][MAX_BLOCK];
} Synth;

/* ---- rows ---- */

/* Bytes of a part of a block that hold quants; the bytes before and after them are scales (base/dtypes.h). */
typedef struct Integers {
    int from, end;
} Integers;

static const Integers integers[RP_DTYPE_COUNT] = {
#define X(ID, name, sub, offset, has_min, top, from, end, ...) [RP_##ID] = {from, end},
    RP_QUANTS(X)
#undef X
};

#define X(ID, name, ...)                                                                                               \
    static_assert(sizeof((Synth){0}.templates[0]) >= RP_##ID##_BYTES, #name ": a template holds a block");
RP_QUANTS(X)
#undef X

/* Random quants are uniform over the range of a block, whose ends the largest of its normal values set. So
 * they deviate more than those values, by about this factor; the templates are made narrower by it. */
static const float uniform_spread = 1.5f;

/* Fills templates[] with quantised blocks of normal values; every block of the tensor takes the scales of one
 * of them. */
static RpStatus make_templates(Synth *s, RpDtype type, float deviation, uint64_t state) {
    const RpDtypeInfo *info = rp_dtype_info(type);
    for (int t = 0; t < N_TEMPLATES; t++) {
        for (int i = 0; i < info->block_elems; i++) s->row[i] = rp_deviate(&state) * deviation / uniform_spread;
        RP_TRY(rp_quantize_row(type, s->row, info->block_elems, s->templates[t]));
    }
    return RP_OK;
}

/* A row of n elements in blocks: scales of a random template, random quants. */
static void random_blocks(Synth *s, RpDtype type, int64_t n, uint64_t *state) {
    const RpDtypeInfo *info  = rp_dtype_info(type);
    const Integers     where = integers[type];
    const int          bytes = info->block_bytes / rp_block_parts(type); /* of a part */
    for (int64_t b = 0; b < n / info->block_elems; b++) {
        unsigned char *block = s->quantized + b * info->block_bytes;
        memcpy(block, s->templates[rp_random(state) % N_TEMPLATES], (size_t)info->block_bytes);
        /* 8 random bytes at a time; the last may be fewer */
        for (unsigned char *part = block; part < block + info->block_bytes; part += bytes)
            for (int i = where.from; i < where.end; i += 8) {
                const uint64_t bits = rp_random(state);
                memcpy(part + i, &bits, (size_t)(where.end - i < 8 ? where.end - i : 8));
            }
    }
}

/* A row in any type; float types are computed element by element. */
static RpStatus random_row(Synth *s, RpDtype type, int64_t n, float mean, float deviation, uint64_t *state) {
    if (rp_dtype_is_quant(type)) {
        random_blocks(s, type, n, state);
        return RP_OK;
    }
    for (int64_t i = 0; i < n; i++) s->row[i] = mean + deviation * rp_deviate(state);
    return rp_quantize_row(type, s->row, n, s->quantized);
}

static bool ends_with(const char *name, const char *end) {
    const size_t a = strlen(name), b = strlen(end);
    return a >= b && strcmp(name + a - b, end) == 0;
}

/* The type of the next tensor: they come layer by layer. */
static RpDtype type_of(Synth *s, const char *name, const int64_t ne[RP_MAX_DIMS]) {
    const RpGgufString n      = {name, strlen(name)};
    const RpMixPart    part   = rp_mix_part(n);
    const int32_t      before = s->n_of_part[part];
    if (!rp_mix_is_float(n, ne)) s->n_of_part[part]++;
    return rp_quant_mix_type(s->mix, &s->model, n, ne, before);
}

/* Norms scale by about 1; the logarithm of the decay of a recurrent state is about -1, so that states stay bounded. */
static float mean_of(const char *name) {
    if (ends_with(name, "norm.weight") || ends_with(name, "ssm_d")) return 1.0f;
    return ends_with(name, "ssm_a") ? -1.0f : 0.0f;
}

/* Writes one tensor. Its rows are functions of (seed, number of the tensor, number of the row) alone. */
static RpStatus write_tensor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    Synth         *s         = user;
    const RpDtype  type      = type_of(s, name, ne);
    const float    mean      = mean_of(name);
    const bool     is_small  = mean != 0.0f || ends_with(name, ".bias") || ends_with(name, "sinks.weight");
    const float    deviation = is_small ? 0.1f : 1.0f / sqrtf((float)ne[0]);
    const size_t   bytes     = rp_row_bytes(type, ne[0]);
    const uint64_t tensor    = rp_mix64(s->options.seed ^ rp_mix64(++s->n_tensor));
    if (rp_dtype_is_quant(type)) RP_TRY(make_templates(s, type, deviation, rp_mix64(~tensor)));
    for (int64_t i = 0; i < ne[1] * ne[2]; i++) {
        uint64_t state = rp_mix64(tensor + (uint64_t)i);
        RP_TRY(random_row(s, type, ne[0], mean, deviation, &state));
        RP_TRY(rp_gguf_writer_data(s->out, s->quantized, bytes));
        s->done += bytes;
        if (s->options.progress != NULL && !s->options.progress(s->done, rp_gguf_writer_total(s->out), s->options.user))
            return rp_fail(RP_E_CANCELLED, "%s: writing was stopped", s->preset->name);
    }
    return RP_OK;
}

static RpStatus announce_tensor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    Synth *s = user;
    rp_gguf_put_tensor(s->out, name, strlen(name), type_of(s, name, ne), ne);
    return RP_OK;
}

static RpStatus count_value(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    Synth *s = user;
    (void)ne;
    s->model.n_value += rp_mix_part((RpGgufString){name, strlen(name)}) == RP_MIX_VALUE;
    return RP_OK;
}

static RpStatus list_weights(Synth *s, WeightVisitor *call) {
    const Preset *p = s->preset;
    memset(s->n_of_part, 0, sizeof s->n_of_part);
    return rp_model_list_weights(&s->config, p->n_vocab, p->tied, p->biases, call, s);
}

/* The tensor table must be complete before any data is written, so the tensors are listed again for that. */
static RpStatus write_all(Synth *s) {
    const Preset *p = s->preset;
    char          name[96];
    snprintf(name, sizeof name, "%s of random weights, seed %llu", p->name, (unsigned long long)s->options.seed);
    rp_preset_put_values(s->out, p, name, rp_quant_mix_file_type(s->mix));
    rp_preset_put_byte_tokenizer(s->out, p->n_vocab);
    RP_TRY(list_weights(s, count_value));
    RP_TRY(list_weights(s, announce_tensor));
    RP_TRY(rp_gguf_writer_begin(s->out));
    if (s->options.hollow) return rp_gguf_writer_hollow(s->out);
    return list_weights(s, write_tensor);
}

RpStatus rp_synth_sized(const char *preset, const RpSynthOptions *options, size_t options_bytes, const char *path) {
    RP_NOT_NULL(preset, "preset");
    RP_NOT_NULL(path, "path");

    Synth s = {0};
    RP_TRY(rp_sized_in(&s.options, sizeof s.options, options, options_bytes, "RpSynthOptions"));
    RP_TRY(rp_preset_find(preset, &s.preset));
    RP_TRY(rp_quant_mix_find(s.options.type != NULL ? s.options.type : "Q8_0", &s.mix));
    if (s.options.mtp) {
        s.shape       = *s.preset;
        s.shape.n_mtp = 1;
        s.preset      = &s.shape;
    }
    RpStatus st = rp_preset_config(s.preset, &s.values, &s.config);
    if (st == RP_OK && s.options.mtp && !rp_config_may_have_mtp(&s.config))
        st = rp_fail(RP_E_ARG, "preset %s: layers of %s do not predict further tokens", preset, s.preset->arch);
    s.model     = (QuantMixModel){.n_layer   = s.config.n_layer,
                                  .n_head    = s.config.n_head,
                                  .n_head_kv = s.config.n_head_kv,
                                  .n_expert  = s.config.experts.n,
                                  .tied      = s.preset->tied,
                                  .pure      = s.options.pure};
    s.row       = malloc(MAX_ROW * sizeof *s.row);
    s.quantized = malloc(MAX_ROW * sizeof *s.row);
    if (st == RP_OK && (s.row == NULL || s.quantized == NULL)) st = rp_fail(RP_E_NOMEM, "out of memory for a row");
    if (st == RP_OK) st = rp_gguf_writer_open(path, &s.out);
    if (st == RP_OK) st = rp_gguf_writer_close(s.out, write_all(&s));
    free(s.row);
    free(s.quantized);
    rp_gguf_close(s.values);
    return st;
}

/* Writes a hollow file, maps it and removes its name. Its temporary names are those of the file TMPDIR/preset. */
RpStatus rp_model_open_preset(const char *preset, const char *type, RpModel **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(preset, "preset");

    const char *dir = getenv("TMPDIR");
    char        path[512];
    if (snprintf(path, sizeof path, "%s/preset", dir != NULL && dir[0] != '\0' ? dir : "/tmp") >= (int)sizeof path)
        return rp_fail(RP_E_ARG, "TMPDIR is too long");
    Scratch  file;
    RpStatus st = rp_scratch_open(path, "gguf", &file);
    if (st == RP_OK) st = rp_synth(preset, &(RpSynthOptions){.type = type, .hollow = true}, file.path);
    if (st == RP_OK) st = rp_model_open(file.path, NULL, out);
    rp_scratch_close(&file); /* the mapping keeps the contents */
    return st;
}
