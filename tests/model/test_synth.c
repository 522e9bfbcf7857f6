/* Model files that the library writes (synth, requantize): logits against NumPy (tests/golden/nn/tiny.txt),
 * weight statistics against 1/sqrt(row length), files against other runs with the same seed. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "base/dtypes.h"
#include "reprise/convert.h"
#include "reprise/quants.h"

#include <fcntl.h>
#include <math.h>

static char path[64], other[80];

static void name_files(void) {
    snprintf(path, sizeof path, "/tmp/rp-synth-%d.gguf", (int)getpid());
    snprintf(other, sizeof other, "/tmp/rp-synth-%d-2.gguf", (int)getpid());
}

static char *contents(const char *name, size_t *n) {
    FILE *f = fopen(name, "rb");
    cr_assert_not_null(f);
    char *p = malloc(1 << 22);
    *n      = fread(p, 1, 1 << 22, f);
    fclose(f);
    return p;
}

Test(synth, tiny_gives_the_logits_of_numpy) {
    enum { BATCH = 3, SEQ = 11, VOCAB = 320 };
    static float logits[BATCH * SEQ * VOCAB], want[VOCAB];
    int32_t      ids[BATCH * SEQ];
    char        *line = NULL;
    size_t       size = 0;
    RpModel     *m;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32", .seed = 5}, path));
    OK(rp_model_open(path, NULL, &m));
    FILE       *f    = golden_open("nn/tiny.txt");
    const char *text = golden_line(f, &line, &size);
    cr_assert_str_eq(text, "shape 3 11");
    text = golden_line(f, &line, &size);
    cr_assert_eq(golden_ids(text + 4, ids, BATCH * SEQ), (size_t)(BATCH * SEQ));
    OK(rp_model_logits(m, ids, BATCH, SEQ, logits));
    double worst = 0.0, spread = 0.0;
    for (int r = 0; r < BATCH * SEQ; r++) {
        text = golden_line(f, &line, &size);
        cr_assert_not_null(text, CASE(r));
        cr_assert_eq(golden_floats(text + 7, want, VOCAB), (size_t)VOCAB, CASE(r));
        for (int i = 0; i < VOCAB; i++) {
            worst = fmax(worst, fabs((double)(logits[VOCAB * r + i] - want[i])));
            spread += pow((double)want[i], 2.0) / (BATCH * SEQ * VOCAB);
        }
    }
    cr_log_info("off by at most %g, logits spread by %g", worst, sqrt(spread));
    cr_expect_gt(spread, 0.01);
    cr_expect_leq(worst, 1e-3 * sqrt(spread), "off by %g", worst); /* a key may round to the neighbouring f16 */
    REFUSED(rp_model_logits(m, ids, 1, 1025, logits), RP_E_ARG,
            "sequences of 1025 tokens: the model was trained for 1024");
    fclose(f);
    free(line);
    rp_model_free(m);
    remove(path);
}

Test(synth, a_seed_gives_the_same_file) {
    size_t n, n_other;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "Q4_0", .seed = 7}, path));
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "Q4_0", .seed = 7}, other));
    char *a = contents(path, &n), *b = contents(other, &n_other);
    cr_assert_eq(n, n_other);
    cr_expect_arr_eq(a, b, n);
    free(b);
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "Q4_0", .seed = 8}, other));
    b = contents(other, &n_other);
    cr_expect_neq(memcmp(a, b, n), 0);
    free(a), free(b);
    remove(path), remove(other);
}

#ifdef RP_TEST_SLOW
enum { EVERY_TYPE = 4 }; /* other builds have the rest */
#else
enum { EVERY_TYPE = 1 };
#endif

/* Weights of every type have the standard deviation 1 / sqrt(row length), which preserves the size of activations. */
Test(synth, weights_are_scaled_for_every_type) {
    int n_types = 0;
    name_files();
    while (rp_convert_type_name(n_types) != NULL) n_types++;
    for (int i = 0; i < n_types; i += EVERY_TYPE) {
        RpGgufFile *f;
        OK(rp_synth("tiny", &(RpSynthOptions){.type = rp_convert_type_name(i)}, path));
        OK(rp_gguf_open(path, &f));
        for (int64_t k = 0; k < rp_gguf_n_tensors(f); k++) {
            const RpGgufTensor *t = rp_gguf_tensor(f, k);
            float               row[256];
            double              sum = 0.0, square = 0.0;
            if (rp_view_elems(&t->view) < 4096) continue;
            for (int64_t r = 0; r < rp_view_rows(&t->view); r++) {
                rp_dequantize_row(t->view.dtype, rp_view_row(&t->view, r), t->view.ne[0], row);
                for (int64_t j = 0; j < t->view.ne[0]; j++) sum += (double)row[j], square += pow((double)row[j], 2.0);
            }
            const double n = (double)rp_view_elems(&t->view), deviation = sqrt(square / n);
            const double want = 1.0 / sqrt((double)t->view.ne[0]);
            cr_expect(deviation > 0.7 * want && deviation < 1.4 * want, "%s: %.*s deviates by %g, not %g",
                      rp_convert_type_name(i), (int)t->name.len, t->name.ptr, deviation, want);
            cr_expect_lt(fabs(sum / n), 0.25 * want, "%s: %.*s has a mean of %g", rp_convert_type_name(i),
                         (int)t->name.len, t->name.ptr, sum / n);
        }
        rp_gguf_close(f);
    }
    remove(path);
}

static RpDtype type_in(const char *file, const char *tensor) {
    RpGgufFile *f;
    OK(rp_gguf_open(file, &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, tensor);
    cr_assert_not_null(t, "%s", tensor);
    const RpDtype type = t->view.dtype;
    rp_gguf_close(f);
    return type;
}

/* As convert.h has it. smollm2-135m has no experts, and no output matrix but the embedding; llama-f16 has no
 * experts. */
Test(synth, mxfp4_is_the_type_of_experts_or_of_all_matrices) {
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "MXFP4"}, path));
    cr_expect_eq(type_in(path, "blk.0.ffn_down_exps.weight"), RP_MXFP4);
    cr_expect_eq(type_in(path, "blk.0.attn_q.weight"), RP_Q8_0);
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F16"}, path));
    OK(rp_requantize(path, other, "MXFP4", NULL, NULL));
    cr_expect_eq(type_in(other, "blk.0.ffn_down_exps.weight"), RP_MXFP4);
    cr_expect_eq(type_in(other, "blk.0.attn_q.weight"), RP_Q8_0);
    OK(rp_synth("smollm2-135m", &(RpSynthOptions){.type = "MXFP4", .hollow = true}, path));
    cr_expect_eq(type_in(path, "blk.0.ffn_down.weight"), RP_MXFP4);
    cr_expect_eq(type_in(path, "blk.0.attn_q.weight"), RP_MXFP4);
    cr_expect_eq(type_in(path, "token_embd.weight"), RP_Q8_0);
    OK(rp_requantize(RP_SOURCE_DIR "/tests/golden/tiny/llama-f16.gguf", other, "MXFP4", NULL, NULL));
    cr_expect_eq(type_in(other, "blk.0.attn_q.weight"), RP_MXFP4);
    cr_expect_eq(type_in(other, "output.weight"), RP_Q8_0);
    remove(path), remove(other);
}

/* per_layer_model_proj keeps its float type, as in llama.cpp. */
Test(synth, pure_is_one_type_for_all_matrices) {
    const RpRequantizeOptions pure = {.pure = true};
    name_files();
    OK(rp_synth("gemma4-e2b", &(RpSynthOptions){.type = "Q4_K_M", .hollow = true}, path));
    cr_expect_eq(type_in(path, "token_embd.weight"), RP_Q6_K);
    cr_expect_eq(type_in(path, "blk.0.ffn_down.weight"), RP_Q6_K);
    cr_expect_eq(type_in(path, "per_layer_model_proj.weight"), RP_BF16);
    OK(rp_synth("gemma4-e2b", &(RpSynthOptions){.type = "Q4_K_M", .hollow = true, .pure = true}, path));
    cr_expect_eq(type_in(path, "token_embd.weight"), RP_Q4_K);
    cr_expect_eq(type_in(path, "blk.0.ffn_down.weight"), RP_Q4_K);
    cr_expect_eq(type_in(path, "per_layer_model_proj.weight"), RP_BF16);
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F16"}, path));
    OK(rp_requantize_with(path, other, "Q4_0", &pure));
    cr_expect_eq(type_in(other, "output.weight"), RP_Q4_0);
    OK(rp_requantize(path, other, "Q4_0", NULL, NULL));
    cr_expect_neq(type_in(other, "output.weight"), RP_Q4_0);
    remove(path), remove(other);
}

/* The float type of the source stays, also in directories of bf16 and files of f16. */
Test(synth, per_layer_model_proj_is_not_quantised) {
    name_files();
    OK(rp_requantize(RP_SOURCE_DIR "/tests/golden/tiny/gemma4-f32.gguf", path, "F16", NULL, NULL));
    cr_expect_eq(type_in(path, "per_layer_model_proj.weight"), RP_F16);
    OK(rp_requantize(path, other, "Q4_0", NULL, NULL));
    cr_expect_eq(type_in(other, "per_layer_model_proj.weight"), RP_F16);
    remove(path), remove(other);
}

Test(synth, every_weight_type_can_be_written) {
#define X(ID, ...) #ID,
    static const char *const types[] = {RP_QUANTS(X)};
#undef X
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        int i = 0;
        while (rp_convert_type_name(i) != NULL && strcmp(rp_convert_type_name(i), types[t]) != 0) i++;
        cr_expect_not_null(rp_convert_type_name(i), "%s is no type of rp_requantize", types[t]);
    }
}

Test(synth, counts_the_weights_that_a_token_reads) {
    RpModel *m;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32"}, path));
    OK(rp_model_open(path, NULL, &m));
    /* Per layer: two norms, q, k, v, o, router, and 2 of 4 experts with three matrices each. Outside: one row of the
     * embedding, the output norm and the output matrix. */
    const int64_t experts = 3 * 64 * 96, rest = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 16 + 64 * 4;
    const int64_t outside = 64 + 64 + 320 * 64;
    cr_expect_eq(rp_model_info(m)->n_params_active, 2 * (rest + 2 * experts) + outside);
    cr_expect_eq((int64_t)rp_model_info(m)->decode_weight_bytes, 4 * (2 * (rest + 2 * experts) + outside));
    cr_expect_eq(rp_model_info(m)->n_params, 2 * (rest + 4 * experts) + outside + 319 * 64);
    rp_model_free(m);
    remove(path);
}

/* 30 layers of: attention 768 * (768 + 64 + 64 + 768), two norms, router 768 * 16, 16 experts of 3 * 768 * 1536. */
Test(synth, has_a_reference_model_of_a_size_to_train) {
    RpModel *m;
    OK(rp_model_open_preset("nn-1.8b", "F32", &m));
    const uint64_t layer = 768 * (2 * 768 + 2 * 64) + 2 * 768 + 768 * 16 + 16LL * 3 * 768 * 1536;
    cr_expect_eq((uint64_t)rp_model_info(m)->n_params, 30 * layer + 2 * 32000 * 768 + 768);
    cr_expect_eq(rp_model_info(m)->n_ctx_train, 32768);
    rp_model_free(m);
}

/* The lengths are those of the config.json of the published models. */
Test(synth, hybrid_presets_have_the_parameters_of_the_real_models) {
    /* query and gate, key, value, output, norms of q and k */
    const int64_t qwen_attends = 1024 * (2 * 2048 + 2 * 512) + 2048 * 1024 + 2 * 256;
    /* qkv and gate, convolution, beta and alpha, bias and decay, norm, output */
    const int64_t qwen_delta = 1024 * (6144 + 2048) + 4 * 6144 + 2 * 1024 * 16 + 2 * 16 + 128 + 2048 * 1024;
    const int64_t qwen_each  = 2 * 1024 + 3 * 1024 * 3584;
    const int64_t lfm2_conv = 4 * 2048 * 2048 + 3 * 2048, lfm2_each = 2 * 2048 + 3 * 2048 * 8192;
    const int64_t lfm2_attends = 2 * 2048 * 2048 + 2 * 2048 * 512 + 2 * 64;
    /* in: z, x, b, c, dt; convolution and its bias, bias of dt, decay, skip, norm, out */
    const int64_t granite_scan    = 1536 * (2 * 3072 + 2 * 128 + 48) + 5 * (3072 + 256) + 3 * 48 + 3072 + 3072 * 1536;
    const int64_t granite_attends = 2 * 1536 * 1536 + 2 * 1536 * 512, granite_each = 2 * 1536 + 3 * 1536 * 4096;
    const int64_t falcon_scan = 1024 * (2 * 1536 + 2 * 128 + 24) + 5 * (1536 + 256) + 3 * 24 + 1536 + 1536 * 1024;
    const int64_t falcon_each = 2 * 1024 * 512 + 2 * 1024 * 128 + 2 * 1024 + 3 * 1024 * 2048;
    const struct {
        const char *preset;
        int64_t     n_params;
    } cases[] = {
        {"qwen3.5-0.8b",   18 * qwen_delta + 6 * qwen_attends + 24 * qwen_each + 248320 * 1024 + 1024        },
        {"lfm2-1.2b",      10 * lfm2_conv + 6 * lfm2_attends + 16 * lfm2_each + 65536 * 2048 + 2048          },
        {"granite4-h-1b",  36 * granite_scan + 4 * granite_attends + 40 * granite_each + 100352 * 1536 + 1536},
        {"falcon-h1-0.5b", 36 * (falcon_scan + falcon_each) + 2 * 32784 * 1024 + 1024                        },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RpModel *m;
        OK(rp_model_open_preset(cases[i].preset, "Q8_0", &m));
        cr_expect_eq(rp_model_info(m)->n_params, cases[i].n_params, "%s: %lld", cases[i].preset,
                     (long long)rp_model_info(m)->n_params);
        rp_model_free(m);
    }
}

/* 4.6 and 25.2 B, without the optional scales. */
Test(synth, presets_of_gemma4_have_the_parameters_of_the_real_models) {
    /* query and output with the norm of queries, key and value with the norm of keys; heads of 256 and of 512. Files
     * have keys and values of the layers that share caches too */
    const int64_t q = 2 * 1536 * 2048 + 256, full_q = 2 * 1536 * 4096 + 512, kv = 2 * 1536 * 256 + 256,
                  full_kv = 2 * 1536 * 512 + 512;
    /* four norms; gate, projection and norm of the layer's embedding */
    const int64_t each = 4 * 1536 + 2 * 1536 * 256 + 1536, ffn = 3 * 1536 * 6144;
    const int64_t embeddings = (int64_t)262144 * (1536 + 35 * 256) + 1536 * 35 * 256 + 256 + 1536;
    /* 26B-A4B: 8 key heads of 256, or 2 of 512; seven norms, router and its norm, 128 experts beside a feed-forward */
    const int64_t a4b = 2816 * (2 * 4096 + 2 * 2048) + 2 * 256, a4b_full = 2816 * (2 * 8192 + 2 * 1024) + 2 * 512,
                  a4b_each = 8 * 2816 + 2816 * 128 + (int64_t)128 * 3 * 2816 * 704 + 3 * 2816 * 2112;
    RpModel *m;
    OK(rp_model_open_preset("gemma4-e2b", "Q8_0", &m));
    cr_expect_eq(rp_model_info(m)->n_params,
                 28 * q + 7 * full_q + 28 * kv + 7 * full_kv + 35 * each + 15 * ffn + 20 * 2 * ffn + embeddings, "%lld",
                 (long long)rp_model_info(m)->n_params);
    rp_model_free(m);
    OK(rp_model_open_preset("gemma4-26b-a4b", "Q8_0", &m));
    cr_expect_eq(rp_model_info(m)->n_params, 25 * a4b + 5 * a4b_full + 30 * a4b_each + (int64_t)262144 * 2816 + 2816,
                 "%lld", (long long)rp_model_info(m)->n_params);
    rp_model_free(m);
}

/* 15.7 and 671 B, the latter without the layer that predicts further tokens and without the biases of the choice. */
Test(synth, presets_of_deepseek_have_the_parameters_of_the_real_models) {
    /* kv_a and its norm, k_b, v_b, output, norms */
    const int64_t lite_kv = 2048 * 576 + 512 + 2 * 128 * 512 * 16 + 2048 * 2048 + 2 * 2048, lite_q = 2048 * 16 * 192;
    const int64_t lite_experts = 2048 * 64 + (64 + 2) * (int64_t)(3 * 2048 * 1408);
    const int64_t v3_kv        = 7168 * 576 + 512 + 2 * 128 * 512 * 128 + 7168 * 16384 + 2 * 7168,
                  v3_q         = 7168 * 1536 + 1536 + 1536 * 128 * 192;
    const int64_t v3_experts   = 7168 * 256 + (256 + 1) * (int64_t)(3 * 7168 * 2048);
    RpModel      *m;
    OK(rp_model_open_preset("deepseek-v2-lite", "Q8_0", &m));
    cr_expect_eq(rp_model_info(m)->n_params,
                 27 * (lite_q + lite_kv) + 3 * 2048 * 10944 + 26 * lite_experts + 2 * (int64_t)102400 * 2048 + 2048);
    cr_expect_eq(rp_model_info(m)->n_params, 15706484224);
    rp_model_free(m);
    OK(rp_model_open_preset("deepseek-v3", "Q8_0", &m));
    cr_expect_eq(rp_model_info(m)->n_params, 61 * (v3_q + v3_kv) + 3 * (int64_t)(3 * 7168 * 18432) + 58 * v3_experts +
                                                 2 * (int64_t)129280 * 7168 + 7168);
    rp_model_free(m);
}

Test(synth, every_preset_opens_as_a_model) {
    for (int i = 0; rp_synth_preset_name(i) != NULL; i++) {
        RpModel *m;
        OK(rp_model_open_preset(rp_synth_preset_name(i), "Q8_0", &m));
        cr_expect_gt(rp_model_info(m)->n_params, 0, "%s", rp_synth_preset_name(i));
        rp_model_free(m);
    }
}

/* The states of selective scans stay bounded, so the logits of random weights are numbers. */
Test(synth, a_hybrid_preset_gives_finite_logits) {
    enum { SEQ = 48, VOCAB = 32784 };
    static float logits[SEQ * VOCAB];
    int32_t      ids[SEQ];
    RpModel     *m;
    name_files();
    OK(rp_synth("falcon-h1-0.5b", &(RpSynthOptions){.type = "Q4_0"}, path));
    OK(rp_model_open(path, NULL, &m));
    for (int i = 0; i < SEQ; i++) ids[i] = 300 + 17 * i;
    OK(rp_model_logits(m, ids, 1, SEQ, logits));
    for (int i = 0; i < SEQ * VOCAB; i++) cr_assert(isfinite(logits[i]), "logit %d is %g", i, (double)logits[i]);
    rp_model_free(m);
    remove(path);
}

/* llama.cpp refuses a file with a tensor more or less than the architecture has. */
Test(synth, has_the_tensors_of_the_real_model) {
    static const struct {
        const char *preset;
        int64_t     n_tensors; /* of Qwen/Qwen2.5-0.5B and openai/gpt-oss-20b as GGUF files */
    } cases[] = {
        {"qwen2.5-0.5b", 2 + 24 * 12},
        {"gpt-oss-20b",  3 + 24 * 19}
    };
    name_files();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RpGgufFile *f;
        OK(rp_synth(cases[i].preset, &(RpSynthOptions){.type = "Q8_0", .hollow = true}, path));
        OK(rp_gguf_open(path, &f));
        cr_expect_eq(rp_gguf_n_tensors(f), cases[i].n_tensors, "%s has %lld tensors", cases[i].preset,
                     (long long)rp_gguf_n_tensors(f));
        rp_gguf_close(f);
        remove(path);
    }
}

/* With NaN scores the first experts are selected (ties go to the lower index), and the logits are NaN. */
Test(synth, a_router_of_nan_gives_nan_logits_without_a_crash) {
    size_t      n;
    RpGgufFile *f;
    RpModel    *m;
    RpSession  *s;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32"}, path));
    char *data = contents(path, &n);
    OK(rp_gguf_open_memory(data, n, "m.gguf", &f));
    const RpGgufTensor *t = rp_gguf_find_tensor(f, "blk.1.ffn_gate_inp.weight");
    memset(t->view.data, 0xff, t->bytes); /* NaN */
    rp_gguf_close(f);
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    OK(rp_session_open(m, &(RpSessionOptions){.count_experts = true}, &s));
    OK(rp_session_prefill(s, (const int32_t[]){1, 2, 3}, 3, NULL, NULL));
    OK(rp_session_step(s, 4));
    cr_expect(isnan(rp_session_logits(s)[0]));
    const uint64_t *counts = rp_session_expert_counts(s, 1);
    cr_expect_arr_eq(counts, ((const uint64_t[]){4, 4, 0, 0}), 4 * sizeof *counts);
    rp_session_free(s);
    rp_model_free(m);
    free(data);
    remove(path);
}

Test(synth, refuses_unknown_presets_and_types_and_leaves_no_file) {
    name_files();
    REFUSED(rp_synth("huge", NULL, path), RP_E_ARG, "there is no preset 'huge' (there are tiny, demo, nn-6.9b");
    REFUSED(rp_synth("tiny", &(RpSynthOptions){.type = "IQ9"}, path), RP_E_ARG, "'IQ9' is not a weight type");
    REFUSED(rp_synth("tiny", NULL, "/nonexistent/x.gguf"), RP_E_IO,
            "/nonexistent/x.gguf: a temporary file in its folder: No such file");
    cr_expect_neq(access(path, F_OK), 0);
}

Test(synth, refuses_a_temporary_folder_with_a_long_name) {
    static char dir[600];
    RpModel    *m;
    memset(dir, 'x', sizeof dir - 1);
    setenv("TMPDIR", dir, 1);
    REFUSED(rp_model_open_preset("tiny", NULL, &m), RP_E_ARG, "TMPDIR is too long");
    unsetenv("TMPDIR");
}

static bool stop_at_once(size_t done, size_t total, void *user) {
    (void)done, (void)total, (void)user;
    return false;
}

Test(synth, a_cancelled_run_keeps_the_existing_file) {
    size_t n, again;
    name_files();
    OK(rp_synth("tiny", NULL, path));
    char *before = contents(path, &n);
    REFUSED(rp_synth("tiny", &(RpSynthOptions){.seed = 2, .progress = stop_at_once}, path), RP_E_CANCELLED,
            "tiny: writing was stopped");
    REFUSED(rp_requantize(path, other, "Q8_0", stop_at_once, NULL), RP_E_CANCELLED, ": conversion was stopped");
    char *after = contents(path, &again);
    cr_assert_eq(n, again);
    cr_expect_arr_eq(before, after, n);
    snprintf(other, sizeof other, "%s.part", path);
    cr_expect_neq(access(other, F_OK), 0);
    free(before), free(after);
    remove(path);
}

Test(requantize, converts_floats_and_copies_metadata) {
    RpGgufFile *a, *b;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F16", .seed = 3}, path));
    OK(rp_requantize(path, other, "Q8_0", NULL, NULL));
    OK(rp_gguf_open(path, &a));
    OK(rp_gguf_open(other, &b));
    cr_assert_eq(rp_gguf_n_tensors(a), rp_gguf_n_tensors(b));
    cr_expect_eq(rp_gguf_find(b, "tokenizer.ggml.tokens")->n, 320u);
    uint32_t type = 0;
    OK(rp_gguf_get_u32(b, "general.file_type", &type));
    cr_expect_eq(type, 7u);
    for (int64_t k = 0; k < rp_gguf_n_tensors(a); k++) {
        const RpGgufTensor *x = rp_gguf_tensor(a, k), *y = rp_gguf_tensor(b, k);
        float               wide[256];
        uint8_t             row[512];
        cr_expect(y->view.dtype == RP_Q8_0 || (y->view.dtype == RP_F32 && x->view.dtype == RP_F32), CASE(k));
        for (int64_t r = 0; r < rp_view_rows(&x->view); r++) {
            rp_dequantize_row(x->view.dtype, rp_view_row(&x->view, r), x->view.ne[0], wide);
            OK(rp_quantize_row(y->view.dtype, wide, x->view.ne[0], row));
            cr_assert_arr_eq(row, rp_view_row(&y->view, r), rp_row_bytes(y->view.dtype, x->view.ne[0]), CASE(k, r));
        }
    }
    rp_gguf_close(a);
    rp_gguf_close(b);
    remove(path), remove(other);
}

/* From a quantised file: rows are dequantised and quantised again; rows of the wanted type are copied. */
Test(requantize, converts_quantised_files) {
    RpGgufFile *a, *b;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "Q8_0", .seed = 3}, path));
    for (int same = 0; same < 2; same++) {
        OK(rp_requantize(path, other, same ? "Q8_0" : "Q4_0", NULL, NULL));
        OK(rp_gguf_open(path, &a));
        OK(rp_gguf_open(other, &b));
        int64_t n_changed = 0;
        for (int64_t k = 0; k < rp_gguf_n_tensors(a); k++) {
            const RpGgufTensor *x = rp_gguf_tensor(a, k), *y = rp_gguf_tensor(b, k);
            float               wide[256];
            uint8_t             row[2048];
            n_changed += x->view.dtype != y->view.dtype;
            for (int64_t r = 0; r < rp_view_rows(&x->view); r++) {
                rp_dequantize_row(x->view.dtype, rp_view_row(&x->view, r), x->view.ne[0], wide);
                OK(rp_quantize_row(y->view.dtype, wide, x->view.ne[0], row));
                const void *want = x->view.dtype == y->view.dtype ? rp_view_row(&x->view, r) : row;
                cr_assert_arr_eq(want, rp_view_row(&y->view, r), rp_row_bytes(y->view.dtype, x->view.ne[0]),
                                 CASE(same, k, r));
            }
        }
        cr_expect(same ? n_changed == 0 : n_changed > 0, CASE(same));
        rp_gguf_close(a);
        rp_gguf_close(b);
    }
    remove(path), remove(other);
}

Test(requantize, refuses_its_input_as_output_under_every_name) {
    char   link[96];
    size_t n, n_after;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F16", .seed = 3}, path));
    char *before = contents(path, &n), dotted[96];
    snprintf(dotted, sizeof dotted, "/tmp/.%s", path + strlen("/tmp"));
    snprintf(link, sizeof link, "%s.link", path);
    REFUSED(rp_requantize(path, path, "Q8_0", NULL, NULL), RP_E_ARG, "an output must not be an input");
    REFUSED(rp_requantize(path, dotted, "Q8_0", NULL, NULL), RP_E_ARG, "an output must not be an input");
    cr_assert_eq(symlink(path, link), 0);
    REFUSED(rp_requantize(path, link, "Q8_0", NULL, NULL), RP_E_ARG, link);
    REFUSED(rp_requantize(link, path, "Q8_0", NULL, NULL), RP_E_ARG, link);
    remove(link);
    cr_assert_eq(linkat(AT_FDCWD, path, AT_FDCWD, link, 0), 0);
    REFUSED(rp_requantize(path, link, "Q8_0", NULL, NULL), RP_E_ARG, path);
    remove(link);
    char *after = contents(path, &n_after);
    cr_expect(n == n_after && memcmp(before, after, n) == 0, "the input has changed");
    free(before), free(after);
    remove(path);
}
