/* Directories of encoders against transformers: the mean of the hidden states of tiny models, by id or by text
 * (tools/golden/hf/golden_hf_encoders.py). Passes that quantise activations are off. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include <math.h>

enum { N_EMBD = 32, MAX_IDS = 256 };

/* A folder with the directory, and the tokenizer of another one. */
static void begin(const char *name, const char *tokenizer) {
    char dir[128];
    snprintf(dir, sizeof dir, "hf_encoders/%s", name);
    hf_begin();
    hf_copy(dir, "config.json");
    hf_copy_weights(dir);
    if (tokenizer != NULL) hf_copy(tokenizer, "tokenizer.json");
}

static void compare(const char *name, int number, const float got[N_EMBD], const char *line) {
    float  want[N_EMBD];
    double worst = 0.0;
    cr_assert_eq(golden_floats(line, want, N_EMBD), (size_t)N_EMBD, "%s", name);
    for (int i = 0; i < N_EMBD; i++) worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    cr_expect_lt(worst, 2e-4, "%s, text %d: off by %g", name, number, worst);
}

/* Lines "text", if there are texts, "ids" and "mean". Returns how many vectors were compared. */
static int check(const char *name, bool texts) {
    char                    path[256], *line = NULL, *bytes = NULL;
    int32_t                 ids[MAX_IDS];
    size_t                  size = 0, n = 0, len = 0;
    float                   got[N_EMBD];
    RpModel                *m;
    RpEmbedder             *e;
    int                     compared = 0;
    const RpEmbedderOptions o = {.pooling = RP_POOLING_MEAN, .normalize = RP_NORMALIZE_NONE, .passes = "-quantize"};
    OK(rp_model_open(folder, NULL, &m));
    OK(rp_embedder_open(m, &o, &e));
    snprintf(path, sizeof path, "hf_encoders/%s/embeddings.txt", name);
    FILE *f = golden_open(path);
    for (char *at; (at = golden_line(f, &line, &size)) != NULL;) {
        char *rest = strchr(at, ' ') + 1;
        if (at[0] == 't') bytes = golden_hex(&rest, &len);
        if (at[0] == 'i') n = golden_ids(rest, ids, MAX_IDS);
        if (at[0] != 'm') continue;
        OK(rp_embed(e, ids, n, got));
        compare(name, compared, got, rest);
        if (texts) OK(rp_embed_text(e, bytes, len, got));
        if (texts) compare(name, compared, got, rest);
        compared++;
        free(bytes);
        bytes = NULL;
    }
    free(line);
    fclose(f);
    rp_embedder_free(e);
    rp_model_free(m);
    return compared;
}

Test(hf_embeddings, hidden_states_are_those_of_transformers) {
    static const char *const names[] = {"xlm-roberta-masked", "roberta", "modernbert", "modernbert-masked",
                                        "gemma3-text"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        begin(names[i], NULL);
        cr_expect_eq(check(names[i], false), 3, "%s", names[i]);
        hf_end();
    }
}

Test(hf_embeddings, texts_of_xlm_roberta) {
    begin("xlm-roberta", "hf_tokenizers/xlm-roberta");
    cr_expect_eq(check("xlm-roberta", true), 3);
    hf_end();
}

static void refuse(const char *name, const char *from, const char *to, RpStatus status, const char *why) {
    char dir[128];
    snprintf(dir, sizeof dir, "hf_encoders/%s", name);
    begin(name, NULL);
    hf_change(dir, "config.json", from, to);
    REFUSED(hf_open(), status, why);
    cr_expect_not_null(strstr(rp_last_error(), folder), "%s", rp_last_error());
    hf_end();
}

Test(hf_embeddings, what_is_refused) {
    refuse("roberta", "\"pad_token_id\": 3", "\"pad_token_id\": 39", RP_E_FORMAT,
           "pad_token_id is 39, max_position_embeddings is 40: there is no position");
    refuse("roberta", "\"max_position_embeddings\": 40", "\"max_position_embeddings\": 50", RP_E_SHAPE,
           "position_embd.weight");
    refuse("modernbert", "\"norm_bias\": false", "\"norm_bias\": true", RP_E_UNSUPPORTED,
           "norm_bias: a bias is not supported");
    refuse("modernbert", "\"hidden_activation\": \"gelu\"", "\"hidden_activation\": \"relu\"", RP_E_UNSUPPORTED,
           "hidden_activation: another one than gelu and silu is not supported");
    refuse("gemma3-text", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 5.0", RP_E_UNSUPPORTED,
           "attn_logit_softcapping: a soft cap of scores is not supported");
}

/* Files of ModernBERT by older versions of transformers. */
Test(hf_embeddings, older_keys_of_modernbert) {
    static const char *const pairs[][2] = {
        {"\"layer_types\"",     "\"x\""                                                               },
        {"\"rope_parameters\"", "\"global_rope_theta\": 160000.0, \"local_rope_theta\": 1000.0, \"y\""},
    };
    begin("modernbert", NULL);
    hf_edit("hf_encoders/modernbert", "config.json", pairs, 2);
    cr_expect_eq(check("modernbert", false), 3);
    hf_end();
}
