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
#include "base/sized.h"
#include "model/gguf/gguf_write.h"
#include "model/model.h"
#include "model/convert/preset.h"
#include "model/convert/quant_mix.h"
#include "reprise/quants.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_CONTROL = 3, N_BYTES = 256, MAX_ROW = 1 << 16, N_TEMPLATES = 16, MAX_BLOCK = 256 };

typedef struct Synth {
    const Preset   *preset;
    ModelConfig     config;
    const QuantMix *mix;
    GgufWriter     *out;
    RpSynthOptions    options;
    size_t          done;
    uint64_t        n_tensor; /* number of the tensor, for its random stream */
    float          *row;
    unsigned char  *quantized;
    unsigned char   templates[N_TEMPLATES][MAX_BLOCK];
} Synth;

/* ---- random numbers: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), one stream a row ---- */

static uint64_t mix64(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t next(uint64_t *state) { return mix64(*state += 0x9e3779b97f4a7c15u); }

/* Approximately normal with deviation 1. The sum of four uniform 16-bit numbers deviates by
 * sqrt(4) * 65536 / sqrt(12) = 37837. */
static float deviate(uint64_t *state) {
    const uint64_t bits = next(state);
    int32_t        sum  = 0;
    for (int i = 0; i < 4; i++) sum += (int32_t)(bits >> (16 * i) & 0xffff);
    return (float)(sum - 2 * 0xffff) * (1.0f / 37837.0f);
}

/* ---- rows ---- */

/* Bytes of a block that hold quants; the bytes before and after them are scales (base/dtypes.h). */
typedef struct Integers {
    int from, end;
} Integers;

static const Integers integers[RP_DTYPE_COUNT] = {
#define X(ID, name, sub, offset, has_min, top, from, end, ...) [RP_##ID] = {from, end},
    RP_QUANTS(X)
#undef X
};

#define X(ID, name, ...) static_assert(sizeof((Synth){0}.templates[0]) >= RP_##ID##_BYTES, #name ": a template holds a block");
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
        for (int i = 0; i < info->block_elems; i++) s->row[i] = deviate(&state) * deviation / uniform_spread;
        RP_TRY(rp_quantize_row(type, s->row, info->block_elems, s->templates[t]));
    }
    return RP_OK;
}

/* A row of n elements in blocks: scales of a random template, random quants. */
static void random_blocks(Synth *s, RpDtype type, int64_t n, uint64_t *state) {
    const RpDtypeInfo *info  = rp_dtype_info(type);
    const Integers   where = integers[type];
    for (int64_t b = 0; b < n / info->block_elems; b++) {
        unsigned char *block = s->quantized + b * info->block_bytes;
        memcpy(block, s->templates[next(state) % N_TEMPLATES], (size_t)info->block_bytes);
        /* 8 random bytes at a time; the last may be fewer */
        for (int i = where.from; i < where.end; i += 8) {
            const uint64_t bits = next(state);
            memcpy(block + i, &bits, (size_t)(where.end - i < 8 ? where.end - i : 8));
        }
    }
}

/* A row in any type; float types are computed element by element. */
static RpStatus random_row(Synth *s, RpDtype type, int64_t n, float mean, float deviation, uint64_t *state) {
    if (rp_dtype_is_quant(type)) {
        random_blocks(s, type, n, state);
        return RP_OK;
    }
    for (int64_t i = 0; i < n; i++) s->row[i] = mean + deviation * deviate(state);
    return rp_quantize_row(type, s->row, n, s->quantized);
}

static bool ends_with(const char *name, const char *end) {
    const size_t a = strlen(name), b = strlen(end);
    return a >= b && strcmp(name + a - b, end) == 0;
}

static RpDtype type_of(const Synth *s, const char *name, const int64_t ne[RP_MAX_DIMS]) {
    return rp_quant_mix_type(s->mix, (RpGgufString){name, strlen(name)}, ne, s->config.n_layer,
                             s->preset->tied);
}

/* Writes one tensor. Its rows are functions of (seed, number of the tensor, number of the row) alone. */
static RpStatus write_tensor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    Synth         *s         = user;
    const RpDtype  type      = type_of(s, name, ne);
    const bool     is_norm   = ends_with(name, "norm.weight");
    const bool     is_small  = is_norm || ends_with(name, ".bias") || ends_with(name, "sinks.weight");
    const float    deviation = is_small ? 0.1f : 1.0f / sqrtf((float)ne[0]);
    const size_t   bytes     = rp_row_bytes(type, ne[0]);
    const uint64_t tensor    = mix64(s->options.seed ^ mix64(++s->n_tensor));
    if (rp_dtype_is_quant(type)) RP_TRY(make_templates(s, type, deviation, mix64(~tensor)));
    for (int64_t i = 0; i < ne[1] * ne[2]; i++) {
        uint64_t state = mix64(tensor + (uint64_t)i);
        RP_TRY(random_row(s, type, ne[0], is_norm ? 1.0f : 0.0f, deviation, &state));
        RP_TRY(rp_gguf_writer_data(s->out, s->quantized, bytes));
        s->done += bytes;
        if (s->options.progress != NULL &&
            !s->options.progress(s->done, rp_gguf_writer_total(s->out), s->options.user))
            return rp_fail(RP_E_CANCELLED, "%s: writing was stopped", s->preset->name);
    }
    return RP_OK;
}

static RpStatus announce_tensor(const char *name, const int64_t ne[RP_MAX_DIMS], void *user) {
    Synth *s = user;
    rp_gguf_put_tensor(s->out, name, strlen(name), type_of(s, name, ne), ne);
    return RP_OK;
}

/* ---- metadata ---- */

/* Values under "<arch>.<key>". A count of 0 is left out. */
static void put_u32(Synth *s, const char *key, int32_t value) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", s->preset->arch, key);
    if (value > 0) rp_gguf_put_u32(s->out, full, (uint32_t)value);
}

static void put_f32(Synth *s, const char *key, float value) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", s->preset->arch, key);
    rp_gguf_put_f32(s->out, full, value);
}

static void put_shape(Synth *s) {
    const Preset *p = s->preset;
    rp_gguf_put_string(s->out, "general.architecture", p->arch);
    char name[96];
    snprintf(name, sizeof name, "%s of random weights, seed %llu", p->name,
             (unsigned long long)s->options.seed);
    rp_gguf_put_string(s->out, "general.name", name);
    rp_gguf_put_u32(s->out, "general.file_type", rp_quant_mix_file_type(s->mix));
    rp_gguf_put_u32(s->out, "general.quantization_version", 2);
    put_u32(s, "context_length", p->n_ctx);
    put_u32(s, "embedding_length", p->n_embd);
    put_u32(s, "block_count", p->n_layer);
    put_u32(s, "feed_forward_length", p->n_ff);
    put_u32(s, "attention.head_count", p->n_head);
    put_u32(s, "attention.head_count_kv", p->n_head_kv);
    put_u32(s, "attention.key_length", p->head_dim);
    put_u32(s, "attention.value_length", p->head_dim);
    put_u32(s, "attention.sliding_window", p->window);
    put_u32(s, "rope.dimension_count", p->head_dim);
    put_u32(s, "expert_count", p->n_expert);
    put_u32(s, "expert_used_count", p->n_used);
    if (!s->config.arch->no_expert_length) put_u32(s, "expert_feed_forward_length", p->n_ff_expert);
    put_f32(s, "attention.layer_norm_rms_epsilon", 1e-5f);
    put_f32(s, "rope.freq_base", rp_preset_rope_base(p));
    if (p->yarn_factor > 0.0f) {
        char key[128];
        snprintf(key, sizeof key, "%s.rope.scaling.type", p->arch);
        rp_gguf_put_string(s->out, key, "yarn");
        put_f32(s, "rope.scaling.factor", p->yarn_factor);
        put_u32(s, "rope.scaling.original_context_length", p->yarn_ctx);
    }
}

/* Tokens: 3 control tokens, 256 byte tokens, and unused ones up to the size of the vocabulary. */
static void put_tokenizer(Synth *s) {
    enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, UNUSED = 5, BYTE = 6 };
    static const char *const control[N_CONTROL] = {"<unk>", "<s>", "</s>"};
    const int32_t            n                  = s->preset->n_vocab;
    const float              score              = 0.0f;
    rp_gguf_put_string(s->out, "tokenizer.ggml.model", "llama");
    rp_gguf_put_array(s->out, "tokenizer.ggml.tokens", RP_GGUF_STRING, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        if (i < N_CONTROL)
            snprintf(text, sizeof text, "%s", control[i]);
        else if (i < N_CONTROL + N_BYTES)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - N_CONTROL));
        else
            snprintf(text, sizeof text, "<unused%d>", i);
        rp_gguf_put_text(s->out, text, strlen(text));
    }
    rp_gguf_put_array(s->out, "tokenizer.ggml.scores", RP_GGUF_F32, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) rp_gguf_put_element(s->out, &score, sizeof score);
    rp_gguf_put_array(s->out, "tokenizer.ggml.token_type", RP_GGUF_I32, (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t kind =
            i == 0 ? UNKNOWN : (i < N_CONTROL ? CONTROL : (i < N_CONTROL + N_BYTES ? BYTE : UNUSED));
        rp_gguf_put_element(s->out, &kind, sizeof kind);
    }
    rp_gguf_put_u32(s->out, "tokenizer.ggml.unknown_token_id", 0);
    rp_gguf_put_u32(s->out, "tokenizer.ggml.bos_token_id", 1);
    rp_gguf_put_u32(s->out, "tokenizer.ggml.eos_token_id", 2);
    rp_gguf_put_bool(s->out, "tokenizer.ggml.add_bos_token", true);
    rp_gguf_put_bool(s->out, "tokenizer.ggml.add_space_prefix", false);
}

/* As much of a configuration as rp_model_list_weights reads. */
static ModelConfig config_of(const Preset *p) {
    const ArchRow *arch = rp_arch_find(p->arch, strlen(p->arch));
    return (ModelConfig){
        .arch      = arch,
        .layers    = arch->layers,
        .n_embd    = p->n_embd,
        .n_layer   = p->n_layer,
        .n_head    = p->n_head,
        .n_head_kv = p->n_head_kv,
        .head_dim  = p->head_dim,
        .n_ff      = p->n_ff,
        .rope      = {.n_dims = p->head_dim  },
        .experts   = { .n = p->n_expert, .n_used = p->n_used, .n_ff = p->n_ff_expert}
    };
}

/* The tensor table must be complete before any data is written, so the tensors are listed twice. */
static RpStatus write_all(Synth *s) {
    const Preset *p = s->preset;
    put_shape(s);
    put_tokenizer(s);
    RP_TRY(rp_model_list_weights(&s->config, p->n_vocab, p->tied, p->biases, announce_tensor, s));
    RP_TRY(rp_gguf_writer_begin(s->out));
    if (s->options.hollow) return rp_gguf_writer_hollow(s->out);
    return rp_model_list_weights(&s->config, p->n_vocab, p->tied, p->biases, write_tensor, s);
}

RpStatus rp_synth_sized(const char *preset, const RpSynthOptions *options, size_t options_bytes, const char *path) {
    RP_NOT_NULL(preset, "preset");
    RP_NOT_NULL(path, "path");

    Synth s = {.preset = rp_preset_find(preset)};
    RP_TRY(rp_sized_in(&s.options, sizeof s.options, options, options_bytes, "RpSynthOptions"));
    if (s.preset == NULL) {
        char   known[256];
        size_t n = 0;
        for (int i = 0; rp_synth_preset_name(i) != NULL; i++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "",
                                  rp_synth_preset_name(i));
        return rp_fail(RP_E_ARG, "there is no preset '%.32s' (there are %s)", preset, known);
    }
    RP_TRY(rp_quant_mix_find(s.options.type != NULL ? s.options.type : "Q8_0", &s.mix));
    s.config    = config_of(s.preset);
    s.row       = malloc(MAX_ROW * sizeof *s.row);
    s.quantized = malloc(MAX_ROW * sizeof *s.row);
    RpStatus st = RP_OK;
    if (s.row == NULL || s.quantized == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for a row");
    if (st == RP_OK) st = rp_gguf_writer_open(path, &s.out);
    if (st == RP_OK) st = rp_gguf_writer_close(s.out, write_all(&s));
    free(s.row);
    free(s.quantized);
    return st;
}

/* Writes a hollow file, maps it and removes its name. */
RpStatus rp_model_open_preset(const char *preset, const char *type, RpModel **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(preset, "preset");

    const char *dir = getenv("TMPDIR");
    char        path[512];
    if (snprintf(path, sizeof path, "%s/reprise-XXXXXX", dir != NULL && dir[0] != '\0' ? dir : "/tmp") >=
        (int)sizeof path)
        return rp_fail(RP_E_ARG, "TMPDIR is too long");
    const int fd = mkstemp(path);
    if (fd < 0) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    (void)close(fd);
    RpStatus st = rp_synth(preset, &(RpSynthOptions){.type = type, .hollow = true}, path);
    if (st == RP_OK) st = rp_model_open(path, NULL, out);
    (void)unlink(path); /* the mapping keeps the contents */
    return st;
}
