/* Directories of sentence-transformers: a tiny BERT has the bits of the GGUF file of the same weights (which test_embed
 * compares with llama.cpp), all-MiniLM-L6-v2 has the embeddings that NumPy computes in double. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include <math.h>
#include <sys/stat.h>

static const char text[] = "A Cafe\xcc\x81, abc! xyz";

Test(hf_encoders, a_directory_has_the_bits_of_a_file) {
    static const char *const paths[] = {GOLDEN_DIR "hf_bert", GOLDEN_DIR "embed/bert-f32.gguf"};
    float                    out[2][32];
    for (int i = 0; i < 2; i++) {
        RpModel    *m;
        RpEmbedder *e;
        OK(rp_model_open(paths[i], NULL, &m));
        cr_expect_eq(rp_model_info(m)->pooling, RP_POOLING_MEAN, "%s", paths[i]);
        OK(rp_embedder_open(m, NULL, &e));
        OK(rp_embed_text(e, text, sizeof text - 1, out[i]));
        rp_embedder_free(e);
        rp_model_free(m);
    }
    cr_expect_arr_eq(out[0], out[1], sizeof out[0]);
}

/* What `reprise quantize` writes of a directory has its tokenizer and pooling too. */
Test(hf_encoders, tokens_have_special_ones_around_them) {
    RpModel    *m;
    RpTokenList ids = {0};
    OK(rp_model_open(GOLDEN_DIR "hf_bert", NULL, &m));
    OK(rp_tokenize(rp_model_tokenizer(m), "ab", 2, RP_TOK_ADD_SPECIAL, &ids));
    const int32_t want[] = {2, 5, 32, 3}; /* [CLS] _a b [SEP] */
    cr_assert_eq(ids.n, (size_t)4);
    cr_expect_arr_eq(ids.ids, want, sizeof want);
    cr_expect_str_eq(rp_tokenizer_kind(rp_model_tokenizer(m)), "bert");
    rp_token_list_free(&ids);
    rp_model_free(m);
}

/* Copies the directory with `from` replaced in the file `name`. */
static void change(const char *name, const char *from, const char *to) {
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json"};
    char                     path[128];
    hf_begin();
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    for (int i = 0; i < 4; i++) {
        const bool changes = strcmp(files[i], name) == 0;
        hf_change("hf_bert", files[i], changes ? from : NULL, changes ? to : NULL);
    }
}

static void refuse(const char *name, const char *from, const char *to, RpStatus status, const char *why) {
    change(name, from, to);
    REFUSED(hf_open(), status, why);
    hf_end();
}

Test(hf_encoders, bad_files_are_refused) {
    static const char config[] = "config.json", pooling[] = "1_Pooling/config.json", tokenizer[] = "tokenizer.json";
    refuse(config, "\"absolute\"", "\"relative_key\"", RP_E_UNSUPPORTED, "position_embedding_type");
    refuse(config, "\"model_type\"", "\"is_decoder\": true, \"model_type\"", RP_E_UNSUPPORTED, "is_decoder");
    refuse(config, "\"gelu\"", "\"relu\"", RP_E_UNSUPPORTED, "hidden_act 'relu' is not supported (bert computes gelu)");
    refuse(pooling, "\"pooling_mode_max_tokens\": false", "\"pooling_mode_max_tokens\": true", RP_E_UNSUPPORTED,
           "pooling_mode_max_tokens is not supported");
    refuse(pooling, "\"pooling_mode_cls_token\": false", "\"pooling_mode_cls_token\": true", RP_E_UNSUPPORTED,
           "two modes of pooling are not supported");
    refuse(tokenizer, "\"BertNormalizer\"", "\"NFC\"", RP_E_UNSUPPORTED,
           "normalizer of WordPiece 'NFC' is not supported");
    refuse(tokenizer, "\"BertPreTokenizer\"", "\"Whitespace\"", RP_E_UNSUPPORTED,
           "pre_tokenizer of WordPiece 'Whitespace' is not supported");
    refuse(tokenizer, "\"clean_text\": true", "\"clean_text\": false", RP_E_UNSUPPORTED,
           "a BertNormalizer without clean_text or handle_chinese_chars");
    refuse(tokenizer, "\"continuing_subword_prefix\": \"##\"", "\"continuing_subword_prefix\": \"@@\"",
           RP_E_UNSUPPORTED, "continuing_subword_prefix '@@' is not supported");
    refuse(tokenizer, "\"max_input_chars_per_word\": 100", "\"max_input_chars_per_word\": 50", RP_E_UNSUPPORTED,
           "max_input_chars_per_word");
}

Test(hf_encoders, cased_vocabularies_and_other_poolings) {
    RpModel    *m;
    RpTokenList ids = {0};
    change("tokenizer.json", "\"lowercase\": true", "\"lowercase\": false");
    OK(rp_model_open(folder, NULL, &m));
    OK(rp_tokenize(rp_model_tokenizer(m), "A", 1, 0, &ids));
    cr_expect(ids.n == 1 && ids.ids[0] == 1, "A is unknown");
    rp_token_list_free(&ids);
    rp_model_free(m);
    hf_end();
    change("1_Pooling/config.json", "\"pooling_mode_mean_tokens\": true", "\"pooling_mode_lasttoken\": true");
    OK(rp_model_open(folder, NULL, &m));
    cr_expect_eq(rp_model_info(m)->pooling, RP_POOLING_LAST);
    rp_model_free(m);
    hf_end();
}

/* GELU here is the one by tanh, the model was trained with the one by erf. */
Test(hf_encoders, all_minilm_has_the_embeddings_of_numpy) {
    static int32_t want_ids[512];
    static float   want[384], got[384];
    const char    *path = model_path("all-minilm-l6-v2");
    char          *line = NULL;
    size_t         size = 0, len;
    RpModel       *m;
    RpEmbedder    *e;
    double         worst = 0.0;
    int            n     = 0;
    FILE          *f     = golden_open("minilm.txt");
    OK(rp_model_open(path, NULL, &m));
    OK(rp_embedder_open(m, &(RpEmbedderOptions){.n_threads = 2}, &e));
    cr_assert_eq(rp_embedder_info(e).n_out, 384);
    for (char *at; (at = golden_line(f, &line, &size)) != NULL; n++) {
        char        *bytes = golden_hex(&at, &len);
        RpTokenList  ids   = {0};
        const size_t n_ids = golden_ids(at, want_ids, 512);
        OK(rp_tokenize(rp_model_tokenizer(m), bytes, len, RP_TOK_ADD_SPECIAL, &ids));
        cr_assert(ids.n == n_ids && memcmp(ids.ids, want_ids, n_ids * sizeof *want_ids) == 0, "text %d", n);
        cr_assert_eq(golden_floats(golden_line(f, &line, &size), want, 384), (size_t)384, "text %d", n);
        OK(rp_embed_text(e, bytes, len, got));
        for (int i = 0; i < 384; i++) worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
        rp_token_list_free(&ids);
        free(bytes);
    }
    cr_log_info("all-MiniLM-L6-v2: %d texts, off by at most %.6f\n", n, worst);
    cr_expect_gt(n, 5);
    cr_expect_lt(worst, 5e-4);
    free(line);
    fclose(f);
    rp_embedder_free(e);
    rp_model_free(m);
}
