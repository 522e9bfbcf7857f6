/* Model files that are refused: a tiny model is changed, or a file is written byte by byte (gguf_writer.h). Every error
 * text is compared. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "model/arch_table.h"

Test(refused_models, refuses_an_unknown_architecture_by_name) {
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny("llama-q8_0", &n);
    char    *at   = memmem(data, n, "general.architecture", 20);
    memcpy(at + 20 + 4 + 8, "lambs", 5);
    cr_assert_eq(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED);
    cr_expect_str_eq(rp_last_error(),
                     "m.gguf: architecture 'lambs' is not supported (docs/models.md lists those that are)");
    cr_assert_null(m);
    free(data);
}

/* A file with the name of an architecture and nothing else. */
static void refuse_arch(const char *arch, const char *text) {
    RpModel *m;
    Bytes    b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.architecture", 8);
    put_string(&b, arch);
    cr_assert_eq(rp_model_open_memory(b.p, b.n, "test.gguf", &m), RP_E_UNSUPPORTED);
    cr_expect(strncmp(rp_last_error(), text, strlen(text)) == 0, "%s", rp_last_error());
    free(b.p);
}

Test(refused_models, says_what_a_known_family_needs) {
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny("llama-q8_0", &n);
    char    *at   = memmem(data, n, "general.architecture", 20);
    memcpy(at + 20 + 4 + 8, "rwkv7", 5);
    cr_assert_eq(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED);
    cr_expect_str_eq(rp_last_error(), "m.gguf: architecture 'rwkv7' is not supported: it needs the recurrence of RWKV");
    refuse_arch("gemma3n",
                "test.gguf: architecture 'gemma3n' is not supported: it needs AltUp, LAuReL, and activations "
                "that are cut by their mean and deviation");
    for (int i = 0; rp_arch_name(i) != NULL; i++)
        cr_expect_null(rp_arch_missing(rp_arch_name(i), strlen(rp_arch_name(i))), "%s is supported", rp_arch_name(i));
    free(data);
}

/* Files of llama.cpp that are no models, by general.type. */
Test(refused_models, refuses_files_that_are_no_models_by_their_kind) {
    static const struct {
        const char *type, *want;
    } kinds[] = {
        {"adapter", "a.gguf: this is a LoRA adapter, not a model: give it with --lora beside its model"               },
        {"imatrix", "a.gguf: this is an importance matrix, not a model: reprise quantize takes it with --imatrix"     },
        {"mmproj",  "a.gguf: this is a projector of images or sound, not a model: give the file of its language model"},
        {"context", "a.gguf: this is the context of a conversation, not a model"                                      },
        {"vocab",   "a.gguf: this is a vocabulary, not a model: the file has no weights"                              },
        {"model",   "a.gguf: this is a vocabulary, not a model: the file has no weights"                              },
    };
    const char *const token = "a";
    RpModel          *m;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        Bytes b = {0};
        put_header(&b, 3, 0, 3);
        put_key_string(&b, "general.type", kinds[i].type);
        put_key_string(&b, "general.architecture", "llama");
        put_key_strings(&b, "tokenizer.ggml.tokens", &token, 1);
        cr_assert_eq(rp_model_open_memory(b.p, b.n, "a.gguf", &m), RP_E_FORMAT, CASE(i));
        cr_expect(strncmp(rp_last_error(), kinds[i].want, strlen(kinds[i].want)) == 0, "%s", rp_last_error());
        free(b.p);
    }
}

/* Changes the u32 value of a key of a tiny model; opening it must fail. */
static void refuse_value_of(const char *name, const char *key, uint32_t value, RpStatus status, const char *text) {
    char     find[128]; /* the key, followed by the type u32 */
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny(name, &n);
    snprintf(find, sizeof find, "%s%c", key, (char)RP_GGUF_U32);
    char *at = memmem(data, n, find, strlen(find));
    cr_assert_not_null(at, "%s", key);
    memcpy(at + strlen(key) + 4, &value, sizeof value);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), status, text);
    free(data);
}

static void refuse_value(const char *key, uint32_t value, RpStatus status, const char *text) {
    refuse_value_of("llama-q8_0", key, value, status, text);
}

Test(refused_models, refuses_impossible_hyperparameters) {
    refuse_value("llama.block_count", 0, RP_E_FORMAT, "m.gguf: llama.block_count is 0, must be from 1 to 4096");
    refuse_value("llama.block_count", 3, RP_E_FORMAT, "m.gguf: tensor blk.2.attn_norm.weight is missing");
    refuse_value("llama.block_count", 1u << 31, RP_E_FORMAT, "llama.block_count is 2147483648");
    refuse_value("llama.attention.head_count", 3, RP_E_FORMAT, "3 heads are not a multiple of 2 key heads");
    refuse_value("llama.attention.head_count", 8, RP_E_SHAPE,
                 "tensor blk.0.attn_q.weight is q8_0 [64,64,1,1], must be [64,128]");
    refuse_value("llama.embedding_length", 32, RP_E_SHAPE,
                 "tensor token_embd.weight is q8_0 [64,64,1,1], must be [32,any]");
    refuse_value("llama.attention.value_length", 8, RP_E_UNSUPPORTED,
                 "m.gguf: heads of 16 for keys and 8 for values are not supported");
    refuse_value("llama.feed_forward_length", 128, RP_E_SHAPE, "tensor blk.0.ffn_gate.weight");
    refuse_value("tokenizer.ggml.bos_token_id", 64, RP_E_FORMAT,
                 "tokenizer.ggml.bos_token_id is 64, the vocabulary has 64 tokens");
}

Test(refused_models, refuses_impossible_expert_parameters) {
    refuse_value_of("qwen3moe-mix", "qwen3moe.expert_used_count", 17, RP_E_FORMAT,
                    "m.gguf: qwen3moe.expert_used_count is 17, must be from 1 to 16");
    refuse_value_of("qwen3moe-mix", "qwen3moe.expert_used_count", 0, RP_E_FORMAT, "expert_used_count is 0");
    refuse_value_of("qwen3moe-mix", "qwen3moe.expert_count", 0, RP_E_FORMAT, "expert_count is 0");
    refuse_value_of("qwen3moe-mix", "qwen3moe.expert_count", 15, RP_E_SHAPE,
                    "tensor blk.0.ffn_gate_inp.weight is f32 [64,16,1,1], must be [64,15]");
    refuse_value_of("qwen3moe-mix", "qwen3moe.expert_feed_forward_length", 64, RP_E_SHAPE,
                    "tensor blk.0.ffn_gate_exps.weight is");
    refuse_value_of("deepseek2-mix", "deepseek2.expert_group_count", 3, RP_E_FORMAT,
                    "m.gguf: 4 of 16 experts from 2 of 3 groups is not possible");
    refuse_value_of("deepseek2-mix", "deepseek2.expert_gating_func", 9, RP_E_UNSUPPORTED,
                    "m.gguf: deepseek2.expert_gating_func 9 is not supported (there are 1: softmax, 2: sigmoid, 3: "
                    "softmax of the chosen)");
    refuse_value_of("deepseek2-mix", "deepseek2.leading_dense_block_count", 5, RP_E_FORMAT,
                    "m.gguf: 5 dense layers of 2");
    refuse_value_of("deepseek2-mix", "deepseek2.attention.key_length_mla", 16, RP_E_FORMAT,
                    "m.gguf: heads of 16 with 16 rotated dimensions");
    refuse_value_of("deepseek2-mix", "deepseek2.attention.q_lora_rank", 65537, RP_E_FORMAT,
                    "m.gguf: a query rank of 65537 is not possible");
    refuse_value_of("deepseek2-temperature", "deepseek2.attention.temperature_length", 0, RP_E_FORMAT,
                    "m.gguf: deepseek2.attention.temperature_length is 0, must be from 1 to 2147483647");
    refuse_value_of("deepseek2-mix", "deepseek2.attention.kv_lora_rank", 32, RP_E_SHAPE,
                    "tensor blk.0.attn_kv_a_mqa.weight is");
}

Test(refused_models, refuses_impossible_caches_of_layers) {
    static const char gemma4[] = "gemma4-f32";
    refuse_value_of(gemma4, "gemma4.attention.shared_kv_layers", 5, RP_E_FORMAT, "m.gguf: 5 of 6 layers share a cache");
    refuse_value_of(gemma4, "gemma4.embedding_length_per_layer_input", 65537, RP_E_FORMAT,
                    "m.gguf: embeddings of layers of 65537");
    refuse_value_of(gemma4, "gemma4.rope.dimension_count_swa", 3, RP_E_FORMAT,
                    "m.gguf: gemma4.rope.dimension_count_swa is 3, must be even");
    refuse_value_of(gemma4, "gemma4.attention.value_length_swa", 4, RP_E_UNSUPPORTED,
                    "for keys and 4 for values are not supported");
    refuse_value_of("qwen2moe-f32", "qwen2moe.expert_shared_feed_forward_length", 1 << 25, RP_E_FORMAT,
                    "m.gguf: shared experts with a feed-forward length of 33554432");
}

/* An element of an array: behind key, type, type of the elements and their number. */
Test(refused_models, refuses_impossible_arrays_of_layers) {
    static const char key[] = "gemma4.attention.head_count_kv";
    RpModel          *m;
    size_t            n;
    char             *data = golden_read_tiny("gemma4-f32", &n);
    char             *at   = memmem(data, n, key, sizeof key - 1);
    cr_assert_not_null(at);
    memset(at + sizeof key - 1 + 4 + 4 + 8, 0, 4);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: gemma4.attention.head_count_kv has 0 for layer 0, must be from 1 to ");
    at += sizeof key - 1 + 4 + 4 + 8;
    at[0] = at[4];
    at[4 * 5] ^= 3; /* 1 or 2 */
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: layer 5 cannot read the cache of layer ");
    at[4 * 5] ^= 3;
    memcpy(memmem(data, n, "sliding_window_pattern", 22), "S", 1); /* the same for all layers */
    memcpy((char *)memmem(data, n, "block_count", 11) + 11 + 4, &(uint32_t){5}, 4);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT, "m.gguf: an array of 6 elements for 5 layers");
    free(data);
}

Test(refused_models, refuses_impossible_numbers_of_layers) {
    refuse_value_of("glm4moe-f32", "glm4moe.nextn_predict_layers", 3, RP_E_FORMAT,
                    "m.gguf: glm4moe.nextn_predict_layers is 3 of 3 layers");
    refuse_value_of("glm4moe-f32", "glm4moe.nextn_predict_layers", 0, RP_E_UNSUPPORTED,
                    "m.gguf: architecture glm4moe does not use 4 of the tensors, first blk.2.nextn.eh_proj.weight");
    refuse_value_of(
        "ernie4_5-moe-f32", "ernie4_5-moe.interleave_moe_layer_step", 2, RP_E_UNSUPPORTED,
        "m.gguf: ernie4_5-moe.interleave_moe_layer_step is 2: experts in some layers only are not supported");
}

/* Puts empty tokens in front of those of a tiny model, so that its array has 64 + `more`. */
static size_t add_tokens(char *data, size_t n, size_t more) {
    enum { KEY = 21 + 4 + 4 }; /* the key, its type and that of the elements */
    char    *at    = memmem(data, n, "tokenizer.ggml.tokens", 21);
    uint64_t count = 64 + more;
    cr_assert_not_null(at);
    at += KEY;
    memcpy(at, &count, sizeof count);
    at += sizeof count;
    memmove(at + 8 * more, at, (size_t)(data + n - at));
    memset(at, 0, 8 * more);
    return n + 8 * more;
}

/* The sizes are compared first: the tokenizer would refuse its 64 types, but not before it had copied all tokens. */
Test(refused_models, compares_the_vocabulary_with_the_embedding_before_it_reads_the_tokens) {
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny("llama-f32", &n);
    cr_assert_lt(n, (size_t)1 << 19, "there is no room for more tokens");
    REFUSED(rp_model_open_memory(data, add_tokens(data, n, 1 << 16), "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: tokenizer.ggml.tokens has 65600 elements, tensor token_embd.weight [64,64] has 64 rows");
    cr_assert_null(m);
    free(data);
}

/* Renaming the key makes it absent. */
Test(refused_models, refuses_latent_attention_without_lengths_of_heads) {
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny("deepseek2-mix", &n);
    char    *at   = memmem(data, n, "attention.key_length_mla", 24);
    cr_assert_not_null(at);
    at[0] = 'A';
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: deepseek2.attention.key_length_mla is missing, and there is no tensor blk.0.attn_kv_b.weight");
    free(data);
}

Test(refused_models, refuses_a_vector_of_another_type) {
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny("llama-q4_0", &n);
    char    *at   = memmem(data, n, "blk.1.ffn_norm.weight", 21);
    cr_assert_not_null(at);
    at[21 + 4 + 8] = 2; /* Q4_0 */
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_DTYPE,
            "m.gguf: tensor blk.1.ffn_norm.weight is q4_0, must be f32, as every vector");
    free(data);
}

/* As the gate of shared experts in files of Qwen3-Next, and the score of rerankers. The halves are those of the f32. */
Test(refused_models, vectors_in_f16_and_bf16_become_f32) {
    static uint8_t raw[256];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        RpModel    *m;
        RpGgufFile *f;
        size_t      n;
        char       *data = golden_read_tiny("llama-q4_0", &n);
        char       *at   = memmem(data, n, "blk.1.ffn_norm.weight", 21);
        cr_assert_not_null(at, "bf16: %d", bf16);
        at[21 + 4 + 8] = bf16 ? 30 : 1;
        OK(rp_gguf_open_memory(data, n, "m.gguf", &f));
        const RpGgufTensor *t = rp_gguf_find_tensor(f, "blk.1.ffn_norm.weight");
        float               want[64];
        cr_assert_eq(t->view.ne[0], 64, "bf16: %d", bf16);
        memcpy(raw, t->view.data, 2 * 64);
        rp_dequantize_row(bf16 ? RP_BF16 : RP_F16, raw, 64, want);
        rp_gguf_close(f);
        OK(rp_model_open_memory(data, n, "m.gguf", &m));
        t = rp_gguf_find_tensor(rp_model_file(m), "blk.1.ffn_norm.weight");
        cr_expect(t->view.dtype == RP_F32 && t->bytes == sizeof want && memcmp(t->view.data, want, sizeof want) == 0,
                  "%s", bf16 ? "bf16" : "f16");
        rp_model_free(m);
        free(data);
    }
}

Test(refused_models, refuses_a_tensor_of_an_unsupported_type) {
    RpModel *m;
    size_t   n;
    char    *data = golden_read_tiny("llama-q4_0", &n);
    char    *at   = memmem(data, n, "blk.1.ffn_norm.weight", 21);
    cr_assert_not_null(at);
    at[21 + 4 + 8] = 25; /* behind its number of dimensions and its length: I16, which is no type of weights */
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED,
            "m.gguf: tensor blk.1.ffn_norm.weight is of type I16 (25), which is not supported");
    free(data);
}
