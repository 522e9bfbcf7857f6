/* Directories of sentence-transformers: a tiny BERT has the bits of the GGUF file of the same weights (which test_embed
 * compares with llama.cpp), all-MiniLM-L6-v2 has the embeddings that NumPy computes in double. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include <math.h>
#include <sys/stat.h>

static const char text[] = "A Cafe\xcc\x81, abc! xyz";

static void embed(const char *path, float out[32]) {
    RpModel    *m;
    RpEmbedder *e;
    OK(rp_model_open(path, NULL, &m));
    cr_expect_eq(rp_model_info(m)->pooling, RP_POOLING_MEAN, "%s", path);
    OK(rp_embedder_open(m, NULL, &e));
    OK(rp_embed_text(e, text, sizeof text - 1, out));
    rp_embedder_free(e);
    rp_model_free(m);
}

Test(hf_encoders, a_directory_has_the_bits_of_a_file) {
    float out[2][32];
    embed(GOLDEN_DIR "hf_bert", out[0]);
    embed(GOLDEN_DIR "embed/bert-f32.gguf", out[1]);
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

/* sentence-transformers 6.2 puts the normalizer Lowercase in front of others, if there is none. */
Test(hf_encoders, do_lower_case_of_sentence_transformers) {
    static const char config[] = "{\"max_seq_length\": 8, \"do_lower_case\": true}";
    static const char accent[] = "A\xc3\x89";
    change("tokenizer.json", "\"lowercase\": true", "\"lowercase\": false");
    for (int i = 0; i < 2; i++) {
        RpModel    *m;
        RpTokenList ids = {0};
        if (i == 1) hf_write("sentence_roberta_config.json", config, sizeof config - 1);
        OK(rp_model_open(folder, NULL, &m));
        OK(rp_tokenize(rp_model_tokenizer(m), "AB", 2, 0, &ids));
        cr_expect_eq(ids.n, i == 0 ? (size_t)1 : (size_t)2, "%d: %zu ids", i, ids.n);
        cr_expect_eq(ids.ids[0], i == 0 ? 1 : 5, "%d: %d", i, ids.ids[0]);
        rp_token_list_free(&ids);
        /* accents stay */
        OK(rp_tokenize(rp_model_tokenizer(m), accent, sizeof accent - 1, 0, &ids));
        cr_expect(ids.n == 1 && ids.ids[0] == 1, "%d: %zu ids", i, ids.n);
        rp_token_list_free(&ids);
        rp_model_free(m);
    }
    hf_end();
}

static RpPooling pooling_of_folder(void) {
    RpModel *m;
    OK(rp_model_open(folder, NULL, &m));
    const RpPooling pooling = (RpPooling)rp_model_info(m)->pooling;
    rp_model_free(m);
    return pooling;
}

/* sentence-transformers 6.2 writes "pooling_mode"; without any mode it takes the mean. */
Test(hf_encoders, newer_names_of_poolings) {
    static const struct {
        const char *text;
        RpPooling   want;
    } cases[] = {
        {"{\"embedding_dimension\": 32, \"pooling_mode\": \"cls\", \"include_prompt\": true}", RP_POOLING_CLS },
        {"{\"pooling_mode\": [\"lasttoken\"], \"pooling_mode_mean_tokens\": true}",            RP_POOLING_LAST},
        {"{\"pooling_mode\": \"mean\", \"pooling_mode_max_tokens\": true}",                    RP_POOLING_MEAN},
        {"{\"pooling_mode_cls_token\": false, \"pooling_mode_mean_tokens\": false}",           RP_POOLING_MEAN},
        {"{\"word_embedding_dimension\": 32}",                                                 RP_POOLING_MEAN},
    };
    static const struct {
        const char *text;
        RpStatus    status;
        const char *why;
    } refused[] = {
        {"{\"pooling_mode\": \"weightedmean\"}",    RP_E_UNSUPPORTED,
         "pooling_mode 'weightedmean' is not supported (there are mean, cls and lasttoken)"                               },
        {"{\"pooling_mode\": [\"cls\", \"mean\"]}", RP_E_UNSUPPORTED, "two modes of pooling are not supported"            },
        {"{\"pooling_mode\": []}",                  RP_E_FORMAT,      "pooling_mode is neither a text nor a list of texts"},
        {"{\"pooling_mode\": null}",                RP_E_FORMAT,      "pooling_mode is neither a text nor a list of"      },
    };
    change("config.json", NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_write("1_Pooling/config.json", cases[i].text, strlen(cases[i].text));
        cr_expect_eq(pooling_of_folder(), cases[i].want, CASE(i));
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        hf_write("1_Pooling/config.json", refused[i].text, strlen(refused[i].text));
        REFUSED(hf_open(), refused[i].status, refused[i].why);
        cr_expect_not_null(strstr(rp_last_error(), "1_Pooling/config.json"), CASE(i));
    }
    hf_end();
}

#define MODULE(path, type) "{\"idx\": 0, \"name\": \"\", \"path\": \"" path "\", \"type\": \"" type "\"}"
#define MODEL              MODULE("", "sentence_transformers.models.Transformer")
#define POOLING(path)      MODULE(path, "sentence_transformers.sentence_transformer.modules.pooling.Pooling")
#define NORMALIZE          MODULE("2_Normalize", "sentence_transformers.models.Normalize")

static void write_modules(const char *list) { hf_write("modules.json", list, strlen(list)); }

static void refuse_modules(const char *list, RpStatus status, const char *why) {
    write_modules(list);
    REFUSED(hf_open(), status, why);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
}

Test(hf_encoders, modules_of_sentence_transformers) {
    static const char other[] = "{\"pooling_mode\": \"cls\"}";
    char              path[128];
    change("config.json", NULL, NULL);
    write_modules("[" MODEL ", " POOLING("1_Pooling") ", " NORMALIZE "]");
    cr_expect_eq(pooling_of_folder(), RP_POOLING_MEAN);
    write_modules("[" MODEL "]");
    cr_expect_eq(pooling_of_folder(), RP_POOLING_DEFAULT);
    snprintf(path, sizeof path, "%s/pool", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    hf_write("pool/config.json", other, sizeof other - 1);
    write_modules("[" MODEL ", " POOLING("pool") "]");
    cr_expect_eq(pooling_of_folder(), RP_POOLING_CLS);
    hf_end();
}

Test(hf_encoders, modules_that_are_refused) {
    char path[128];
    change("config.json", NULL, NULL);
    refuse_modules("[" MODEL ", " POOLING("1_Pooling") ", " MODULE("2_CNN", "sentence_transformers.models.CNN") "]",
                   RP_E_UNSUPPORTED,
                   "modules.json: module 2 is a 'sentence_transformers.models.CNN', which is not supported (there are "
                   "Transformer, Pooling, Dense and Normalize)");
    refuse_modules("[" MODULE("", "custom.Transformer") "]", RP_E_UNSUPPORTED,
                   "module 0 is a 'custom.Transformer', which");
    refuse_modules("[7]", RP_E_UNSUPPORTED, "module 0 is a '', which is not supported");
    refuse_modules("[" POOLING("1_Pooling") "]", RP_E_UNSUPPORTED, "a Pooling as module 0 is not supported");
    refuse_modules("[" MODEL ", " MODEL "]", RP_E_UNSUPPORTED, "a Transformer as module 1 is not supported");
    refuse_modules("[" MODEL ", " NORMALIZE ", " POOLING("1_Pooling") "]", RP_E_UNSUPPORTED,
                   "a Pooling as module 2 is not supported");
    refuse_modules("[" MODULE("0_Transformer", "sentence_transformers.models.Transformer") "]", RP_E_UNSUPPORTED,
                   "a Transformer in the folder '0_Transformer' is not supported");
    refuse_modules("{}", RP_E_FORMAT, "modules.json: this is no JSON list");
    refuse_modules("[" MODEL ", " POOLING("") "]", RP_E_FORMAT, "the path of module 1 is no name of a folder");
    refuse_modules("[" MODEL ", " POOLING("a\\u0000b") "]", RP_E_FORMAT, "the path of module 1 is no name of a folder");
    refuse_modules("[" MODEL ", " POOLING("none") "]", RP_E_IO,
                   "modules.json names a module in none, and there is no none/config.json");
    refuse_modules("[" MODEL ", " POOLING("..") "]", RP_E_FORMAT,
                   "'../config.json' is no name of a file in this directory");
    refuse_modules("[" MODEL ", " POOLING("1_Pooling/..") "]", RP_E_FORMAT,
                   "'1_Pooling/../config.json' is no name of a file in this directory");
    refuse_modules("[" MODEL ", " POOLING("/tmp") "]", RP_E_FORMAT,
                   "'/tmp/config.json' is no name of a file in this directory");
    snprintf(path, sizeof path, "%s/outside", folder);
    cr_assert_eq(symlink(GOLDEN_DIR "hf_bert/1_Pooling", path), 0);
    refuse_modules("[" MODEL ", " POOLING("outside") "]", RP_E_FORMAT,
                   "outside/config.json: this link leads out of the directory");
    hf_end();
}

/* ---- linear layers behind the pooling ---- */

enum { N_IN = 32, N_OUT = 5 };

#define DENSE(path)    MODULE(path, "sentence_transformers.base.modules.dense.Dense")
#define IDENTITY       "\"activation_function\": \"torch.nn.modules.linear.Identity\""
#define F32(shape, at) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" at "}"

/* Weights [N_OUT, N_IN] and a bias [N_OUT], some numbers between -1 and 1. */
static void write_dense(const char *header, const float *data, size_t n) {
    const uint64_t len = strlen(header);
    char           p[2048];
    memcpy(p, &len, sizeof len);
    memcpy(p + sizeof len, header, (size_t)len);
    memcpy(p + sizeof len + len, data, n * sizeof *data);
    hf_write("2_Dense/model.safetensors", p, sizeof len + (size_t)len + n * sizeof *data);
}

static void begin_dense(float data[N_OUT * (N_IN + 1)]) {
    static const char header[] =
        "{\"linear.weight\":" F32("[5,32]", "[0,640]") ",\"linear.bias\":" F32("[5]", "[640,660]") "}";
    static const char config[] = "{\"in_features\": 32, \"out_features\": 5, \"bias\": true, " IDENTITY "}";
    char              path[128];
    for (int i = 0; i < N_OUT * (N_IN + 1); i++) data[i] = (float)(i * 7 % 19 - 9) / 9.0f;
    change("config.json", NULL, NULL);
    snprintf(path, sizeof path, "%s/2_Dense", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    hf_write("2_Dense/config.json", config, sizeof config - 1);
    write_dense(header, data, (size_t)N_OUT * (N_IN + 1));
    write_modules("[" MODEL ", " POOLING("1_Pooling") ", " DENSE("2_Dense") ", " NORMALIZE "]");
}

static void embed_plainly(const char *path, float *out, int n_out) {
    RpModel    *m;
    RpEmbedder *e;
    OK(rp_model_open(path, NULL, &m));
    OK(rp_embedder_open(m, &(RpEmbedderOptions){.normalize = RP_NORMALIZE_NONE}, &e));
    cr_assert_eq(rp_embedder_info(e).n_out, n_out);
    OK(rp_embed_text(e, text, sizeof text - 1, out));
    rp_embedder_free(e);
    rp_model_free(m);
}

Test(hf_encoders, a_linear_layer_behind_the_pooling) {
    float data[N_OUT * (N_IN + 1)], in[N_IN], out[N_OUT];
    begin_dense(data);
    embed_plainly(GOLDEN_DIR "hf_bert", in, N_IN);
    embed_plainly(folder, out, N_OUT);
    for (int i = 0; i < N_OUT; i++) {
        double want = (double)data[N_OUT * N_IN + i];
        for (int k = 0; k < N_IN; k++) want += (double)data[i * N_IN + k] * (double)in[k];
        cr_expect_lt(fabs((double)out[i] - want), 1e-5, CASE(i));
    }
    hf_end();
}

Test(hf_encoders, linear_layers_that_are_refused) {
    static const struct {
        const char *config, *why;
    } cases[] = {
        {"{\"activation_function\": \"torch.nn.modules.activation.Tanh\"}",
         "activation_function 'torch.nn.modules.activation.Tanh' is not supported (there is "
         "torch.nn.modules.linear.Identity)"                                                                         },
        {"{}",                                                              "activation_function '' is not supported"},
        {"{" IDENTITY ", \"use_residual\": true}",                          "use_residual is not supported"          },
        {"{" IDENTITY ", \"module_input_name\": \"token_embeddings\"}",
         "another module_input_name than sentence_embedding is not supported"                                        },
    };
    float data[N_OUT * (N_IN + 1)];
    begin_dense(data);
    write_dense("{\"linear.weight\":" F32("[5,32]", "[0,640]") ",\"residual.weight\":" F32("[5]", "[640,660]") "}",
                data, 165);
    REFUSED(
        hf_open(), RP_E_UNSUPPORTED,
        "2_Dense/model.safetensors: tensor residual.weight is not supported (there are linear.weight and linear.bias)");
    write_dense("{\"linear.bias\":" F32("[5]", "[0,20]") "}", data, 5);
    REFUSED(hf_open(), RP_E_FORMAT, "2_Dense/model.safetensors: tensor linear.weight is missing");
    write_dense("{\"linear.weight\":" F32("[5,4]", "[0,80]") "}", data, 20);
    REFUSED(hf_open(), RP_E_SHAPE, "dense_2.weight");
    for (int i = 0; i < 4; i++) {
        hf_write("2_Dense/config.json", cases[i].config, strlen(cases[i].config));
        REFUSED(hf_open(), RP_E_UNSUPPORTED, cases[i].why);
        cr_expect_not_null(strstr(rp_last_error(), "2_Dense/config.json"), CASE(i));
    }
    refuse_modules("[" MODEL ", " DENSE("2_Dense") "]", RP_E_UNSUPPORTED, "a Dense as module 1 is not supported");
    refuse_modules("[" MODEL ", " POOLING("1_Pooling") ", " NORMALIZE ", " DENSE("2_Dense") "]", RP_E_UNSUPPORTED,
                   "a Dense as module 3 is not supported");
    hf_end();
}

Test(hf_encoders, older_names_of_norms) {
    static const char *const names[][2] = {
        {"LayerNorm.weight", "LayerNorm.gamma"},
        {"LayerNorm.bias",   "LayerNorm.beta" },
    };
    float out[2][32];
    change("config.json", NULL, NULL);
    hf_rename("hf_bert", names, 2);
    embed(GOLDEN_DIR "hf_bert", out[0]);
    embed(folder, out[1]);
    cr_expect_arr_eq(out[0], out[1], sizeof out[0]);
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
