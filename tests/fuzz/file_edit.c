/* Edits of the values and tensors of a model file: one function a kind, one row of a table each. */
#include "tests/fuzz/file_edit.h"

#include "reprise/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The operands of an edit. */
typedef struct Edit {
    unsigned item, where;
    uint32_t value;
} Edit;

static const double numbers[] = {0,   1,    2,   3,    4,     5,     7,    8,     16,    31,         32,         33,
                                 63,  64,   96,  127,  128,   255,   256,  257,   512,   1024,       65535,      65536,
                                 -1,  -2,   0.5, 1e-6, 1e-30, 1e-40, 1e30, 3e38,  1e300, 2147483647, 4294967295, 1e18,
                                 1.5, -0.0, 1e6, 1e9,  0.1,   100,   48,   10000, 160,   192,        320,        24};

/* The number of an edit: a small one, one of the table, or any float or integer. */
static double number(const Edit *e) {
    float as_float;
    memcpy(&as_float, &e->value, sizeof as_float);
    switch (e->where >> 14) {
    case 0:
        return numbers[e->value % (sizeof numbers / sizeof numbers[0])];
    case 1:
        return (double)(e->value & 0xff);
    case 2:
        return (double)as_float;
    default:
        return (double)e->value;
    }
}

static int64_t whole(double x, double lowest, double highest) {
    return x >= lowest && x <= highest ? (int64_t)x : x > 0 ? INT64_MAX : 0;
}

static FuzzValue *value_at(FuzzFile *f, unsigned i) {
    return f->n_values > 0 ? &f->values[i % (unsigned)f->n_values] : NULL;
}
static FuzzTensor *tensor_at(FuzzFile *f, unsigned i) {
    return f->n_tensors > 0 ? &f->tensors[i % (unsigned)f->n_tensors] : NULL;
}

/* Gives `data` another length; what is new repeats the old bytes. */
static void resize(char **data, size_t *n, size_t to) {
    char *p = malloc(to + 1);
    if (p == NULL) abort();
    for (size_t i = 0; i < to; i++) p[i] = *n > 0 ? (*data)[i % *n] : 0;
    free(*data);
    *data = p;
    *n    = to;
}

/* ---- values ---- */

static void store(FuzzValue *v, uint64_t i, double x) {
    const int64_t n = whole(x, -9e18, 9e18);
    const float   s = (float)(x > 3e38 ? 3e38 : x < -3e38 ? -3e38 : x);
    switch (v->elem_type) {
    case RP_GGUF_U8:
    case RP_GGUF_I8:
        memcpy(v->data + i, &n, 1);
        break;
    case RP_GGUF_BOOL:
        v->data[i] = x != 0;
        break;
    case RP_GGUF_U16:
    case RP_GGUF_I16:
        memcpy(v->data + 2 * i, &n, 2);
        break;
    case RP_GGUF_U32:
    case RP_GGUF_I32:
        memcpy(v->data + 4 * i, &n, 4);
        break;
    case RP_GGUF_F32:
        memcpy(v->data + 4 * i, &s, 4);
        break;
    case RP_GGUF_U64:
    case RP_GGUF_I64:
        memcpy(v->data + 8 * i, &n, 8);
        break;
    case RP_GGUF_F64:
        memcpy(v->data + 8 * i, &x, 8);
        break;
    default:
        break;
    }
}

static void edit_number(FuzzFile *f, const Edit *e) {
    FuzzValue *v = value_at(f, e->item);
    if (v != NULL && v->n > 0) store(v, (e->where & 0x3fff) % v->n, number(e));
}

static const char *const texts[] = {"",
                                    "a",
                                    "none",
                                    "linear",
                                    "yarn",
                                    "ntk",
                                    "gpt2",
                                    "llama",
                                    "smollm",
                                    "qwen2",
                                    "tekken",
                                    "llama-bpe",
                                    "default",
                                    "<|im_start|>",
                                    "<|start_header_id|><|end_header_id|>",
                                    "[INST]",
                                    "[INST]<<SYS>>",
                                    "<start_of_turn>",
                                    "<|im_end|>",
                                    "<eos>",
                                    "</s>",
                                    "\xe2\x96\x81",
                                    "\xe2\x96\x81\xe2\x96\x81",
                                    "<0x41>",
                                    "<0x00>",
                                    "<0xZZ>",
                                    "\xff\xfe",
                                    "\xc2",
                                    "a b",
                                    "b a",
                                    " ",
                                    "\xc4\xa0",
                                    "\xc4\xa0\xc4\xa0",
                                    "aa",
                                    "\033[2J",
                                    "<|endoftext|>",
                                    "%s%n",
                                    "x y z"};

static const char *text_of(const Edit *e) { return texts[e->value % (sizeof texts / sizeof texts[0])]; }

static size_t string_at(const FuzzValue *v, uint64_t i, uint64_t *len) {
    size_t at = 0;
    for (;; i--) {
        memcpy(len, v->data + at, sizeof *len);
        if (i == 0) return at;
        at += sizeof *len + (size_t)*len;
    }
}

/* Replaces one string of a value. */
static void edit_text(FuzzFile *f, const Edit *e) {
    FuzzValue *v = value_at(f, e->item);
    if (v == NULL || v->elem_type != RP_GGUF_STRING || v->n == 0) return;
    uint64_t       old;
    const char    *text = text_of(e);
    const uint64_t len  = strlen(text);
    const size_t   at = string_at(v, e->where % v->n, &old), behind = at + sizeof old + (size_t)old;
    char          *p = malloc(v->bytes + sizeof len + (size_t)len);
    if (p == NULL) abort();
    memcpy(p, v->data, at);
    memcpy(p + at, &len, sizeof len);
    memcpy(p + at + sizeof len, text, (size_t)len);
    memcpy(p + at + sizeof len + len, v->data + behind, v->bytes - behind);
    free(v->data);
    v->data  = p;
    v->bytes = v->bytes - (size_t)old + (size_t)len;
}

/* Changes a byte of one string. */
static void edit_character(FuzzFile *f, const Edit *e) {
    FuzzValue *v = value_at(f, e->item);
    uint64_t   len;
    if (v == NULL || v->elem_type != RP_GGUF_STRING || v->n == 0) return;
    const size_t at = string_at(v, e->where % v->n, &len);
    if (len > 0) v->data[at + sizeof len + (e->value >> 8) % len] = (char)e->value;
}

static void drop_value(FuzzFile *f, const Edit *e) {
    if (f->n_values == 0) return;
    FuzzValue *v = value_at(f, e->item);
    free(v->data);
    *v = f->values[--f->n_values];
}

static const char *architecture(FuzzFile *f, char *out, size_t room) {
    snprintf(out, room, "llama");
    for (int i = 0; i < f->n_values; i++)
        if (strcmp(f->values[i].key, "general.architecture") == 0 && f->values[i].bytes > 8)
            snprintf(out, room, "%.*s", (int)(f->values[i].bytes - 8 < 40 ? f->values[i].bytes - 8 : 40),
                     f->values[i].data + 8);
    return out;
}

static const char *const keys[]    = {"attention.key_length",
                                      "attention.value_length",
                                      "attention.scale",
                                      "attention.sliding_window",
                                      "attention.sliding_window_pattern",
                                      "attention.head_count_kv",
                                      "rope.dimension_count",
                                      "rope.freq_base",
                                      "rope.freq_base_swa",
                                      "rope.scale_linear",
                                      "rope.scaling.factor",
                                      "rope.scaling.alpha",
                                      "rope.scaling.attn_factor",
                                      "rope.scaling.original_context_length",
                                      "rope.scaling.yarn_ext_factor",
                                      "rope.scaling.yarn_beta_fast",
                                      "rope.scaling.yarn_beta_slow",
                                      "rope.scaling.yarn_log_multiplier",
                                      "rope.scaling.finetuned",
                                      "embedding_scale",
                                      "residual_scale",
                                      "logit_scale",
                                      "expert_weights_scale",
                                      "expert_weights_norm",
                                      "expert_gating_func",
                                      "expert_group_count",
                                      "expert_group_used_count",
                                      "expert_shared_count",
                                      "expert_shared_feed_forward_length",
                                      "expert_used_count",
                                      "expert_count",
                                      "leading_dense_block_count",
                                      "attention.q_lora_rank",
                                      "attention.kv_lora_rank",
                                      "attention.key_length_mla",
                                      "attention.value_length_mla",
                                      "vocab_size"};
static const char *const general[] = {"tokenizer.ggml.add_bos_token",
                                      "tokenizer.ggml.add_eos_token",
                                      "tokenizer.ggml.add_space_prefix",
                                      "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id",
                                      "general.alignment",
                                      "general.name",
                                      "tokenizer.ggml.unknown_token_id",
                                      "tokenizer.ggml.remove_extra_whitespaces",
                                      "tokenizer.chat_template",
                                      "tokenizer.ggml.pre",
                                      "tokenizer.ggml.bos_token_id"};

static void add_value(FuzzFile *f, const Edit *e) {
    enum { N_KEYS = sizeof keys / sizeof keys[0], N_GENERAL = sizeof general / sizeof general[0] };
    static const RpGgufType types[] = {RP_GGUF_U32, RP_GGUF_F32, RP_GGUF_BOOL, RP_GGUF_STRING};
    const unsigned          which   = e->item % (N_KEYS + N_GENERAL);
    char                    arch[64];
    if (f->n_values == FUZZ_VALUES) return;
    FuzzValue *v = &f->values[f->n_values++];
    *v           = (FuzzValue){.type = types[e->where % 4], .elem_type = types[e->where % 4], .n = 1};
    if (which < N_KEYS)
        snprintf(v->key, sizeof v->key, "%s.%s", architecture(f, arch, sizeof arch), keys[which]);
    else
        snprintf(v->key, sizeof v->key, "%s", general[which - N_KEYS]);
    const char    *text = text_of(e);
    const uint64_t len  = strlen(text);
    v->bytes            = v->type == RP_GGUF_STRING ? 8 + (size_t)len : v->type == RP_GGUF_BOOL ? 1 : 4;
    v->data             = calloc(1, v->bytes + 1);
    if (v->data == NULL) abort();
    if (v->type == RP_GGUF_STRING) memcpy(v->data, &len, 8), memcpy(v->data + 8, text, (size_t)len);
    store(v, 0, number(e));
}

/* An array of another length. */
static void edit_length(FuzzFile *f, const Edit *e) {
    FuzzValue *v = value_at(f, e->item);
    if (v == NULL || v->type != RP_GGUF_ARRAY || v->elem_type == RP_GGUF_STRING || v->n == 0) return;
    const size_t   elem = v->bytes / (size_t)v->n;
    const uint64_t n    = e->where % 2 == 0 ? v->n + e->value % 5 - 2 : e->value % 1024;
    if (n > 4096) return;
    resize(&v->data, &v->bytes, (size_t)n * elem);
    v->n = n;
}

/* Another type, with as many bytes as it has. */
static void edit_value_type(FuzzFile *f, const Edit *e) {
    static const size_t sizes[RP_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
    FuzzValue          *v                         = value_at(f, e->item);
    const RpGgufType    type                      = (RpGgufType)(e->value % RP_GGUF_TYPE_COUNT);
    if (v == NULL || v->type == RP_GGUF_ARRAY || type == RP_GGUF_ARRAY) return;
    v->type = v->elem_type = type;
    resize(&v->data, &v->bytes, sizes[type]);
    if (type == RP_GGUF_STRING) memset(v->data, 0, v->bytes); /* no characters */
    if (type == RP_GGUF_BOOL) v->data[0] &= 1;
}

/* Another architecture, with all keys that begin with its name. */
static void edit_architecture(FuzzFile *f, const Edit *e) {
    uint32_t n = 0;
    char     arch[64], key[96];
    while (rp_arch_name((int)n) != NULL) n++;
    const char *const to = rp_arch_name((int)(e->value % n));
    architecture(f, arch, sizeof arch);
    for (int i = 0; i < f->n_values; i++) {
        FuzzValue *v = &f->values[i];
        if (strncmp(v->key, arch, strlen(arch)) == 0 && v->key[strlen(arch)] == '.') {
            snprintf(key, sizeof key, "%.20s%.70s", to, v->key + strlen(arch));
            memcpy(v->key, key, sizeof key);
        }
        if (strcmp(v->key, "general.architecture") == 0) {
            const uint64_t len = strlen(to);
            resize(&v->data, &v->bytes, 8 + (size_t)len);
            memcpy(v->data, &len, 8), memcpy(v->data + 8, to, (size_t)len);
        }
    }
}

/* ---- tensors ---- */

/* Bytes of a tensor by its type and shape; 0: no such type, or too large for a test. */
static size_t tensor_bytes(const FuzzTensor *t) {
    RpDtype dtype;
    if (rp_dtype_from_gguf(t->type, &dtype) != RP_OK) return 0;
    double n = 1;
    for (int d = 0; d < RP_MAX_DIMS; d++) {
        if (t->ne[d] < 1) return 0;
        n *= (double)t->ne[d];
    }
    if (n > FUZZ_MAX_BYTES / 8 || t->ne[0] % rp_dtype_info(dtype)->block_elems != 0) return 0;
    return rp_row_bytes(dtype, t->ne[0]) * (size_t)(t->ne[1] * t->ne[2] * t->ne[3]);
}

/* The data follows the new type and shape where it can, so that the file opens. */
static void refit(FuzzTensor *t) {
    const size_t n = tensor_bytes(t);
    if (n > 0 && n != t->bytes) resize(&t->data, &t->bytes, n);
}

static const uint32_t types[] = {0, 1, 30, 2, 3, 6, 7, 8, 12, 13, 14, 39, 26, 10, 99};

static void edit_type(FuzzFile *f, const Edit *e) {
    FuzzTensor *t = tensor_at(f, e->item);
    if (t == NULL) return;
    t->type = types[e->value % (sizeof types / sizeof types[0])];
    refit(t);
}

/* All matrices, each with a type that depends on its place. */
static void edit_all_types(FuzzFile *f, const Edit *e) {
    for (int i = 0; i < f->n_tensors; i++) {
        FuzzTensor *t = &f->tensors[i];
        if (t->ne[1] == 1) continue;
        t->type = types[(e->value + (unsigned)i * (e->where % 4)) % 12];
        refit(t);
    }
}

static void edit_dimension(FuzzFile *f, const Edit *e) {
    FuzzTensor *t = tensor_at(f, e->item);
    if (t == NULL) return;
    int64_t *ne = &t->ne[e->where % RP_MAX_DIMS];
    switch (e->where / RP_MAX_DIMS % 4) {
    case 0:
        *ne *= 2;
        break;
    case 1:
        *ne = *ne / 2;
        break;
    case 2:
        *ne += (int64_t)(e->value % 3) - 1;
        break;
    default:
        *ne = whole(number(e), 0, 1e18);
    }
    refit(t);
}

/* One length of the model, wherever it occurs: every dimension and every value that is equal to it. */
static void edit_all_lengths(FuzzFile *f, const Edit *e) {
    static const int64_t lengths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 72, 96, 100, 128, 160, 192, 256, 320};
    FuzzTensor          *t         = tensor_at(f, e->item);
    if (t == NULL) return;
    const int64_t from = t->ne[e->where % 3], to = lengths[e->value % (sizeof lengths / sizeof lengths[0])];
    if (from == 1) return;
    for (int i = 0; i < f->n_tensors; i++) {
        for (int d = 0; d < 3; d++)
            if (f->tensors[i].ne[d] == from) f->tensors[i].ne[d] = to;
        refit(&f->tensors[i]);
    }
    for (int i = 0; i < f->n_values; i++) {
        uint32_t x;
        if (f->values[i].type != RP_GGUF_U32 || strncmp(f->values[i].key, "tokenizer", 9) == 0) continue;
        memcpy(&x, f->values[i].data, sizeof x);
        if (x == from) store(&f->values[i], 0, (double)to);
    }
}

/* Numbers that arithmetic must survive, as f32, f16 or bytes, over a part of a tensor. */
static void edit_data(FuzzFile *f, const Edit *e) {
    static const struct {
        char   bytes[4];
        size_t n;
    } patterns[] = {
        {"\x00\x00\xc0\x7f", 4},
        {"\x00\x00\x80\x7f", 4},
        {"\x00\x00\x80\xff", 4},
        {"\xff\xff\x7f\x7f", 4},
        {"\x01\x00\x00\x00", 4},
        {"\x00\x00\x00\x80", 4},
        {"\x00\x7e",         2},
        {"\x00\x7c",         2},
        {"\x00\xfc",         2},
        {"\x01\x00",         2},
        {"\xff\x7b",         2},
        {"\xff",             1},
        {"\x00",             1},
        {"\x80",             1},
        {"\x00\x00\x00\x3f", 4},
        {"\xff\xff\x00\x00", 4}
    };
    FuzzTensor *t = tensor_at(f, e->item);
    if (t == NULL || t->bytes == 0) return;
    const unsigned which = e->value % 16;
    const size_t   unit = patterns[which].n, gap = 1 + (e->value >> 4) % 64;
    const size_t   from   = (size_t)((uint64_t)e->where * t->bytes / 65536) / unit * unit;
    const size_t   length = (size_t)1 << (e->value >> 12) % 16;
    for (size_t i = from; i + unit <= t->bytes && i < from + length; i += unit * gap)
        memcpy(t->data + i, patterns[which].bytes, unit);
}

/* One number of a float tensor or four bytes of any. */
static void edit_element(FuzzFile *f, const Edit *e) {
    FuzzTensor *t = tensor_at(f, e->item);
    if (t == NULL || t->bytes < 4) return;
    memcpy(t->data + (size_t)((uint64_t)e->where * (t->bytes / 4) / 65536) * 4, &e->value, 4);
}

static void drop_tensor(FuzzFile *f, const Edit *e) {
    if (f->n_tensors == 0) return;
    FuzzTensor *t = tensor_at(f, e->item);
    free(t->data);
    *t = f->tensors[--f->n_tensors];
}

/* Two tensors of each other's name. */
static void swap_names(FuzzFile *f, const Edit *e) {
    FuzzTensor *a = tensor_at(f, e->item), *b = tensor_at(f, e->value);
    char        name[sizeof a->name];
    if (a == NULL) return;
    memcpy(name, a->name, sizeof name);
    memcpy(a->name, b->name, sizeof name);
    memcpy(b->name, name, sizeof name);
}

/* A tensor that the file may have: the bias of a matrix, the factors of RoPE, a separate output matrix. */
static void add_tensor(FuzzFile *f, const Edit *e) {
    FuzzTensor *from = tensor_at(f, e->item);
    if (from == NULL || f->n_tensors == FUZZ_TENSORS) return;
    FuzzTensor *t = &f->tensors[f->n_tensors++];
    *t            = (FuzzTensor){
                   .type = 0, .ne = {from->ne[1], from->ne[2], 1, 1}
    };
    const char *dot = strrchr(from->name, '.');
    switch (e->where % 4) {
    case 0:
        snprintf(t->name, sizeof t->name, "%.*s.bias", dot != NULL ? (int)(dot - from->name) : 4, from->name);
        break;
    case 1:
        snprintf(t->name, sizeof t->name, "rope_freqs.weight");
        t->ne[0] = 1 + (e->value >> 16) % 64;
        t->ne[1] = 1;
        break;
    case 2:
        snprintf(t->name, sizeof t->name, "output.weight");
        memcpy(t->ne, from->ne, sizeof t->ne);
        break;
    default:
        snprintf(t->name, sizeof t->name, "blk.%u.exp_probs_b.bias", e->item % 4);
    }
    t->bytes = 4;
    t->data  = calloc(1, 5);
    if (t->data == NULL) abort();
    memcpy(t->data, &e->value, 4);
    refit(t);
}

static void nothing(FuzzFile *f, const Edit *e) { (void)f, (void)e; }

/* By the kind of an edit, modulo 32. The last two are edits of the written file. */
static void (*const kinds[32])(FuzzFile *, const Edit *) = {
    edit_number,    edit_number,    edit_number,    add_value,        add_value,         edit_text,  edit_text,
    edit_character, drop_value,     edit_length,    edit_value_type,  edit_architecture, edit_type,  edit_type,
    edit_all_types, edit_all_types, edit_dimension, edit_all_lengths, edit_all_lengths,  edit_data,  edit_data,
    edit_data,      edit_data,      edit_element,   edit_element,     drop_tensor,       swap_names, add_tensor,
    add_tensor,     edit_number,    nothing,        nothing};

void fuzz_file_edit(FuzzFile *f, const uint8_t edit[FUZZ_EDIT]) {
    uint16_t where;
    Edit     e = {.item = edit[1]};
    memcpy(&where, edit + 2, sizeof where);
    memcpy(&e.value, edit + 4, sizeof e.value);
    e.where = where;
    kinds[edit[0] % 32](f, &e);
}
