/* Layers that predict further tokens (MTP) of directories: their logits are those of layers of transformers
 * (tools/golden/hf/golden_hf_mtp.py), and those of the GGUF file that rp_requantize makes of the directory. The cache
 * is f16. */
#include "tests/support/case.h"
#include "tests/support/golden_numbers.h"
#include "tests/support/hf_folder.h"

#include "model/engine/engine.h"
#include "reprise/convert.h"

enum { ROOM = 128, MAX_IDS = 16, N_CTX = 32 };

static const char *const names[] = {"qwen3next-mtp", "qwen3_5-mtp",   "qwen3_5-moe-mtp",
                                    "glm4moe-mtp",   "deepseek3-mtp", "glm4-lite-mtp"};
enum { N_NAMES = sizeof names / sizeof names[0] };

typedef struct Golden {
    double  hidden[ROOM], logits[ROOM];
    int32_t ids[MAX_IDS], n, n_embd, n_vocab;
} Golden;

static void read_golden(const char *name, Golden *g) {
    double tokens[ROOM];
    char   path[128], model[64];
    snprintf(path, sizeof path, "hf/%s/mtp.txt", name);
    snprintf(model, sizeof model, "model %s", name);
    FILE *f = golden_open(path);
    golden_numbers(f, model, tokens, 1);
    g->n       = golden_numbers(f, "tokens", tokens, ROOM);
    g->n_embd  = golden_numbers(f, "hidden", g->hidden, ROOM);
    g->n_vocab = golden_numbers(f, "logits", g->logits, ROOM);
    fclose(f);
    cr_assert_leq(g->n, MAX_IDS, "%s", name);
    for (int32_t i = 0; i < g->n; i++) g->ids[i] = (int32_t)tokens[i];
}

static void compare(const char *path, const Golden *g) {
    RpModel *m;
    Runner   r = {0};
    OK(rp_model_open(path, NULL, &m));
    cr_expect(rp_model_info(m)->mtp && rp_model_info(m)->n_layer_nextn == 1, "%s", path);
    OK(rp_runner_plan(&r, m, &(RpModelGraphOptions){.n_tok = g->n, .n_ctx = N_CTX, .mtp = true}, "-quantize"));
    OK(rp_runner_open(&r, m, &(RpExecutorOptions){.n_threads = 1}));
    for (int32_t i = 0; i < g->n; i++) {
        r.tokens[i] = g->ids[i];
        r.pos[i]    = i;
        for (int32_t j = 0; j < g->n_embd; j++)
            r.hidden[i * g->n_embd + j] = (float)((double)((37 * i + 11 * j) % 101) / 50.0 - 1.0);
    }
    r.out_rows[0] = g->n - 1;
    OK(rp_executor_run(r.executor));
    const double hidden = golden_farthest(g->hidden, r.next_hidden, g->n_embd),
                 logits = golden_farthest(g->logits, r.logits, g->n_vocab);
    cr_expect(hidden < 4e-3 && logits < 1e-2, "%s: hidden off by %g, logits by %g", path, hidden, logits);
    rp_runner_close(&r);
    rp_model_free(m);
}

Test(hf_mtp, logits_are_those_of_transformers) {
    for (int i = 0; i < N_NAMES; i++) {
        Golden g;
        char   path[256], file[128];
        read_golden(names[i], &g);
        snprintf(path, sizeof path, GOLDEN_DIR "hf/%s", names[i]);
        compare(path, &g);
        hf_begin();
        snprintf(file, sizeof file, "%s/m.gguf", folder);
        OK(rp_requantize(path, file, "F32", NULL, NULL));
        compare(file, &g);
        hf_end();
    }
}

/* *n: layers that guess; *left_out: whether reprise.not_read names some. */
static void open_folder(int32_t *n, bool *left_out) {
    RpModel     *m;
    RpGgufFile  *f;
    RpGgufString text = {"", 0};
    OK(rp_model_open(folder, NULL, &m));
    *n = rp_model_info(m)->n_layer_nextn;
    cr_expect_eq(rp_model_info(m)->mtp, *n > 0);
    rp_model_free(m);
    OK(rp_gguf_open(folder, &f));
    OK(rp_gguf_get_string(f, "reprise.not_read", &text));
    *left_out = text.len > 0;
    rp_gguf_close(f);
}

/* transformers saves models without these layers, and config.json announces them. */
Test(hf_mtp, the_files_decide_whether_there_are_layers) {
    static const struct {
        const char *dir, *from, *to;
        int32_t     n;
        bool        left_out;
    } cases[] = {
        {"hf/glm4moe",       NULL,                              NULL,                                           0, false},
        {"hf/deepseek3",     NULL,                              NULL,                                           0, false},
        {"hf/qwen3_5",       "\"model_type\"",                  "\"mtp_num_hidden_layers\": 1, \"model_type\"", 0, false},
        {"hf/qwen3next-mtp", NULL,                              NULL,                                           1, false},
        {"hf/glm4moe-mtp",   NULL,                              NULL,                                           1, false},
        {"hf/nemotron_h",    "\"num_nextn_predict_layers\": 0", "\"num_nextn_predict_layers\": 2",              0, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t n;
        bool    left_out;
        hf_begin();
        hf_copy_weights(cases[i].dir);
        hf_change(cases[i].dir, "config.json", cases[i].from, cases[i].to);
        open_folder(&n, &left_out);
        cr_expect_eq(n, cases[i].n, CASE(i));
        cr_expect_eq(left_out, cases[i].left_out, CASE(i));
        hf_end();
    }
}

Test(hf_mtp, what_is_refused) {
    hf_refuse_config("hf/glm4moe-mtp", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 5000",
                     RP_E_FORMAT, "5000 layers that predict further tokens");
    hf_refuse_config("hf/glm4moe-mtp", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0",
                     RP_E_UNSUPPORTED, "of the tensors, first blk.3.");
    hf_refuse_config("hf/glm4moe-mtp", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 5000", RP_E_FORMAT,
                     "num_hidden_layers is 5000");
    hf_begin();
    hf_change("hf/qwen3_5-mtp", "config.json", NULL, NULL);
    hf_add_tensor("hf/qwen3_5-mtp", "mtp.layers.1.mlp.up_proj.weight", "F32", "[48,32]", 6144);
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "does not use 1 of the tensors, first mtp.layers.1.mlp.up_proj.weight");
    hf_add_tensor("hf/qwen3_5-mtp", "mtp.other.weight", "F32", "[32]", 128);
    REFUSED(hf_open(), RP_E_UNSUPPORTED, "does not use 1 of the tensors, first mtp.other.weight");
    hf_end();
}
