/* Tokenizers that the library trains against those that Hugging Face's tokenizers trains on the same texts
 * (tools/golden/golden_bpe_train.py), and the model with which a training begins against the statistics of its
 * weights. */
#include "tests/support/gguf_writer.h"

#include "reprise/convert.h"

#include <math.h>

enum { MAX_TEXTS = 32 };

static char path[64], other[80];

static void name_files(void) {
    snprintf(path, sizeof path, "/tmp/rp-bpe-%d.gguf", (int)getpid());
    snprintf(other, sizeof other, "/tmp/rp-bpe-%d-2.gguf", (int)getpid());
}

/* The file as a text; the caller frees. */
static char *read_all(const char *name, size_t *n) {
    enum { ROOM = 1 << 22 };
    FILE *f = fopen(name, "rb");
    char *p = malloc(ROOM);
    cr_assert(f != NULL && p != NULL, "%s", name);
    *n    = fread(p, 1, ROOM - 1, f);
    p[*n] = '\0';
    fclose(f);
    return p;
}

/* Splits the golden text at blank lines. The caller frees the text that is returned. */
static char *golden_texts(RpGgufString *texts, size_t *n) {
    size_t len;
    char  *text = read_all(GOLDEN_DIR "bpe_train/text.txt", &len);
    *n          = 0;
    for (char *at = text; at != NULL && *n < MAX_TEXTS;) {
        char *end     = strstr(at, "\n\n");
        texts[(*n)++] = (RpGgufString){at, end != NULL ? (size_t)(end - at) : strlen(at)};
        at            = end != NULL ? end + 2 : NULL;
    }
    return text;
}

static void check_merges(int32_t n_vocab, const char *golden) {
    RpGgufString texts[MAX_TEXTS];
    size_t       n, size = 0, n_merges = 0;
    char        *line = NULL, *text = golden_texts(texts, &n), head[128];
    RpGgufFile  *f;
    int          n_tokens;
    name_files();
    OK(rp_train_tokenizer(texts, n, &(RpTrainTokenizerOptions){.n_vocab = n_vocab}, path));
    OK(rp_gguf_open(path, &f));
    const RpGgufValue *merges = rp_gguf_find(f, "tokenizer.ggml.merges"),
                      *tokens = rp_gguf_find(f, "tokenizer.ggml.tokens");
    FILE *in                  = golden_open(golden);
    cr_assert_not_null(fgets(head, sizeof head, in));
    cr_assert_eq(sscanf(head, "# tokenizers 0.23.3: %d tokens", &n_tokens), 1, "%s", head);
    cr_expect_eq(tokens->n, (uint64_t)n_tokens, "%llu tokens", (unsigned long long)tokens->n);
    for (ssize_t len; (len = getline(&line, &size, in)) > 0; n_merges++) {
        const RpGgufString got = rp_gguf_string_at(merges, n_merges);
        cr_assert(got.len == (size_t)len - 1 && memcmp(got.ptr, line, got.len) == 0, "merge %zu: %.*s instead of %s",
                  n_merges, (int)got.len, got.ptr, line);
    }
    cr_expect_eq(merges->n, n_merges);
    free(line);
    free(text);
    fclose(in);
    rp_gguf_close(f);
    remove(path);
}

Test(bpe_train, merges_as_tokenizers_does) { check_merges(1024, "bpe_train/merges-1024.txt"); }
Test(bpe_train, stops_at_a_small_vocabulary) { check_merges(300, "bpe_train/merges-300.txt"); }
Test(bpe_train, stops_when_every_word_is_a_token) { check_merges(8192, "bpe_train/merges-8192.txt"); }

Test(bpe_train, every_text_comes_back) {
    RpGgufString texts[MAX_TEXTS];
    size_t       n, bytes = 0;
    char        *text = golden_texts(texts, &n);
    RpGgufFile  *f;
    RpTokenizer *tk;
    RpTokenList  ids = {0};
    name_files();
    OK(rp_train_tokenizer(texts, n, &(RpTrainTokenizerOptions){.n_vocab = 1000}, path));
    OK(rp_gguf_open(path, &f));
    OK(rp_tokenizer_new(f, &tk));
    cr_expect_eq(rp_tokenizer_bos(tk), 0);
    cr_expect_eq(rp_tokenizer_eos(tk), 0);
    cr_expect(rp_tokenizer_adds_bos(tk) && rp_tokenizer_is_control(tk, 0));
    cr_expect_eq(rp_tokenizer_find(tk, "<|end|>"), 0);
    OK(rp_tokenize(tk, text, strlen(text), 0, &ids));
    cr_expect_lt(ids.n, strlen(text) / 2);
    for (size_t i = 0; i < ids.n; i++) {
        RpGgufString piece;
        OK(rp_token_bytes(tk, ids.ids[i], true, &piece));
        cr_assert_eq(memcmp(text + bytes, piece.ptr, piece.len), 0, "token %zu", i);
        bytes += piece.len;
    }
    cr_expect_eq(bytes, strlen(text));
    rp_token_list_free(&ids);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    free(text);
    remove(path);
}

static bool stop_at_once(size_t done, size_t total, void *user) {
    ++*(int *)user;
    return done > total;
}

Test(bpe_train, refuses_what_is_no_text_or_too_small) {
    const RpGgufString text = {"some text", 9}, empty = {"", 0};
    int                calls = 0;
    name_files();
    REFUSED(rp_train_tokenizer(&empty, 1, NULL, path), RP_E_ARG, "a tokenizer cannot be trained on no text");
    REFUSED(rp_train_tokenizer(&text, 0, NULL, path), RP_E_ARG, "a tokenizer cannot be trained on no text");
    REFUSED(rp_train_tokenizer(&text, 1, &(RpTrainTokenizerOptions){.n_vocab = 256}, path), RP_E_ARG,
            "a vocabulary of 256 tokens: the end token and the bytes are 257 already");
    REFUSED(rp_train_tokenizer(&text, 1, NULL, "/nowhere/at/all"), RP_E_IO, "/nowhere/at/all");
    REFUSED(rp_train_tokenizer(&text, 1, &(RpTrainTokenizerOptions){.progress = stop_at_once, .user = &calls}, path),
            RP_E_CANCELLED, "the training of a tokenizer was stopped");
    cr_expect_eq(calls, 1);
    cr_expect_neq(access(path, F_OK), 0);
}

/* ---- the initial model ---- */

/* Mean, deviation and kurtosis of a tensor. */
static void moments(const RpGgufTensor *t, double *mean, double *deviation, double *kurtosis) {
    const float  *x   = t->view.data;
    const int64_t n   = rp_view_elems(&t->view);
    double        sum = 0.0, squares = 0.0, fourth = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - *mean;
        squares += d * d;
        fourth += d * d * d * d;
    }
    *deviation = sqrt(squares / (double)n);
    *kurtosis  = squares > 0.0 ? fourth / (double)n / pow(squares / (double)n, 2.0) : 0.0;
}

static void check_weights(const RpGgufFile *f, const char *name, double deviation) {
    const RpGgufTensor *t = rp_gguf_find_tensor(f, name);
    double              mean, got, kurtosis;
    cr_assert_not_null(t, "%s", name);
    cr_expect_eq(t->view.dtype, RP_F32);
    const double n = (double)rp_view_elems(&t->view);
    moments(t, &mean, &got, &kurtosis);
    cr_expect_leq(fabs(mean), 5.0 * deviation / sqrt(n), "%s: mean %g", name, mean);
    cr_expect_leq(fabs(got / deviation - 1.0), 5.0 / sqrt(2.0 * n), "%s: %g instead of %g", name, got, deviation);
    cr_expect_leq(fabs(kurtosis - 2.9), 5.0 * sqrt(24.0 / n), "%s: kurtosis %g", name, kurtosis);
}

Test(bpe_train, the_demo_has_8_million_parameters_of_these_deviations) {
    RpModel *m;
    double   mean, deviation, kurtosis;
    name_files();
    RpGgufString texts[MAX_TEXTS];
    size_t       n;
    char        *text = golden_texts(texts, &n);
    OK(rp_train_tokenizer(texts, n, &(RpTrainTokenizerOptions){.n_vocab = 700}, other));
    OK(rp_train_init("demo", &(RpTrainInitOptions){.tokenizer = other, .seed = 3}, path));
    OK(rp_model_open(path, NULL, &m));
    const RpModelInfo *info = rp_model_info(m);
    cr_expect_str_eq(info->arch, "qwen3moe");
    cr_expect_eq(info->n_vocab, 700);
    cr_expect_eq(info->n_ctx_train, 256);
    cr_expect_eq(info->n_params, 8137472 - (4096 - 700) * 256, "%lld", (long long)info->n_params);
    rp_model_free(m);
    RpGgufFile *f;
    OK(rp_gguf_open(path, &f));
    cr_expect_eq(rp_gguf_n_tensors(f), 2 + 4 * 12);
    check_weights(f, "token_embd.weight", 1.0 / 16.0);
    check_weights(f, "blk.3.attn_q.weight", 1.0 / 16.0);
    check_weights(f, "blk.1.attn_v.weight", 1.0 / 16.0);
    check_weights(f, "blk.2.attn_output.weight", 1.0 / 16.0 / sqrt(8.0));
    check_weights(f, "blk.0.ffn_gate_inp.weight", 1.0 / 16.0);
    check_weights(f, "blk.0.ffn_up_exps.weight", 1.0 / 16.0);
    check_weights(f, "blk.0.ffn_down_exps.weight", 1.0 / 16.0 / sqrt(8.0));
    moments(rp_gguf_find_tensor(f, "blk.0.attn_q_norm.weight"), &mean, &deviation, &kurtosis);
    cr_expect(mean == 1.0 && deviation == 0.0);
    float eps = 0.0f;
    OK(rp_gguf_get_f32(f, "qwen3moe.attention.layer_norm_rms_epsilon", &eps));
    cr_expect_eq(eps, 1e-6f);
    rp_gguf_close(f);
    free(text);
    remove(path), remove(other);
}

Test(bpe_train, biases_begin_at_0_and_every_small_preset_opens) {
    double   mean, deviation, kurtosis;
    RpModel *m;
    name_files();
    OK(rp_train_init("tiny", NULL, path));
    OK(rp_model_open(path, NULL, &m));
    cr_expect_eq(rp_model_info(m)->n_vocab, 320);
    rp_model_free(m);
    size_t n, n_other;
    OK(rp_train_init("tiny", NULL, other));
    char *a = read_all(path, &n), *b = read_all(other, &n_other);
    cr_expect(n == n_other && memcmp(a, b, n) == 0, "the same seed gives the same file");
    free(b);
    OK(rp_train_init("tiny", &(RpTrainInitOptions){.seed = 1}, other));
    b = read_all(other, &n_other);
    cr_expect(memcmp(a, b, n) != 0, "another seed gives another file");
    free(a), free(b);
    RpGgufString texts[MAX_TEXTS];
    char        *text = golden_texts(texts, &n);
    OK(rp_train_tokenizer(texts, n, &(RpTrainTokenizerOptions){.n_vocab = 300}, other));
    OK(rp_train_init("qwen2.5-0.5b", &(RpTrainInitOptions){.tokenizer = other}, path));
    RpGgufFile *f;
    OK(rp_gguf_open(path, &f));
    moments(rp_gguf_find_tensor(f, "blk.0.attn_q.bias"), &mean, &deviation, &kurtosis);
    cr_expect(mean == 0.0 && deviation == 0.0);
    rp_gguf_close(f);
    free(text);
    remove(path), remove(other);
}

Test(bpe_train, refuses_an_unknown_preset_and_a_file_without_a_tokenizer) {
    name_files();
    REFUSED(rp_train_init("enormous", NULL, path), RP_E_ARG, "there is no preset 'enormous' (there are tiny, demo, ");
    REFUSED(rp_train_init("tiny", &(RpTrainInitOptions){.tokenizer = "/nowhere.gguf"}, path), RP_E_IO, "/nowhere.gguf");
    Bytes bytes = {0};
    put_header(&bytes, 3, 0, 0);
    FILE *f = fopen(other, "wb");
    cr_assert(f != NULL && fwrite(bytes.p, 1, bytes.n, f) == bytes.n);
    fclose(f);
    free(bytes.p);
    REFUSED(rp_train_init("tiny", &(RpTrainInitOptions){.tokenizer = other}, path), RP_E_UNSUPPORTED,
            " has no tokenizer (tokenizer.ggml.model is absent)");
    REFUSED(rp_train_init("tiny", &(RpTrainInitOptions){.tokenizer = other}, other), RP_E_ARG,
            "an output must not be an input");
    int calls = 0;
    REFUSED(rp_train_init("tiny", &(RpTrainInitOptions){.progress = stop_at_once, .user = &calls}, path),
            RP_E_CANCELLED, "tiny: writing was stopped");
    REFUSED(rp_train_init("tiny", NULL, "/nowhere/x.gguf"), RP_E_IO, "/nowhere/x.gguf");
    cr_expect_neq(access(path, F_OK), 0);
    remove(other);
}
