/* Importance matrices: rp_imatrix against NumPy (tests/golden/nn/sums.txt), its file and rp_requantize_with. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "base/quantize.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
#include "reprise/convert.h"

#include <math.h>

static char model[64], matrix[64], out[64];

static void name_files(void) {
    snprintf(model, sizeof model, "/tmp/rp-imatrix-%d.gguf", (int)getpid());
    snprintf(matrix, sizeof matrix, "/tmp/rp-imatrix-%d-sums.gguf", (int)getpid());
    snprintf(out, sizeof out, "/tmp/rp-imatrix-%d-out.gguf", (int)getpid());
}

static void remove_files(void) { remove(model), remove(matrix), remove(out); }

enum { SEQ = 11, N_IDS = 33 };

/* The importance matrix of the tiny model, on the tokens of tests/golden/nn/tiny.txt. */
static void make_matrix(const char *type) {
    int32_t  ids[N_IDS];
    char    *line = NULL;
    size_t   size = 0;
    RpModel *m;
    FILE    *f = golden_open("nn/tiny.txt");
    name_files();
    (void)golden_line(f, &line, &size);
    cr_assert_eq(golden_ids(golden_line(f, &line, &size) + 4, ids, N_IDS), (size_t)N_IDS);
    fclose(f);
    free(line);
    OK(rp_synth("tiny", &(RpSynthOptions){.type = type, .seed = 5}, model));
    OK(rp_model_open(model, NULL, &m));
    const RpImatrixOptions o = {.chunk = SEQ, .n_threads = 2, .device = "cpu", .dataset = "golden"};
    OK(rp_imatrix(m, ids, N_IDS, &o, matrix));
    rp_model_free(m);
}

static const float *data_of(const RpGgufFile *f, const char *name, const char *what, int64_t ne0, int64_t matrices) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const RpGgufTensor *t = rp_gguf_find_tensor(f, full);
    cr_assert_not_null(t, "%s", full);
    cr_assert(t->view.dtype == RP_F32 && t->view.ne[0] == ne0 && t->view.ne[1] == matrices, "%s", full);
    return t->view.data;
}

/* A key of the cache may round to the neighbouring f16, and the sums are f32. */
Test(imatrix, has_the_sums_of_numpy) {
    static float want[512];
    RpGgufFile  *f;
    char        *line    = NULL;
    size_t       size    = 0;
    int64_t      n_lines = 0;
    uint32_t     chunks = 0, chunk = 0;
    RpGgufString kind;
    make_matrix("F32");
    OK(rp_gguf_open(matrix, &f));
    FILE *sums = golden_open("nn/sums.txt");
    for (const char *text; (text = golden_line(sums, &line, &size)) != NULL; n_lines++) {
        char name[64];
        int  expert, tokens, at;
        cr_assert_eq(sscanf(text, "%63s %d %d %n", name, &expert, &tokens, &at), 3, "%s", text);
        const int64_t n = (int64_t)golden_floats(text + at, want, 512), experts = strstr(name, "_exps") != NULL ? 4 : 1;
        const float  *x = data_of(f, name, "in_sum2", n, experts) + expert * n;
        cr_expect_eq(data_of(f, name, "counts", 1, experts)[expert], (float)tokens, "%s %d", name, expert);
        float most = 0.0f;
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, want[i]);
        for (int64_t i = 0; i < n; i++)
            cr_assert_leq(fabsf(x[i] - want[i]), 2e-3f * most, "%s %d: sum %lld is %g, not %g", name, expert,
                          (long long)i, (double)x[i], (double)want[i]);
    }
    cr_expect_eq(n_lines, 35, "%lld lines", (long long)n_lines);
    cr_expect_eq(rp_gguf_n_tensors(f), 2 * 17, "%lld tensors", (long long)rp_gguf_n_tensors(f));
    OK(rp_gguf_get_string(f, "general.type", &kind));
    cr_expect(kind.len == 7 && memcmp(kind.ptr, "imatrix", 7) == 0);
    OK(rp_gguf_get_u32(f, "imatrix.chunk_count", &chunks));
    OK(rp_gguf_get_u32(f, "imatrix.chunk_size", &chunk));
    cr_expect(chunks == 3 && chunk == SEQ);
    const RpGgufString set = rp_gguf_string_at(rp_gguf_find(f, "imatrix.datasets"), 0);
    cr_expect(set.len == 6 && memcmp(set.ptr, "golden", 6) == 0);
    fclose(sums);
    free(line);
    rp_gguf_close(f);
    remove_files();
}

/* Row r of y is that of x, quantised with the mean squares of its columns. */
static void check_rows(const RpGgufFile *sums, const RpGgufTensor *x, const RpGgufTensor *y) {
    char          name[96];
    float         wide[512], w[512];
    uint8_t       row[2048];
    const int64_t n = x->view.ne[0], matrices = x->view.ne[2];
    snprintf(name, sizeof name, "%.*s.in_sum2", (int)x->name.len, x->name.ptr);
    const bool has    = rp_gguf_find_tensor(sums, name) != NULL;
    name[x->name.len] = '\0';
    for (int64_t r = 0; r < rp_view_rows(&x->view); r++) {
        const int64_t matrix_of = r / x->view.ne[1];
        for (int64_t i = 0; has && i < n; i++)
            w[i] = data_of(sums, name, "in_sum2", n, matrices)[matrix_of * n + i] /
                   data_of(sums, name, "counts", 1, matrices)[matrix_of];
        rp_dequantize_row(x->view.dtype, rp_view_row(&x->view, r), n, wide);
        OK(rp_quantize_row_weighted(y->view.dtype, wide, has ? w : NULL, n, row));
        cr_assert_arr_eq(row, rp_view_row(&y->view, r), rp_row_bytes(y->view.dtype, n), "%s row %lld", name,
                         (long long)r);
    }
}

Test(imatrix, weighs_the_columns_of_each_expert) {
    RpGgufFile *a, *b, *sums;
    make_matrix("F32");
    OK(rp_requantize_with(model, out, "Q4_0", &(RpRequantizeOptions){.imatrix = matrix}));
    OK(rp_gguf_open(model, &a));
    OK(rp_gguf_open(out, &b));
    OK(rp_gguf_open(matrix, &sums));
    for (int64_t i = 0; i < rp_gguf_n_tensors(a); i++) check_rows(sums, rp_gguf_tensor(a, i), rp_gguf_tensor(b, i));
    rp_gguf_close(a), rp_gguf_close(b), rp_gguf_close(sums);
    REFUSED(rp_requantize_with(model, matrix, "Q4_0", &(RpRequantizeOptions){.imatrix = matrix}), RP_E_ARG,
            "an output must not be an input");
    REFUSED(rp_requantize_with(model, out, "Q4_0", &(RpRequantizeOptions){.imatrix = model}), RP_E_FORMAT,
            "this is no importance matrix: it has no tensor NAME.in_sum2");
    remove_files();
}

/* Writes sums [ne0, matrices] of blk.0.attn_q.weight, all `value`, and as many counts. */
static void write_sums(int64_t ne0, int64_t matrices, float value, bool counts) {
    Bytes        b     = {0};
    const size_t bytes = (size_t)(ne0 * matrices) * sizeof value, padded = (bytes + 31) / 32 * 32;
    put_header(&b, 3, counts ? 2 : 1, 0);
    put_tensor(&b, "blk.0.attn_q.weight.in_sum2", 0, (uint64_t)ne0, (uint64_t)matrices, 0);
    if (counts) put_tensor(&b, "blk.0.attn_q.weight.counts", 0, 1, (uint64_t)matrices, padded);
    put_data(&b, padded + 32);
    float *at = (float *)(void *)(b.p + b.n - padded - 32);
    for (int64_t i = 0; i < ne0 * matrices; i++) memcpy(at + i, &value, sizeof value);
    for (int64_t i = 0; i < matrices && counts; i++) memcpy(b.p + b.n - 32 + 4 * i, &(float){2.0f}, sizeof value);
    FILE *f = fopen(matrix, "wb");
    cr_assert_eq(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
    free(b.p);
}

Test(imatrix, refuses_sums_that_do_not_fit) {
    const RpRequantizeOptions o = {.imatrix = matrix};
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32", .seed = 5}, model));
    write_sums(64, 1, 1.0f, true);
    OK(rp_requantize_with(model, out, "Q4_0", &o));
    write_sums(96, 1, 1.0f, true);
    REFUSED(
        rp_requantize_with(model, out, "Q4_0", &o), RP_E_SHAPE,
        "blk.0.attn_q.weight has sums [96,1] of 1 matrices, but the tensor of the model is [64,64,1]: this importance "
        "matrix is of another model");
    write_sums(64, 2, 1.0f, true);
    REFUSED(rp_requantize_with(model, out, "Q4_0", &o), RP_E_SHAPE, "has sums [64,2] of 2 matrices");
    write_sums(64, 1, 1.0f, false);
    REFUSED(rp_requantize_with(model, out, "Q4_0", &o), RP_E_FORMAT, "blk.0.attn_q.weight has sums but no counts");
    static const int64_t f16[RP_MAX_DIMS] = {64, 1, 1, 1};
    GgufWriter          *w;
    OK(rp_gguf_writer_open(matrix, &w));
    rp_gguf_put_tensor(w, "blk.0.attn_q.weight.in_sum2", 27, RP_F16, f16);
    rp_gguf_put_tensor(w, "blk.0.attn_q.weight.counts", 26, RP_F16, f16);
    OK(rp_gguf_writer_begin(w));
    for (int i = 0; i < 128; i++) OK(rp_gguf_writer_data(w, &(uint16_t){0}, sizeof(uint16_t)));
    OK(rp_gguf_writer_close(w, RP_OK));
    REFUSED(rp_requantize_with(model, out, "Q4_0", &o), RP_E_FORMAT,
            ": sums and counts of blk.0.attn_q.weight must be f32");
    write_sums(64, 1, NAN, true);
    REFUSED(rp_requantize_with(model, out, "Q4_0", &o), RP_E_FORMAT,
            "blk.0.attn_q.weight: sum 0 is nan over 2 tokens: must be finite and not below 0");
    write_sums(64, 1, -1.0f, true);
    REFUSED(rp_requantize_with(model, out, "Q4_0", &o), RP_E_FORMAT, "sum 0 is -1 over 2 tokens");
    remove_files();
}

/* A file of matrices [256, 2] of two layers, of which the second one predicts further tokens. */
static void write_layers(const char *const *names, int n, bool sums) {
    GgufWriter *w;
    OK(rp_gguf_writer_open(sums ? matrix : model, &w));
    rp_gguf_put_string(w, "general.architecture", "glm4moe");
    rp_gguf_put_u32(w, "glm4moe.block_count", 2);
    rp_gguf_put_u32(w, "glm4moe.nextn_predict_layers", 1);
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", names[i], sums ? ".in_sum2" : "");
        rp_gguf_put_tensor(w, name, strlen(name), RP_F32, (int64_t[RP_MAX_DIMS]){256, sums ? 1 : 2, 1, 1});
        snprintf(name, sizeof name, "%s.counts", names[i]);
        if (sums) rp_gguf_put_tensor(w, name, strlen(name), RP_F32, (int64_t[RP_MAX_DIMS]){1, 1, 1, 1});
    }
    OK(rp_gguf_writer_begin(w));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < (sums ? 257 : 512); k++) {
            const float x = sums ? (k == 256 ? 2.0f : (float)(1 + k % 7)) : sinf((float)(i + k * k));
            OK(rp_gguf_writer_data(w, &x, sizeof x));
        }
    OK(rp_gguf_writer_close(w, RP_OK));
}

static RpDtype type_in(const RpGgufFile *f, const char *name) {
    const RpGgufTensor *t = rp_gguf_find_tensor(f, name);
    cr_assert_not_null(t, "%s", name);
    return t->view.dtype;
}

/* blk.0.attn_k_b is a matrix of heads, and no text reaches blk.1. */
Test(imatrix, is_needed_by_types_below_iq3_s) {
    static const char *const  names[] = {"blk.0.attn_q.weight", "blk.0.attn_k_b.weight", "blk.1.attn_q.weight"};
    const RpRequantizeOptions o       = {.imatrix = matrix};
    RpGgufFile               *f, *sums, *from;
    name_files();
    write_layers(names, 3, false);
    REFUSED(rp_requantize(model, out, "IQ2_XXS", NULL, NULL), RP_E_ARG,
            ": tensor blk.0.attn_q.weight becomes iq2_xxs, which needs an importance matrix: none is given");
    OK(rp_requantize(model, out, "IQ3_S", NULL, NULL));
    write_layers(names + 1, 1, true);
    char text[256];
    snprintf(text, sizeof text,
             "%s has no sums for blk.0.attn_q.weight of %s, which becomes iq1_m: this type needs an importance matrix",
             matrix, model);
    REFUSED(rp_requantize_with(model, out, "IQ1_M", &o), RP_E_ARG, text);
    write_layers(names, 1, true);
    OK(rp_requantize_with(model, out, "IQ2_XXS", &o));
    OK(rp_gguf_open(out, &f));
    OK(rp_gguf_open(model, &from));
    OK(rp_gguf_open(matrix, &sums));
    cr_expect_eq(type_in(f, names[0]), RP_IQ2_XXS);
    cr_expect_eq(type_in(f, names[1]), RP_Q4_K);
    cr_expect_eq(type_in(f, names[2]), RP_Q4_K);
    check_rows(sums, rp_gguf_find_tensor(from, names[0]), rp_gguf_find_tensor(f, names[0]));
    rp_gguf_close(f), rp_gguf_close(sums), rp_gguf_close(from);
    remove_files();
}

/* The same sums as write_layers(names, 1, true), as a .dat. Returns its bytes, without those behind the entries. */
static size_t write_dat(const char *name, char *data, int32_t entries, int32_t length) {
    const int32_t calls = 2, n = 256, n_name = (int32_t)strlen(name);
    size_t        at = 0;
    memcpy(data, &entries, 4), memcpy(data + 4, &length, 4), at = 8;
    memcpy(data + at, name, (size_t)n_name), at += (size_t)n_name;
    memcpy(data + at, &calls, 4), memcpy(data + at + 4, &n, 4), at += 8;
    for (int k = 0; k < n; k++, at += 4) memcpy(data + at, &(float){(float)(1 + k % 7)}, 4);
    return at;
}

static void save(const char *data, size_t n) {
    FILE *f = fopen(matrix, "wb");
    cr_assert_eq(fwrite(data, 1, n, f), n);
    fclose(f);
}

Test(imatrix, may_be_a_dat_of_llama_imatrix) {
    static const char *const  names[] = {"blk.0.attn_q.weight"};
    const RpRequantizeOptions o       = {.imatrix = matrix};
    static char               data[2048], want[8192], got[8192];
    name_files();
    write_layers(names, 1, false);
    write_layers(names, 1, true);
    OK(rp_requantize_with(model, out, "IQ2_XXS", &o));
    FILE        *f = fopen(out, "rb");
    const size_t n = fread(want, 1, sizeof want, f);
    fclose(f);
    const size_t bytes = write_dat(names[0], data, 1, 19);
    for (int tail = 0; tail < 12; tail += 11) { /* chunks and text may follow: 3, 3, "abc" */
        memcpy(data + bytes, "\3\0\0\0\3\0\0\0abc", 11);
        save(data, bytes + (size_t)tail);
        OK(rp_requantize_with(model, out, "IQ2_XXS", &o));
        f = fopen(out, "rb");
        cr_expect_eq(fread(got, 1, sizeof got, f), n, CASE(tail));
        fclose(f);
        cr_expect_arr_eq(got, want, n, CASE(tail));
    }
    REFUSED(rp_requantize_with(model, matrix, "IQ2_XXS", &o), RP_E_ARG, "an output must not be an input");
    remove(out);
    for (size_t cut = 0; cut < bytes; cut += cut < 48 ? 1 : 41) {
        save(data, cut);
        const RpStatus st = rp_requantize_with(model, out, "IQ2_XXS", &o);
        cr_expect_eq(st, RP_E_FORMAT, "%zu bytes: %s", cut, rp_status_text(st));
    }
    char                 text[160];
    static const int32_t lengths[] = {-1, 0, 121, 1 << 30}, entries[] = {-1, 0, 1 << 30};
    for (int i = 0; i < 4; i++) {
        save(data, write_dat(names[0], data, 1, lengths[i]));
        snprintf(text, sizeof text, "%s: entry 1 of 1 at byte 4 of %zu is damaged or cut off", matrix, bytes);
        REFUSED(rp_requantize_with(model, out, "IQ2_XXS", &o), RP_E_FORMAT, text);
    }
    for (int i = 0; i < 3; i++) {
        save(data, write_dat(names[0], data, entries[i], 19));
        REFUSED(rp_requantize_with(model, out, "IQ2_XXS", &o), RP_E_FORMAT,
                "this is no importance matrix: neither GGUF nor a .dat of llama-imatrix");
    }
    cr_expect_neq(access(out, F_OK), 0);
    remove_files();
}

static bool stop_at_once(size_t done, size_t total, void *user) {
    (void)done, (void)total, (void)user;
    return false;
}

Test(imatrix, can_be_stopped) {
    const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    RpModel      *m;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32", .seed = 5}, model));
    OK(rp_model_open(model, NULL, &m));
    const RpImatrixOptions o = {.chunk = 8, .n_threads = 1, .device = "cpu", .progress = stop_at_once};
    REFUSED(rp_imatrix(m, ids, 8, &o, matrix), RP_E_CANCELLED, ": the importance matrix was stopped");
    cr_expect_neq(access(matrix, F_OK), 0);
    rp_model_free(m);
    remove_files();
}

/* A norm of infinity, written over the first element in the file. */
Test(imatrix, refuses_activations_that_are_not_finite) {
    const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    RpGgufFile   *g;
    RpModel      *m;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32", .seed = 5}, model));
    OK(rp_gguf_open(model, &g));
    const char *norm = rp_gguf_find_tensor(g, "blk.1.ffn_norm.weight")->view.data;
    const long  at   = (long)(norm - (const char *)g->data);
    rp_gguf_close(g);
    FILE *f = fopen(model, "r+b");
    cr_assert_eq(fseek(f, at, SEEK_SET), 0);
    cr_assert_eq(fwrite(&(float){INFINITY}, sizeof(float), 1, f), 1u);
    fclose(f);
    OK(rp_model_open(model, NULL, &m));
    REFUSED(rp_imatrix(m, ids, 8, &(RpImatrixOptions){.chunk = 8, .n_threads = 1, .device = "cpu"}, matrix), RP_E_ARG,
            ": the activations of blk.1.ffn_gate_inp.weight are not finite");
    rp_model_free(m);
    remove_files();
}

Test(imatrix, refuses_texts_that_do_not_fit) {
    int32_t  ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    RpModel *m;
    name_files();
    OK(rp_synth("tiny", &(RpSynthOptions){.type = "F32", .seed = 5}, model));
    OK(rp_model_open(model, NULL, &m));
    REFUSED(rp_imatrix(m, ids, 8, NULL, matrix), RP_E_ARG,
            "8 tokens do not fill one chunk of 512: give more text or smaller chunks");
    REFUSED(rp_imatrix(m, ids, 8, &(RpImatrixOptions){.chunk = 1025}, matrix), RP_E_ARG,
            "chunks of 1025 tokens: must be from 1 to 1024, the context of the model");
    REFUSED(rp_imatrix(m, ids, 8, &(RpImatrixOptions){.chunk = 4}, model), RP_E_ARG, "an output must not be an input");
    ids[5] = 320;
    REFUSED(rp_imatrix(m, ids, 8, &(RpImatrixOptions){.chunk = 4}, matrix), RP_E_ARG,
            "token 320 at 5, the model has 320");
    cr_expect_neq(access(matrix, F_OK), 0);
    rp_model_free(m);
    remove_files();
}
