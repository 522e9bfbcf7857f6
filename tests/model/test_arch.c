/* The kinds of layers: how row and file give the kind of each layer, and graphs of kinds that no family has in every
 * place. Such a graph is made by another row for the weights of a tiny model, and compared with a model of usual kinds
 * that computes the same. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "model/model.h"

#include <math.h>

/* The model borrows *data, which the caller frees after it. */
static RpModel *open_tiny(const char *name, char **data) {
    size_t   n;
    RpModel *m;
    *data = golden_read_tiny(name, &n);
    OK(rp_model_open_memory(*data, n, name, &m));
    return m;
}

/* Gives the model another row, which must outlive it, and finds the tensors that this row asks for. */
static RpStatus use_row(RpModel *m, const ArchRow *row) {
    m->config.arch   = row;
    m->config.layers = row->layers;
    memset(m->layers, 0, (size_t)m->config.n_layer * sizeof *m->layers);
    return rp_model_find_weights(m);
}

enum { N_IDS = 12, N_ROOM = 128 };

/* The logits after N_IDS tokens, 8 of them as a prefill. */
static void logits_of(const RpModel *m, const char *passes, float *out) {
    static const int32_t ids[N_IDS] = {3, 17, 5, 40, 8, 21, 9, 11, 30, 4, 19, 7};
    RpSession           *s;
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 32, .n_threads = 2, .passes = passes}, &s));
    OK(rp_session_prefill(s, ids, 8, NULL, NULL));
    for (int i = 8; i < N_IDS; i++) OK(rp_session_step(s, ids[i]));
    cr_assert_leq(rp_model_info(m)->n_vocab, N_ROOM);
    memcpy(out, rp_session_logits(s), (size_t)rp_model_info(m)->n_vocab * sizeof(float));
    rp_session_free(s);
}

static void expect_same(const RpModel *a, const RpModel *b, const char *what) {
    static const char *const passes[] = {"", "-all"};
    for (int i = 0; i < 2; i++) {
        float x[N_ROOM], y[N_ROOM];
        logits_of(a, passes[i], x);
        logits_of(b, passes[i], y);
        cr_expect_arr_eq(x, y, (size_t)rp_model_info(a)->n_vocab * sizeof(float), "%s, passes '%s'", what, passes[i]);
    }
}

/* ---- the kind of each layer ---- */

Test(arch, every_row_attends_and_has_positions) {
    int n = 0;
    for (const char *name; (name = rp_arch_name(n)) != NULL; n++) {
        const ArchRow *row = rp_arch_find(name, strlen(name));
        cr_assert_not_null(row, "%s", name);
        cr_expect_str_eq(row->name, name, "two rows are named %s", name);
        cr_expect_neq(row->layers.attention.kind, ATTENTION_NONE, "%s", name);
        cr_expect(row->layers.position.kind != POSITION_NONE ||
                      rp_attention_is_recurrent(row->layers.attention.without_heads) || row->embd_positions,
                  "%s: nothing tells positions apart", name);
    }
    cr_expect_gt(n, 1);
}

Test(arch, gemma3_has_a_full_layer_after_five_with_a_window) {
    char    *data;
    RpModel *m = open_tiny("gemma3-f32", &data);
    for (int i = 0; i < 7; i++) {
        const LayerKind k = rp_config_layer(&m->config, i);
        cr_expect_eq(k.attention, i == 5 ? ATTENTION_FULL : ATTENTION_WINDOW, "layer %d", i);
        cr_expect_eq(k.window, i == 5 ? 0 : 8, "layer %d", i);
        cr_expect_eq(k.rope.freq_base, i == 5 ? 1e6f : 1e4f, "layer %d", i);
        cr_expect_eq(k.rope_factors, i == 5, "layer %d", i);
        cr_expect_eq(k.rope.mode, RP_ROPE_NEOX, CASE(i));
    }
    cr_expect_eq(rp_model_info(m)->n_layer_local, 6);
    rp_model_free(m), free(data);
}

Test(arch, smollm3_has_no_rope_in_each_fourth_layer) {
    char    *data;
    RpModel *m = open_tiny("smollm3-f32", &data);
    for (int i = 0; i < 5; i++) {
        const LayerKind k = rp_config_layer(&m->config, i);
        cr_expect_eq(k.attention, ATTENTION_FULL, CASE(i));
        cr_expect_eq(k.position, i == 3 ? POSITION_NONE : POSITION_NORM, "layer %d", i);
        cr_expect_eq(k.feed_forward, FEED_FORWARD_DENSE, CASE(i));
    }
    rp_model_free(m), free(data);
}

Test(arch, the_first_layers_of_deepseek2_are_dense) {
    char    *data;
    RpModel *m = open_tiny("deepseek2-lite", &data);
    for (int i = 0; i < 26; i++) {
        const LayerKind k = rp_config_layer(&m->config, i);
        cr_expect_eq(k.attention, ATTENTION_LATENT, CASE(i));
        cr_expect_eq(k.feed_forward, i == 0 ? FEED_FORWARD_DENSE : FEED_FORWARD_EXPERTS, "layer %d", i);
    }
    rp_model_free(m), free(data);
}

/* The metadata of a gemma3 of 4 layers without tensors. pattern: elements of the array of booleans, or, if there are
 * none, the number n of sliding_window_pattern. */
static RpStatus read_pattern(const char *pattern, size_t n_pattern, uint32_t n, ModelConfig *c, RpGgufFile **f,
                             Bytes *b) {
    static const char *const counts[] = {"gemma3.context_length",       "gemma3.embedding_length",
                                         "gemma3.block_count",          "gemma3.feed_forward_length",
                                         "gemma3.attention.head_count", "gemma3.attention.sliding_window"};
    static const uint32_t    values[] = {64, 32, 4, 32, 2, 8};
    const char *const        key      = "gemma3.attention.sliding_window_pattern";
    const float              eps      = 1e-5f;
    put_header(b, 3, 0, 9);
    put_key_string(b, "general.architecture", "gemma3");
    for (int i = 0; i < 6; i++) put_key_u32(b, counts[i], values[i]);
    put_key(b, "gemma3.attention.layer_norm_rms_epsilon", RP_GGUF_F32);
    put_bytes(b, &eps, sizeof eps);
    if (n_pattern == 0)
        put_key_u32(b, key, n);
    else {
        put_key(b, key, RP_GGUF_ARRAY);
        put_u32(b, RP_GGUF_BOOL);
        put_u64(b, n_pattern);
        put_bytes(b, pattern, n_pattern);
    }
    OK(rp_gguf_open_memory(b->p, b->n, "m.gguf", f));
    return rp_config_read(*f, c);
}

static void expect_windows(const char *pattern, size_t n_pattern, uint32_t n, const char *want) {
    Bytes       b = {0};
    RpGgufFile *f;
    ModelConfig c;
    OK(read_pattern(pattern, n_pattern, n, &c, &f, &b));
    for (int i = 0; i < 4; i++) {
        const LayerKind k = rp_config_layer(&c, i);
        cr_expect_eq(k.attention, want[i] == 'w' ? ATTENTION_WINDOW : ATTENTION_FULL, "layer %d of %s", i, want);
        cr_expect_eq(k.window, want[i] == 'w' ? 8 : 0, "layer %d of %s", i, want);
    }
    rp_gguf_close(f);
    free(b.p);
}

Test(arch, the_file_says_which_layers_have_a_window) {
    Bytes       b = {0};
    RpGgufFile *f;
    ModelConfig c;
    expect_windows("\1\0\0\1", 4, 0, "wffw");
    expect_windows(NULL, 0, 3, "wwfw");
    expect_windows(NULL, 0, 1, "ffff");
    expect_windows(NULL, 0, 0, "wwww");
    REFUSED(read_pattern("\1\0", 2, 0, &c, &f, &b), RP_E_FORMAT,
            "m.gguf: gemma3.attention.sliding_window_pattern has 2 elements for 4 layers");
    rp_gguf_close(f);
    free(b.p);
}

/* ---- kinds that no family has everywhere ---- */

/* The same as attention with an output matrix of zeros: x + 0 has the bits of x. */
Test(arch, a_layer_without_attention_is_its_feed_forward) {
    char               *data_none, *data_zero;
    RpModel            *none = open_tiny("llama-f32", &data_none), *zero = open_tiny("llama-f32", &data_zero);
    RpSessionMemory     memory, memory_zero;
    ComputeGraph       *g;
    ArchRow             row  = *none->config.arch;
    const RpGgufTensor *o    = zero->layers[1].o;
    row.layers.attention.nth = ATTENTION_NONE;
    row.layers.attention.n   = 2;
    memset(o->view.data, 0, o->bytes);
    OK(use_row(none, &row));
    cr_expect_not_null(none->layers[0].q);
    cr_expect_null(none->layers[1].q);
    cr_expect_null(none->layers[1].attn_norm);
    expect_same(none, zero, "no attention in layer 1");
    OK(rp_model_graph(none, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8}, &g));
    cr_expect_not_null(rp_graph_find(g, "k.0"));
    cr_expect_null(rp_graph_find(g, "k.1"));
    rp_graph_free(g);
    OK(rp_session_memory(none, &(RpSessionOptions){.n_ctx = 32}, &memory));
    OK(rp_session_memory(zero, &(RpSessionOptions){.n_ctx = 32}, &memory_zero));
    cr_expect_eq(2 * memory.kv, memory_zero.kv);
    rp_model_free(none), rp_model_free(zero);
    free(data_none), free(data_zero);
}

/* A frequency scale of 0 rotates by no angle, with every kind of attention and norm of q and k. */
Test(arch, a_layer_without_rope_is_one_that_rotates_by_zero) {
    static const char *const names[] = {"llama-f32",   "qwen3-f32",     "gemma3-f32",   "olmoe-f32",
                                        "gpt-oss-f32", "deepseek2-f32", "deepseek2-mix"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char    *data_none, *data_zero;
        RpModel *none = open_tiny(names[i], &data_none), *zero = open_tiny(names[i], &data_zero);
        float    with[N_ROOM], without[N_ROOM];
        logits_of(none, "", with);
        none->config.layers.position.kind = POSITION_NONE;
        for (int k = 0; k < 2; k++) {
            RpRopeParams *p = k == 0 ? &zero->config.rope : &zero->config.rope_window;
            p->freq_scale = p->ext_factor = 0.0f;
            p->attn_factor                = 1.0f;
        }
        expect_same(none, zero, names[i]);
        logits_of(none, "", without);
        cr_expect_neq(memcmp(with, without, sizeof with[0] * 8), 0, "%s: RoPE makes no difference", names[i]);
        rp_model_free(none), rp_model_free(zero);
        free(data_none), free(data_zero);
    }
}

Test(arch, a_model_without_any_attention_is_refused) {
    char         *data;
    RpModel      *m   = open_tiny("llama-f32", &data);
    ArchRow       row = *m->config.arch;
    ComputeGraph *g;
    row.layers.attention.kind = ATTENTION_NONE;
    OK(use_row(m, &row));
    REFUSED(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8}, &g), RP_E_UNSUPPORTED,
            "llama: no layer has attention");
    rp_model_free(m), free(data);
}

Test(arch, options_of_a_graph_that_are_out_of_range_are_refused) {
    static const struct {
        RpModelGraphOptions options;
        const char         *text;
    } refused[] = {
        {{.n_tok = 1, .n_ctx = 8, .n_recent = -1},                                                "room for -1 recent tokens: must be from 0 to 1048576"  },
        {{.n_tok = 1, .n_ctx = 8, .n_recent = 1048577},                                           "room for 1048577 recent tokens"                        },
        {{.n_tok = 1, .n_ctx = 8, .n_states = -1},                                                "room for -1 recurrent states: must be from 0 to 4096"  },
        {{.n_tok = 1, .n_ctx = 8, .n_states = 4097},                                              "room for 4097 recurrent states"                        },
        {{.n_tok = 0, .n_ctx = 8},                                                                "a graph of 0 tokens, a context of 8 and 0 outputs"     },
        {{.n_tok = 1, .n_ctx = 0},                                                                "a graph of 1 tokens, a context of 0 and 0 outputs"     },
        {{.n_tok = 1, .n_ctx = 8, .n_out = -1},                                                   "a graph of 1 tokens, a context of 8 and -1 outputs"    },
        {{.n_tok = 2, .n_ctx = 8, .draws = true},                                                 "a graph that samples: 2 tokens, 0 outputs"             },
        {{.n_tok = 1, .n_ctx = 8, .draws = 1, .n_out = 2},                                        "a graph that samples: 1 tokens, 2 outputs"             },
        {{.n_tok = 1, .n_ctx = 8, .kv_type = RP_BF16},                                            "a KV cache of bf16: must be f16 or q8_0"               },
        {{.n_tok = 1, .n_ctx = 8, .draws = 1, .n_seq = 2},                                        "a graph that samples: 1 tokens, 0 outputs, 2 sequences"},
        {{.n_tok = 1, .n_ctx = 8, .block = 32},                                                   "a graph of 0 blocks of 32 positions must have n_seq"   },
        {{.n_tok = 1, .n_ctx = 8, .n_seq = -1},                                                   "a graph of -1 sequences: must be from 0 to 4096"       },
        {{.n_tok = 1, .n_ctx = 8, .n_seq = 1, .block = 33},                                       "blocks of 33 positions: must be a multiple of 32"      },
        {{.n_tok = 1, .n_ctx = 8, .n_seq = 1, .block = 32},                                       "a cache of 0 blocks: must be from 1 to 33554432"       },
        {{.n_tok = 1, .n_ctx = 8, .n_seq = 1, .block = 32, .n_blocks = 1, .n_window_blocks = -1},
         "caches of -1 blocks for layers with a window: must be from 0 to 33554432"                                                                       },
    };
    char         *data;
    RpModel      *m = open_tiny("llama-f32", &data);
    ComputeGraph *g;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        cr_expect_eq(rp_model_graph(m, &refused[i].options, &g), RP_E_ARG, CASE(i));
        cr_expect_not_null(strstr(rp_last_error(), refused[i].text), "%s, not: %s", rp_last_error(), refused[i].text);
        cr_expect_null(g, CASE(i));
    }
    rp_model_free(m), free(data);
}

Test(arch, a_context_beyond_the_embeddings_of_positions_is_refused) {
    char         *data;
    RpModel      *m = open_tiny("gpt2-f32", &data);
    ComputeGraph *g;
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 128}, &g));
    rp_graph_free(g);
    REFUSED(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 129}, &g), RP_E_ARG,
            "a context of 129: must be at most 128, the positions that the model has embeddings of");
    rp_model_free(m), free(data);
}

/* Tensors of a file that opens, changed in memory. */
Test(arch, weights_of_integers_and_endless_vocabularies_are_refused) {
    char         *data;
    RpModel      *m    = open_tiny("llama-f32", &data);
    RpGgufTensor *up   = (RpGgufTensor *)(uintptr_t)m->layers[1].up;
    RpGgufTensor *embd = (RpGgufTensor *)(uintptr_t)m->token_embd;
    up->view.dtype     = RP_I32;
    REFUSED(rp_model_find_weights(m), RP_E_DTYPE, "llama-f32: tensor blk.1.ffn_up.weight is i32: not a weight type");
    up->view.dtype   = RP_F32;
    embd->view.ne[1] = INT32_MAX;
    REFUSED(rp_model_find_weights(m), RP_E_FORMAT, "llama-f32: a vocabulary of 2147483647");
    rp_model_free(m), free(data);
}

Test(arch, a_row_that_does_not_fit_the_file_is_refused) {
    char    *data;
    RpModel *m   = open_tiny("llama-f32", &data);
    ArchRow  row = *m->config.arch;
    row.qk_norm  = QK_NORM_HEAD;
    REFUSED(use_row(m, &row), RP_E_FORMAT, "llama-f32: tensor blk.0.attn_q_norm.weight is missing");
    row       = *rp_arch_find("llama", 5);
    row.sinks = true;
    REFUSED(use_row(m, &row), RP_E_FORMAT, "llama-f32: tensor blk.0.attn_sinks.weight is missing");
    rp_model_free(m), free(data);
    m           = open_tiny("olmoe-f32", &data);
    row         = *m->config.arch;
    row.qk_norm = QK_NORM_HEAD;
    REFUSED(use_row(m, &row), RP_E_SHAPE,
            "olmoe-f32: tensor blk.0.attn_q_norm.weight is f32 [32,1,1,1], must be [16,1]");
    rp_model_free(m), free(data);
}

/* ---- sizes ---- */

/* Kernels of attention hold a head in arrays of fixed size: a larger one is refused when the file is opened. */
Test(arch, refuses_heads_that_attention_cannot_compute) {
    static const char *const keys[] = {"llama.attention.key_length", "llama.attention.value_length"};
    RpModel                 *m;
    size_t                   n;
    char                    *data = golden_read_tiny("llama-f32", &n);
    for (int i = 0; i < 2; i++) {
        char          *key   = memmem(data, n, keys[i], strlen(keys[i]));
        const uint32_t value = 513;
        cr_assert_not_null(key, "%s", keys[i]);
        memcpy(key + strlen(keys[i]) + sizeof(uint32_t), &value, sizeof value); /* behind the type */
    }
    REFUSED(rp_model_open_memory(data, n, "x.gguf", &m), RP_E_UNSUPPORTED,
            "x.gguf: heads of 513 are not supported, at most 512");
    free(data);
}

/* ---- what the file says and the row does not expect ---- */

/* A tiny file with one more value of 64 bytes, so that the tensor data stays aligned. The caller frees. */
static unsigned char *with_float(const char *name, const char *key, float value, size_t *n) {
    char          *data = golden_read_tiny(name, n);
    unsigned char *made = malloc(*n + 64);
    Bytes          b    = {0};
    uint64_t       count;
    put_key(&b, key, RP_GGUF_F32);
    put_bytes(&b, &value, sizeof value);
    put_key_string(&b, "p", "0123456789012345678901234567890123456789"); /* cut to fill up 64 bytes */
    const uint64_t text = 64 - (8 + strlen(key) + 4 + 4) - (8 + 1 + 4 + 8);
    memcpy(b.p + 64 - text - 8, &text, sizeof text);
    cr_assert(made != NULL && text < 40);
    memcpy(&count, data + 16, sizeof count);
    count += 2;
    memcpy(made, data, 16);
    memcpy(made + 16, &count, sizeof count);
    memcpy(made + 24, b.p, 64);
    memcpy(made + 88, data + 24, *n - 24);
    *n += 64;
    free(b.p);
    free(data);
    return made;
}

/* As llama.cpp reads it: rope.freq_base_swa is the base of layers with a window, of every family that has them. */
Test(arch, layers_with_a_window_have_their_own_rope_base) {
    size_t         n;
    char          *data;
    RpModel       *plain = open_tiny("gpt-oss-f32", &data), *m;
    unsigned char *file  = with_float("gpt-oss-f32", "gpt-oss.rope.freq_base_swa", 500.0f, &n);
    float          x[N_ROOM], y[N_ROOM];
    OK(rp_model_open_memory(file, n, "gpt-oss-f32", &m));
    int n_window = 0;
    for (int i = 0; i < rp_model_info(m)->n_layer; i++) {
        const LayerKind k = rp_config_layer(&m->config, i), before = rp_config_layer(&plain->config, i);
        const bool      window = k.attention == ATTENTION_WINDOW;
        n_window += window;
        cr_expect_eq(k.rope.freq_base, window ? 500.0f : before.rope.freq_base, CASE(i));
        cr_expect_eq(k.rope.freq_scale, before.rope.freq_scale, CASE(i));
    }
    cr_expect(n_window > 0 && n_window < rp_model_info(m)->n_layer);
    logits_of(plain, "", x);
    logits_of(m, "", y);
    cr_expect_neq(memcmp(x, y, (size_t)rp_model_info(m)->n_vocab * sizeof *x), 0);
    rp_model_free(m);
    rp_model_free(plain);
    free(file);
    free(data);
}

/* A bias under another name would be left out of the product. */
Test(arch, a_tensor_without_a_use_is_refused) {
    size_t   n;
    char    *data = golden_read_tiny("qwen2-f32", &n);
    RpModel *m;
    char    *name = memmem(data, n, "blk.1.attn_q.bias", 17);
    cr_assert_not_null(name);
    memcpy(name, "blk.1.attn_x.bias", 17);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED,
            "m.gguf: architecture qwen2 does not use 1 of the tensors, first blk.1.attn_x.bias: results could be wrong "
            "(REPRISE_UNUSED_TENSORS=ignore opens it)");
    setenv("REPRISE_UNUSED_TENSORS", "maybe", 1);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_ARG,
            "REPRISE_UNUSED_TENSORS 'maybe': must be refuse or ignore");
    setenv("REPRISE_UNUSED_TENSORS", "ignore", 1);
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    rp_model_free(m);
    free(data);
}

/* ---- tensors that join several ---- */

/* The parts follow each other in the memory of the whole. */
static void expect_parts(const RpModel *m, const RpGgufTensor *whole, const RpGgufTensor *const *parts, int n) {
    const char *at = whole->view.data;
    for (int i = 0; i < n; i++) {
        cr_expect_eq((const char *)parts[i]->view.data, at, CASE(i));
        at += parts[i]->bytes;
    }
    cr_expect_eq(at, (const char *)whole->view.data + whole->bytes);
    cr_expect(!rp_model_reads(m, whole), "no product reads all rows");
}

Test(arch, reads_the_parts_of_joined_tensors_where_they_are) {
    static const char *const names[] = {"phi3-f32", "phi3-mix"};
    for (int k = 0; k < 2; k++) {
        char    *data;
        RpModel *m = open_tiny(names[k], &data);
        for (int i = 0; i < m->config.n_layer; i++) {
            const LayerWeights *l = &m->layers[i];
            cr_assert_not_null(l->qkv, "%s", names[k]);
            expect_parts(m, l->qkv, (const RpGgufTensor *const[]){l->q, l->k, l->v}, 3);
            expect_parts(m, l->gate_up, (const RpGgufTensor *const[]){l->gate, l->up}, 2);
            cr_expect(rp_model_reads(m, l->down), "%s", names[k]);
        }
        rp_model_free(m);
        free(data);
    }
}

/* The rows of gate and of up of each expert. */
Test(arch, reads_the_parts_of_joined_experts_where_they_are) {
    static const char *const names[] = {"gemma4-moe-mix", "qwen35moe-joined"};
    for (int k = 0; k < 2; k++) {
        char    *data;
        RpModel *m = open_tiny(names[k], &data);
        for (int i = 0; i < m->config.n_layer; i++) {
            const LayerWeights *l   = &m->layers[i];
            const RpTensorView *all = &l->gate_up_exps->view, *gate = &l->gate_exps->view, *up = &l->up_exps->view;
            cr_expect_eq(gate->data, all->data, CASE(k, i));
            cr_expect_eq((char *)up->data, (char *)all->data + all->nb[2] / 2, CASE(k, i));
            cr_expect(gate->nb[2] == all->nb[2] && up->nb[2] == all->nb[2], CASE(k, i));
            cr_expect(gate->ne[1] == all->ne[1] / 2 && up->ne[1] == gate->ne[1] && up->ne[2] == all->ne[2], CASE(k, i));
            cr_expect_eq(l->gate_exps->bytes + l->up_exps->bytes, l->gate_up_exps->bytes, CASE(k, i));
            cr_expect(!rp_model_reads(m, l->gate_up_exps) && rp_model_reads(m, l->down_exps), CASE(k, i));
        }
        const RpModelInfo *info = rp_model_info(m);
        cr_expect_lt(info->decode_weight_bytes, info->weight_bytes, CASE(k)); /* not all experts */
        rp_model_free(m);
        free(data);
    }
}

/* Row j of the keys of head h is column j of matrix h of k_b; values are read where they are. */
Test(arch, splits_the_joined_matrix_of_latent_attention) {
    char    *data;
    RpModel *m = open_tiny("deepseek2-joined", &data);
    for (int i = 0; i < m->config.n_layer; i++) {
        const LayerWeights *l   = &m->layers[i];
        const RpTensorView *all = &l->kv_b->view, *keys = &l->k_b->view, *values = &l->v_b->view;
        const int64_t       d = keys->ne[0], n = keys->ne[1], v = values->ne[1], heads = keys->ne[2];
        float              *row = malloc((size_t)n * sizeof *row), element;
        cr_expect_eq(all->ne[1], heads * (d + v), CASE(i));
        cr_expect(keys->dtype == (rp_dtype_is_quant(all->dtype) ? RP_F16 : all->dtype), CASE(i));
        for (int64_t h = 0; h < heads; h++) {
            cr_expect_eq((char *)values->data + (size_t)h * values->nb[2], rp_view_row(all, h * (d + v) + d),
                         CASE(i, h));
            for (int64_t j = 0; j < d; j++) {
                rp_dequantize_row(all->dtype, rp_view_row(all, h * (d + v) + j), n, row);
                for (int64_t c = 0; c < n; c++) {
                    const char *at = (const char *)rp_view_row(keys, h * n + c) + (size_t)j * keys->nb[0];
                    rp_dequantize_row(keys->dtype, at, 1, &element);
                    cr_assert_leq(fabsf(element - row[c]), 1e-3f, "layer %d, head %d, key %d, element %d", i, (int)h,
                                  (int)j, (int)c);
                }
            }
        }
        cr_expect(!rp_model_reads(m, l->kv_b), CASE(i));
        free(row);
    }
    rp_model_free(m);
    free(data);
}

Test(arch, layers_that_predict_further_tokens_are_not_run) {
    char    *data;
    RpModel *m = open_tiny("glm4moe-f32", &data);
    cr_expect_eq(m->config.n_layer, 2);
    cr_expect_eq(m->config.n_layer_next, 1);
    size_t kept = 0; /* of the experts of the layer that is run, half are chosen; of the embedding one row */
    for (int64_t i = 0; i < rp_gguf_n_tensors(rp_model_file(m)); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(rp_model_file(m), i);
        if (strncmp(t->name.ptr, "blk.2.", 6) == 0) kept += t->bytes;
    }
    const size_t experts = 3 * m->layers[1].up_exps->bytes, rows = m->token_embd->bytes;
    cr_expect_eq(rp_model_info(m)->decode_weight_bytes,
                 rp_model_info(m)->weight_bytes - kept - experts / 2 - rows + rows / (size_t)m->token_embd->view.ne[1]);
    cr_expect(!rp_model_reads(m, rp_gguf_find_tensor(rp_model_file(m), "blk.2.attn_q.weight")));
    cr_expect(rp_model_reads(m, rp_gguf_find_tensor(rp_model_file(m), "blk.1.attn_q.weight")));
    rp_model_free(m);
    free(data);
}
