/* Files that are refused: one damaged item each, and the text that names it. Keys of a model, vocabularies,
 * adapters. */
#include "tests/support/gguf_writer.h"

#include "reprise/convert.h"
#include "reprise/tokenizer.h"

#include <math.h>

enum { MAX_KEYS = 24 };

/* A key with one value; a text if `text` is set, a missing key if `type` is RP_GGUF_ARRAY. */
typedef struct Key {
    const char *key;
    RpGgufType  type;
    uint32_t    whole;
    float       real;
    const char *text;
} Key;

#define WHOLE(k, x) ((Key){.key = k, .type = RP_GGUF_U32, .whole = x})
#define REAL(k, x)  ((Key){.key = k, .type = RP_GGUF_F32, .real = x})
#define TEXT(k, x)  ((Key){.key = k, .type = RP_GGUF_STRING, .text = x})
#define FALSE(k)    ((Key){.key = k, .type = RP_GGUF_BOOL})
#define NO(k)       ((Key){.key = k, .type = RP_GGUF_ARRAY})

static void put_one(Bytes *b, const Key *k) {
    if (k->type == RP_GGUF_STRING) {
        put_key_string(b, k->key, k->text);
    } else {
        put_key(b, k->key, k->type);
        put_bytes(b, k->type == RP_GGUF_F32 ? (const void *)&k->real : (const void *)&k->whole,
                  k->type == RP_GGUF_BOOL ? 1 : 4);
    }
}

/* The keys, of which `changed` replaces the one of its name or is added. */
static void put_keys(Bytes *b, uint64_t n_tensors, const Key *keys, size_t n, const Key *changed) {
    size_t n_kept = changed->key != NULL && changed->type != RP_GGUF_ARRAY;
    for (size_t i = 0; i < n; i++) n_kept += changed->key == NULL || strcmp(keys[i].key, changed->key) != 0;
    put_header(b, 3, n_tensors, n_kept);
    for (size_t i = 0; i < n; i++)
        if (changed->key == NULL || strcmp(keys[i].key, changed->key) != 0) put_one(b, &keys[i]);
    if (changed->key != NULL && changed->type != RP_GGUF_ARRAY) put_one(b, changed);
}

/* ---- keys of a model ---- */

/* Opens a model without tensors. With all keys sound its first tensor is missing. */
static void refuse_key(const char *arch, Key changed, RpStatus status, const char *text) {
    char                     names[8][64];
    Key                      keys[9]  = {TEXT("general.architecture", arch)};
    static const char *const wholes[] = {"context_length",      "embedding_length",     "block_count",
                                         "feed_forward_length", "attention.head_count", "vocab_size"};
    static const uint32_t    values[] = {64, 32, 2, 48, 4, 16};
    for (int i = 0; i < 6; i++) {
        snprintf(names[i], sizeof names[i], "%s.%s", arch, wholes[i]);
        keys[1 + i] = WHOLE(names[i], values[i]);
    }
    snprintf(names[6], sizeof names[6], "%s.attention.layer_norm_rms_epsilon", arch);
    snprintf(names[7], sizeof names[7], "%s.%s", arch, changed.key != NULL ? changed.key : "");
    keys[7] = REAL(names[6], 1e-5f);
    if (changed.key != NULL) changed.key = names[7];
    Bytes    b = {0};
    RpModel *m;
    put_keys(&b, 0, keys, 8, &changed);
    put_data(&b, 0);
    REFUSED(rp_model_open_memory(b.p, b.n, "m.gguf", &m), status, text);
    free(b.p);
}

Test(refusals, a_file_without_an_architecture) {
    Bytes    b = {0};
    RpModel *m;
    put_header(&b, 3, 0, 0);
    put_data(&b, 0);
    REFUSED(rp_model_open_memory(b.p, b.n, "m.gguf", &m), RP_E_FORMAT, "m.gguf: general.architecture is missing");
    free(b.p);
}

Test(refusals, keys_of_a_model) {
    refuse_key("qwen35", WHOLE("attention.recurrent_layers", 1), RP_E_FORMAT,
               "m.gguf: qwen35.attention.recurrent_layers must be an array of 2 booleans");
    refuse_key("llama", (Key){0}, RP_E_FORMAT, "m.gguf: tensor token_embd.weight is missing");
    refuse_key("llama", NO("block_count"), RP_E_FORMAT, "m.gguf: llama.block_count is missing");
    refuse_key("llama", NO("attention.layer_norm_rms_epsilon"), RP_E_FORMAT,
               "llama.attention.layer_norm_rms_epsilon is missing or not positive");
    refuse_key("llama", REAL("attention.layer_norm_rms_epsilon", -1e-5f), RP_E_FORMAT, "missing or not positive");
    refuse_key("llama", REAL("attention.layer_norm_rms_epsilon", NAN), RP_E_FORMAT,
               "llama.attention.layer_norm_rms_epsilon is not a finite number");
    refuse_key("llama", WHOLE("rope.dimension_count", 7), RP_E_FORMAT, "llama.rope.dimension_count is 7, must be even");
    refuse_key("llama", REAL("rope.freq_base", 0.0f), RP_E_FORMAT, "llama.rope.freq_base is 0, must be positive");
    refuse_key("llama", REAL("rope.freq_base_swa", -1.0f), RP_E_FORMAT, "must be positive");
    refuse_key("llama", TEXT("rope.scaling.type", "dynamic"), RP_E_UNSUPPORTED,
               "rope scaling 'dynamic' is not supported (there are none, linear, ntk, yarn, longrope)");
    refuse_key("llama", REAL("rope.scaling.factor", -2.0f), RP_E_FORMAT,
               "rope scaling by -2 from a context of 64 is not possible");
    refuse_key("llama", WHOLE("rope.scaling.original_context_length", 0), RP_E_FORMAT, "from a context of 0");
    refuse_key("llama", TEXT("rope.scaling.type", "ntk"), RP_E_FORMAT,
               "ntk rope scaling with alpha 0 over 8 dimensions is not possible");
    refuse_key("qwen35", FALSE("attention.causal"), RP_E_UNSUPPORTED,
               "m.gguf: qwen35.attention.causal is false: layer 0 cannot attend to later positions");
    refuse_key("gemma2", FALSE("attention.causal"), RP_E_UNSUPPORTED,
               "m.gguf: gemma2.attention.causal is false: the window of layer 0 is of a decoder");
    refuse_key("eurobert", REAL("attn_logit_softcapping", 2.0f), RP_E_UNSUPPORTED,
               "m.gguf: eurobert.attention.causal is false: attention with a soft cap cannot be so");
    refuse_key("eurobert", ((Key){.key = "attention.causal", .type = RP_GGUF_BOOL, .whole = 1}), RP_E_UNSUPPORTED,
               "m.gguf: eurobert.attention.causal is true: the family attends to later positions");
    refuse_key("eurobert", WHOLE("pooling_type", 5), RP_E_FORMAT,
               "m.gguf: eurobert.pooling_type is 5, must be from 0 to 4");
    refuse_key("bert", REAL("attention.layer_norm_epsilon", -1.0f), RP_E_FORMAT,
               "m.gguf: bert.attention.layer_norm_epsilon is missing or not positive");
    refuse_key("granite", REAL("logit_scale", 0.0f), RP_E_FORMAT, "granite.logit_scale is 0");
    refuse_key("gemma3", WHOLE("attention.sliding_window", 0x80000000u), RP_E_FORMAT,
               "a sliding window of 2147483648 positions is not possible");
    refuse_key("gemma3", WHOLE("attention.sliding_window_pattern", 0x80000000u), RP_E_FORMAT,
               "gemma3.attention.sliding_window_pattern is 2147483648, must be at most 2147483647");
}

/* ---- vocabularies ---- */

static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab"};

enum { N_TOKENS = sizeof tokens / sizeof tokens[0] };

/* The arrays of a vocabulary: their numbers of elements; -1: an array of numbers in the place of texts, or the
 * reverse. */
typedef struct Vocabulary {
    const char *model;
    int         n_tokens, n_types, n_scores;
    const char *merge; /* one, or NULL */
    float       score, type;
} Vocabulary;

static void put_numbers(Bytes *b, const char *key, int n, float x) {
    float values[N_TOKENS + 1];
    for (int i = 0; i <= N_TOKENS; i++) values[i] = x;
    if (n < 0)
        put_key_strings(b, key, tokens, N_TOKENS);
    else
        put_key_array(b, key, RP_GGUF_F32, values, (size_t)n);
}

static void refuse_vocabulary(Vocabulary v, RpStatus status, const char *text) {
    const bool   gpt2 = strcmp(v.model, "gpt2") == 0;
    Bytes        b    = {0};
    RpGgufFile  *f;
    RpTokenizer *tk;
    put_header(&b, 3, 0, 4);
    put_key_string(&b, "tokenizer.ggml.model", v.model);
    if (v.n_tokens < 0)
        put_key_array(&b, "tokenizer.ggml.tokens", RP_GGUF_F32, (float[]){0.0f}, 1);
    else
        put_key_strings(&b, "tokenizer.ggml.tokens", tokens, (size_t)v.n_tokens);
    put_numbers(&b, "tokenizer.ggml.token_type", v.n_types, v.type);
    if (gpt2 && v.merge == NULL)
        put_key_array(&b, "tokenizer.ggml.merges", RP_GGUF_F32, (float[]){0.0f}, 1);
    else if (gpt2)
        put_key_strings(&b, "tokenizer.ggml.merges", &v.merge, 1);
    else
        put_numbers(&b, "tokenizer.ggml.scores", v.n_scores, v.score);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    if (status == RP_OK) {
        OK(rp_tokenizer_new(f, &tk));
        rp_tokenizer_free(tk);
    } else {
        REFUSED(rp_tokenizer_new(f, &tk), status, text);
    }
    rp_gguf_close(f);
    free(b.p);
}

Test(refusals, vocabularies) {
    const Vocabulary spm  = {"llama", N_TOKENS, N_TOKENS, N_TOKENS, NULL, 0.0f, 1.0f};
    const Vocabulary gpt2 = {"gpt2", N_TOKENS, N_TOKENS, 0, "a b", 0.0f, 1.0f};
    Vocabulary       v;
    refuse_vocabulary(spm, RP_OK, "");
    refuse_vocabulary(gpt2, RP_OK, "");
    v = spm, v.model = "rwkv";
    refuse_vocabulary(v, RP_E_UNSUPPORTED,
                      "tokenizer 'rwkv' is not supported (there are gpt2, llama, gemma4, bert and t5)");
    v = spm, v.n_tokens = -1;
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: tokenizer.ggml.tokens is not an array of strings");
    v = spm, v.n_types = -1;
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: tokenizer.ggml.token_type is not an array of 6 numbers");
    v = spm, v.n_types = N_TOKENS - 1;
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: tokenizer.ggml.token_type is not an array of 6 numbers");
    v = spm, v.type = 9.0f;
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: token 0 is of the unknown type 9");
    v = spm, v.n_scores = N_TOKENS + 1;
    refuse_vocabulary(v, RP_E_FORMAT, "tokenizer.ggml.scores is not an f32 for each of the 6 tokens");
    v = spm, v.n_scores = -1;
    refuse_vocabulary(v, RP_E_FORMAT, "tokenizer.ggml.scores is not an f32 for each of the 6 tokens");
    v = spm, v.score = NAN;
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: the score of token 0 is not a number");
    v = gpt2, v.merge = NULL;
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: tokenizer.ggml.merges is not an array of strings");
    v = gpt2, v.merge = "ab";
    refuse_vocabulary(v, RP_E_FORMAT, "v.gguf: BPE merge 0 is not a pair of strings");
}

/* ---- vocabularies of GGUF files that were made of Hugging Face directories ---- */

/* tokenizer.ggml.* of 6 tokens, and a key of another type or length. */
static void refuse_hf_key(const char *model, void (*put)(Bytes *), RpStatus status, const char *text) {
    Bytes        b = {0};
    RpGgufFile  *f;
    RpTokenizer *tk;
    float        numbers[6] = {1, 1, 1, 1, 1, 1};
    put_header(&b, 3, 0, 6);
    put_key_string(&b, "tokenizer.ggml.model", model);
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, N_TOKENS);
    put_key_array(&b, "tokenizer.ggml.token_type", RP_GGUF_F32, numbers, 6);
    put_key_array(&b, "tokenizer.ggml.scores", RP_GGUF_F32, numbers, 6);
    put_key_strings(&b, "other", NULL, 0);
    put(&b);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    REFUSED(rp_tokenizer_new(f, &tk), status, text);
    rp_gguf_close(f);
    free(b.p);
}

static void put_strip(Bytes *b) { put_key_array(b, "tokenizer.hf.strip", RP_GGUF_I32, &(int){1}, 1); }
static void put_log_probs(Bytes *b) { put_key_array(b, "tokenizer.hf.log_probs", RP_GGUF_I32, &(int){1}, 1); }
static void put_merges(Bytes *b) { put_key_array(b, "tokenizer.hf.merges", RP_GGUF_I32, &(int){1}, 1); }
static void put_merge(Bytes *b) { put_key_strings(b, "tokenizer.hf.merges", (const char *const[]){"ab"}, 1); }
static void put_no_tokens(Bytes *b) { put_key_strings(b, "tokenizer.hf.merges", (const char *const[]){"b a"}, 1); }
static void put_expressions(Bytes *b) { put_key_array(b, "tokenizer.hf.expressions", RP_GGUF_I32, &(int){1}, 1); }
static void put_pre(Bytes *b) { put_key_string(b, "tokenizer.ggml.pre", "none"); }
static void put_nothing(Bytes *b) { put_key_u32(b, "nothing", 0); }

/* Tokens that are whole texts, and none for a byte or for the unknown. */
static void refuse_byte(const char *model, const char *text) {
    Bytes        b = {0};
    RpGgufFile  *f;
    RpTokenizer *tk;
    RpTokenList  ids        = {0};
    float        numbers[6] = {1, 1, 1, 1, 1, 1};
    double       logs[6]    = {-1, -1, -1, -1, -1, -1};
    put_header(&b, 3, 0, 7);
    put_key_string(&b, "tokenizer.ggml.model", model);
    put_key(&b, "tokenizer.ggml.unknown_token_id", RP_GGUF_U32);
    put_u32(&b, UINT32_MAX); /* none */
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, N_TOKENS);
    put_key_array(&b, "tokenizer.ggml.token_type", RP_GGUF_F32, numbers, N_TOKENS);
    put_key_array(&b, "tokenizer.ggml.scores", RP_GGUF_F32, numbers, N_TOKENS);
    put_key_strings(&b, "tokenizer.ggml.merges", (const char *const[]){"a b"}, 1);
    put_key(&b, "tokenizer.hf.log_probs", RP_GGUF_ARRAY);
    put_u32(&b, RP_GGUF_F64), put_u64(&b, N_TOKENS), put_bytes(&b, logs, sizeof logs);
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "v.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    REFUSED(rp_tokenize(tk, "z", 1, 0, &ids), RP_E_UNSUPPORTED, text);
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    free(b.p);
}

Test(refusals, bytes_without_a_token) {
    refuse_byte("gpt2", "the tokenizer has no token for byte 0x7a");
    refuse_byte("llama", "the tokenizer has no token for byte 0x");
    refuse_byte("t5", "the tokenizer has no token for 4 bytes from 0xe2 on");
}

Test(refusals, keys_of_tokenizers_of_hugging_face) {
    refuse_hf_key("llama", put_strip, RP_E_FORMAT, "v.gguf: tokenizer.hf.strip is not a u8 for each of the 6 tokens");
    refuse_hf_key("t5", put_log_probs, RP_E_FORMAT,
                  "v.gguf: tokenizer.hf.log_probs is not an f64 for each of the 6 tokens");
    refuse_hf_key("llama", put_merges, RP_E_FORMAT, "v.gguf: tokenizer.hf.merges is not an array of strings");
    refuse_hf_key("llama", put_merge, RP_E_FORMAT, "v.gguf: merge 0 is not a pair of strings");
    refuse_hf_key("llama", put_no_tokens, RP_E_FORMAT, "v.gguf: merge 0, 'b a', is not of tokens");
    refuse_hf_key("gpt2", put_expressions, RP_E_FORMAT,
                  "v.gguf: tokenizer.hf.expressions is not a list of at most 12 strings");
    refuse_hf_key("gpt2", put_pre, RP_E_UNSUPPORTED,
                  "pre-tokenizer 'none' is not supported (docs/models.md has the names)");
    refuse_hf_key("gemma4", put_nothing, RP_E_FORMAT, "v.gguf: tokenizer.ggml.merges is missing");
}

/* ---- adapters ---- */

typedef struct Matrix {
    const char *name;
    int64_t     ne[2];
    uint32_t    type; /* of GGUF */
    bool        deep; /* a third dimension of 2 */
} Matrix;

static Matrix matrix(const char *name, int64_t ne0, int64_t ne1, uint32_t type) {
    return (Matrix){
        .name = name,
        .ne   = {ne0, ne1},
        .type = type,
    };
}

/* Writes an adapter of up to two matrices of zeros. */
static void write_adapter(const char *path, const Matrix *x, Key changed) {
    static const Key keys[] = {
        {.key = "general.type",         .type = RP_GGUF_STRING, .text = "adapter"},
        {.key = "general.architecture", .type = RP_GGUF_STRING, .text = "llama"  },
        {.key = "adapter.type",         .type = RP_GGUF_STRING, .text = "lora"   },
        {.key = "adapter.lora.alpha",   .type = RP_GGUF_F32,    .real = 4.0f     }
    };
    Bytes    b = {0};
    uint64_t n = 0, offset = 0;
    while (n < 2 && x[n].name != NULL) n++;
    put_keys(&b, n, keys, 4, &changed);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t ne2 = x[i].deep ? 2 : 1;
        put_string(&b, x[i].name);
        put_u32(&b, 3);
        put_u64(&b, (uint64_t)x[i].ne[0]), put_u64(&b, (uint64_t)x[i].ne[1]), put_u64(&b, ne2);
        put_u32(&b, x[i].type);
        put_u64(&b, offset);
        offset += ((uint64_t)(x[i].ne[0] * x[i].ne[1]) * ne2 * 4 + 31) / 32 * 32;
    }
    put_data(&b, (size_t)offset);
    FILE *f = fopen(path, "wb");
    cr_assert(f != NULL && fwrite(b.p, 1, b.n, f) == b.n && fclose(f) == 0, "%s", path);
    free(b.p);
}

/* The model takes a sound adapter after it has refused this one. */
static void refuse_adapter(RpModel *m, Matrix a, Matrix b, Key changed, RpStatus status, const char *text) {
    const size_t bytes = rp_model_info(m)->weight_bytes;
    char         path[64];
    snprintf(path, sizeof path, "/tmp/rp-refusals-%d.gguf", (int)getpid());
    write_adapter(path, (Matrix[]){a, b}, changed);
    REFUSED(rp_model_add_adapter(m, path, 1.0f), status, text);
    cr_expect_eq(rp_model_info(m)->weight_bytes, bytes);
    remove(path);
}

#define W "blk.0.attn_q.weight"

Test(refusals, adapters) {
    enum { F32 = 0, I32 = 26, FOREIGN = 15 /* Q8_K, which is not computed with */ };
    RpModel            *m = golden_open_tiny("llama-f32");
    const RpGgufTensor *w = rp_gguf_find_tensor(rp_model_file(m), W);
    cr_assert_not_null(w);
    const int64_t in = w->view.ne[0], out = w->view.ne[1];
    const Matrix  a = matrix(W ".lora_a", in, 2, F32), b = matrix(W ".lora_b", 2, out, F32), none = {0};
    const Key     sound = {0};
    char          path[64];
    refuse_adapter(m, none, none, sound, RP_E_FORMAT, "there are no tensors in this adapter");
    refuse_adapter(m, a, none, sound, RP_E_FORMAT, "tensor " W ".lora_a has no .lora_b");
    refuse_adapter(m, b, none, sound, RP_E_FORMAT, "tensor " W ".lora_b has no .lora_a");
    refuse_adapter(m, a, matrix(W, 2, out, F32), sound, RP_E_FORMAT, "has no .lora_b");
    refuse_adapter(m, matrix(W, in, 2, F32), b, sound, RP_E_UNSUPPORTED, "tensor " W " is no .lora_a or .lora_b");
    refuse_adapter(m, matrix(W ".lora_a", in + 1, 2, F32), b, sound, RP_E_SHAPE,
                   W ".lora_a [65,2] and lora_b [2,64]: must be [64,rank] and [rank,64] for " W
                     " [64,64] of the model");
    refuse_adapter(m, a, matrix(W ".lora_b", 3, out, F32), sound, RP_E_SHAPE, "for " W);
    refuse_adapter(m, a, matrix(W ".lora_b", 2, out - 1, F32), sound, RP_E_SHAPE, "for " W);
    refuse_adapter(m, matrix(W ".lora_a", 256, 2, FOREIGN), b, sound, RP_E_UNSUPPORTED,
                   "tensor " W ".lora_a is Q8_K: must be a matrix of a float or weight type");
    refuse_adapter(m, matrix(W ".lora_a", in, 2, I32), b, sound, RP_E_UNSUPPORTED,
                   "tensor " W ".lora_a is I32: must be a matrix of a float or weight type");
    Matrix deep = a;
    deep.deep   = true;
    refuse_adapter(m, deep, b, sound, RP_E_UNSUPPORTED,
                   "tensor " W
                   ".lora_a is F32 of more than two dimensions: must be a matrix of a float or weight type");
    refuse_adapter(m, a, matrix(W ".lora_b", 2, out, I32), sound, RP_E_UNSUPPORTED,
                   "tensor " W ".lora_b is I32: must be a matrix of a float or weight type");
    refuse_adapter(m, matrix("blk.9.attn_q.weight.lora_a", in, 2, F32),
                   matrix("blk.9.attn_q.weight.lora_b", 2, out, F32), sound, RP_E_FORMAT,
                   "tensor blk.9.attn_q.weight.lora_a: " GOLDEN_DIR
                   "tiny/llama-f32.gguf has no tensor blk.9.attn_q.weight");
    refuse_adapter(
        m, matrix("token_embd.weight.lora_a", in, 2, F32), matrix("token_embd.weight.lora_b", 2, 64, F32), sound,
        RP_E_UNSUPPORTED,
        "tensor token_embd.weight.lora_a: only matrices of layers and the output matrix can be "
        "adapted, no embedding, norm, convolution, matrices of experts or tensor that joins several matrices");
    refuse_adapter(m, a, b, REAL("adapter.lora.alpha", INFINITY), RP_E_FORMAT, "adapter.lora.alpha is inf");
    refuse_adapter(m, a, b, TEXT("adapter.type", "ia3"), RP_E_FORMAT, "adapter.type is 'ia3': must be 'lora'");
    refuse_adapter(m, a, b, WHOLE("adapter.alora.invocation_tokens", 1), RP_E_UNSUPPORTED,
                   "activated adapters are not supported");
    snprintf(path, sizeof path, "/tmp/rp-refusals-%d-sound.gguf", (int)getpid());
    write_adapter(path, (Matrix[]){a, b}, sound);
    OK(rp_model_add_adapter(m, path, 1.0f));
    remove(path);
    rp_model_free(m);
}

Test(refusals, tensors_that_cannot_be_converted) {
    char in[64], out[64];
    snprintf(in, sizeof in, "/tmp/rp-refusals-%d-in.gguf", (int)getpid());
    snprintf(out, sizeof out, "/tmp/rp-refusals-%d-out.gguf", (int)getpid());
    write_adapter(in, (Matrix[]){matrix("a", 256, 2, 15), {0}}, (Key){0});
    REFUSED(
        rp_requantize(in, out, "Q8_0", NULL, NULL), RP_E_FORMAT,
        "-in.gguf: this is a LoRA adapter, not a model: give it with --lora beside its model (rp_model_add_adapter)");
    write_adapter(in, (Matrix[]){matrix("a", 256, 2, 15), {0}}, TEXT("general.type", "model"));
    REFUSED(rp_requantize(in, out, "Q8_0", NULL, NULL), RP_E_UNSUPPORTED,
            "tensor a is Q8_K, which cannot be converted");
    cr_expect_neq(access(out, F_OK), 0);
    remove(in);
}

/* ---- weights that a type cannot hold ---- */

/* Two rows of one matrix are damaged: the first is named, also where threads convert parts of a batch. */
Test(refusals, weights_that_are_not_finite_are_not_quantised) {
    enum { BAD_ROW = 5, OTHER_ROW = 11 };
    char in[64], out[64];
    snprintf(in, sizeof in, "/tmp/rp-refusals-%d-in.gguf", (int)getpid());
    snprintf(out, sizeof out, "/tmp/rp-refusals-%d-out.gguf", (int)getpid());
    RpModel            *m    = golden_open_tiny("llama-f32");
    const RpGgufFile   *file = rp_model_file(m);
    const RpGgufTensor *w    = rp_gguf_find_tensor(file, W);
    const size_t        n    = (size_t)rp_gguf_bytes(file);
    unsigned char      *copy = malloc(n);
    FILE               *f    = fopen(rp_gguf_path(file), "rb");
    cr_assert(w != NULL && w->view.dtype == RP_F32 && copy != NULL && f != NULL && fread(copy, 1, n, f) == n);
    fclose(f);
    unsigned char *data = memmem(copy, n, w->view.data, w->bytes);
    cr_assert_not_null(data);
    const float bad[] = {NAN, INFINITY};
    memcpy(data + BAD_ROW * w->view.nb[1] + 3 * sizeof *bad, &bad[0], sizeof *bad);
    memcpy(data + OTHER_ROW * w->view.nb[1], &bad[1], sizeof *bad);
    f = fopen(in, "wb");
    cr_assert(f != NULL && fwrite(copy, 1, n, f) == n && fclose(f) == 0);
    REFUSED(rp_requantize(in, out, "Q8_0", NULL, NULL), RP_E_ARG,
            "tensor " W ", row 5: element 3 of a row is not finite: q8_0 cannot hold it");
    cr_expect_neq(access(out, F_OK), 0, "a file is left behind");
    remove(in);
    free(copy);
    rp_model_free(m);
}
