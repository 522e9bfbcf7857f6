/* Directories with a classification head against transformers: the scores of pairs of texts of tiny models
 * (tools/golden/hf/golden_hf_encoders.py), and what is refused. Passes that quantise activations are off. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include "reprise/convert.h"

#include <math.h>

enum { MAX_IDS = 128, MAX_LABELS = 4 };

typedef struct Model {
    const char *name, *tokenizer; /* directories of tests/golden; NULL: the same one */
    int         n_labels;
    bool        types; /* the document has the type 1 */
} Model;

static const Model models[] = {
    {"bert-rank",           NULL,                        1, true },
    {"roberta-rank",        NULL,                        2, false},
    {"xlm-roberta-rank",    "hf_tokenizers/xlm-roberta", 1, false},
    {"modernbert-rank",     NULL,                        3, false},
    {"modernbert-rank-cls", NULL,                        1, false},
};

enum { N_MODELS = sizeof models / sizeof models[0] };

static const char *directory(const Model *m) {
    static char dir[128];
    snprintf(dir, sizeof dir, "hf_encoders/%s", m->name);
    return dir;
}

static void begin(const Model *m) {
    hf_begin();
    hf_copy(directory(m), "config.json");
    hf_copy_weights(directory(m));
    hf_copy(m->tokenizer != NULL ? m->tokenizer : directory(m), "tokenizer.json");
}

/* Lines "pair", "ids" and "scores". Returns how many pairs were compared. */
static int compare(const Model *model, const char *path) {
    const RpEmbedderOptions o = {.passes = "-quantize", .n_threads = 1};
    char                    golden[160], *line = NULL, *query = NULL, *document = NULL;
    size_t                  size = 0, n_query = 0, n_document = 0, n_ids = 0;
    int32_t                 ids[MAX_IDS];
    float                   want[MAX_LABELS], all[MAX_LABELS], score;
    RpModel                *m;
    RpEmbedder             *e;
    int                     n = 0;
    OK(rp_model_open(path, NULL, &m));
    OK(rp_embedder_open(m, &o, &e));
    cr_expect_eq(rp_embedder_info(e).pooling, RP_POOLING_RANK, "%s", path);
    cr_assert_eq(rp_embedder_info(e).n_out, model->n_labels, "%s", path);
    snprintf(golden, sizeof golden, "%s/scores.txt", directory(model));
    FILE *f = golden_open(golden);
    for (char *at; (at = golden_line(f, &line, &size)) != NULL;) {
        char *rest = strchr(at, ' ') + 1;
        if (at[0] == 'p') {
            query = golden_hex(&rest, &n_query);
            rest++;
            document = golden_hex(&rest, &n_document);
        }
        if (at[0] == 'i') n_ids = golden_ids(rest, ids, MAX_IDS);
        if (at[0] != 's') continue;
        cr_assert_eq(golden_floats(rest, want, MAX_LABELS), (size_t)model->n_labels, "%s", path);
        OK(rp_rerank(e, query, n_query, document, n_document, &score));
        cr_expect_lt(fabs((double)score - (double)want[0]), 2e-4, "%s, pair %d: %g, not %g", path, n, (double)score,
                     (double)want[0]);
        OK(rp_embed(e, ids, n_ids, all)); /* all tokens of type 0 */
        for (int i = 0; i < model->n_labels && !model->types; i++)
            cr_expect_lt(fabs((double)all[i] - (double)want[i]), 2e-4, "%s, pair %d, label %d", path, n, i);
        cr_expect((all[0] == score) != model->types, "%s, pair %d: %.9g, %.9g", path, n, (double)all[0], (double)score);
        free(query);
        free(document);
        n++;
    }
    free(line);
    fclose(f);
    rp_embedder_free(e);
    rp_model_free(m);
    return n;
}

Test(hf_rerank, scores_are_those_of_transformers) {
    for (int i = 0; i < N_MODELS; i++) {
        begin(&models[i]);
        cr_expect_eq(compare(&models[i], folder), 4, "%s", models[i].name);
        hf_end();
    }
}

/* A file that `reprise quantize` makes of a directory keeps the head and the special tokens of pairs. */
Test(hf_rerank, a_file_that_is_made_of_a_directory_has_its_scores) {
    for (int i = 0; i < N_MODELS; i++) {
        char path[128];
        begin(&models[i]);
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        OK(rp_requantize(folder, path, "f32", NULL, NULL));
        cr_expect_eq(compare(&models[i], path), 4, "%s", models[i].name);
        hf_end();
    }
}

static void rename_key(char *data, size_t n, const char *from, const char *to) {
    char *at = memmem(data, n, from, strlen(from));
    cr_assert_not_null(at, "%s", from);
    memcpy(at, to, strlen(to));
}

/* Older versions of llama.cpp's converter did not write how pairs are separated. RoBERTa has two tokens there. */
Test(hf_rerank, files_of_older_converters) {
    static const int roberta[] = {1, 2};
    for (int i = 0; i < 2; i++) {
        enum { ROOM = 1 << 20 };
        const Model *model = &models[roberta[i]];
        char         path[128], *data = malloc(ROOM);
        begin(model);
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        OK(rp_requantize(folder, path, "f32", NULL, NULL));
        FILE *f = fopen(path, "rb");
        cr_assert(f != NULL && data != NULL, "%s", path);
        const size_t n = fread(data, 1, ROOM, f);
        fclose(f);
        rename_key(data, n, "tokenizer.ggml.add_sep_token", "tokenizer.ggml.xxx_xxx_token");
        rename_key(data, n, "tokenizer.hf.special_tokens", "tokenizer.hf.xxxxxxx_xxxxxx");
        hf_write("m.gguf", data, n);
        free(data);
        cr_expect_eq(compare(model, path), 4, "%s", model->name);
        hf_end();
    }
}

Test(hf_rerank, there_are_two_labels_where_config_json_does_not_say) {
    static const char *const none[][2] = {
        {"\"id2label\"", "\"x\""}
    };
    static const char *const three[][2] = {
        {"\"id2label\"", "\"num_labels\": 3, \"x\""}
    };
    begin(&models[3]);
    hf_edit(directory(&models[3]), "config.json", three, 1);
    OK(hf_open());
    hf_edit(directory(&models[3]), "config.json", none, 1);
    REFUSED(hf_open(), RP_E_SHAPE, "classifier.weight");
    hf_end();
    begin(&models[1]); /* as transformers writes it */
    OK(hf_open());
    hf_end();
}

/* Encoders have no output matrix, tied or not. */
Test(hf_rerank, encoders_need_no_output_matrix) {
    begin(&models[0]);
    hf_change(directory(&models[0]), "config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    OK(hf_open());
    hf_end();
}

/* ---- refusals ---- */

static void refuse(int model, const char *file, const char *from, const char *to, RpStatus status, const char *why) {
    const Model *m = &models[model];
    begin(m);
    hf_change(m->tokenizer != NULL && file[0] == 't' ? m->tokenizer : directory(m), file, from, to);
    REFUSED(hf_open(), status, why);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
    hf_end();
}

Test(hf_rerank, configurations_that_are_refused) {
    static const char config[] = "config.json";
    refuse(1, config, "\"type_vocab_size\": 1", "\"type_vocab_size\": 2", RP_E_UNSUPPORTED,
           "type_vocab_size: a head of RoBERTa with types of tokens is not supported");
    refuse(3, config, "\"classifier_pooling\": \"mean\"", "\"classifier_pooling\": \"max\"", RP_E_UNSUPPORTED,
           "classifier_pooling: another one than cls and mean is not supported");
    refuse(3, config, "\"classifier_activation\": \"gelu\"", "\"classifier_activation\": \"relu\"", RP_E_UNSUPPORTED,
           "classifier_activation: another value is not supported");
    refuse(3, config, "\"classifier_bias\": false", "\"classifier_bias\": true", RP_E_UNSUPPORTED,
           "classifier_bias: a bias is not supported");
    refuse(0, config, "\"0\": \"LABEL_0\"", "", RP_E_FORMAT, "0 labels: must be from 1 to 65536");
    refuse(0, config, "\"id2label\"", "\"num_labels\": 65537, \"x\"", RP_E_FORMAT,
           "65537 labels: must be from 1 to 65536");
    refuse(0, config, "\"0\": \"LABEL_0\"", "\"0\": \"no\", \"1\": \"yes\"", RP_E_SHAPE, "classifier.weight");
}

/* A head without one of its parts would be another head. */
Test(hf_rerank, heads_that_lack_a_tensor) {
    static const struct {
        int         model;
        const char *name, *other, *why;
    } cases[] = {
        {0, "bert.pooler.dense.weight", "bert.pooler.dens.weight", "tensor pooler.dense.weight (cls.weight) of the"  },
        {1, "classifier.dense.bias",    "classifier.dens.bias",    "tensor classifier.dense.bias (cls.bias) of the"  },
        {3, "head.norm.weight",         "head.nor.weight",         "tensor head.norm.weight (cls.norm.weight) of the"},
        {4, "classifier.bias",          "classifie.bias",
         "tensor classifier.bias (cls.output.bias) of the classification head is missing"                            },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const pair[][2] = {
            {cases[i].name, cases[i].other}
        };
        const Model *m = &models[cases[i].model];
        begin(m);
        hf_rename(directory(m), pair, 1);
        REFUSED(hf_open(), RP_E_FORMAT, cases[i].why);
        hf_end();
    }
}

/* The special tokens of a pair must be those that stand around a text, and at most one more between the texts. */
Test(hf_rerank, pairs_of_other_special_tokens) {
    static const char why[] = "pair of post_processor 'TemplateProcessing' is not supported", file[] = "tokenizer.json",
                      b[]   = "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}",
                      sep[] = "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}";
    char to[256];
    refuse(0, file, b, "{\"Sequence\":{\"id\":\"A\",\"type_id\":1}}", RP_E_UNSUPPORTED, why);
    refuse(0, file, sep, "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":1}}", RP_E_UNSUPPORTED, why);
    snprintf(to, sizeof to, "%s,%s", sep, sep);
    refuse(0, file, sep, to, RP_E_UNSUPPORTED, why);
    snprintf(to, sizeof to, "%s,%s", sep, b);
    refuse(0, file, b, to, RP_E_UNSUPPORTED, why); /* WordPiece has one token between two texts */
    snprintf(to, sizeof to, "%s,%s,%s", b, b, b);
    refuse(0, file, b, to, RP_E_UNSUPPORTED, why);
    refuse(0, file, "\"pair\"", "\"x\"", RP_E_UNSUPPORTED, why);
}
