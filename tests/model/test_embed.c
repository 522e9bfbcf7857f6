/* Embeddings of tiny models against llama.cpp, for every pooling, and the rules of embedders.
 *
 * Both engines quantise activations to 8 bits, but in different blocks. Each golden file therefore has two sets of
 * numbers: llama.cpp's, and exact ones with the weights dequantised to f32.
 *     pass quantize off     must give the exact numbers
 *     pass quantize on      must be about as close to the exact numbers as llama.cpp is */
#include "tests/support/case.h"
#include "tests/support/tiny.h"

#include "model/arch_table.h"

#include <dirent.h>
#include <math.h>

enum { MAX_MODELS = 64, MAX_TOKENS = 32, MAX_EMBD = 128 };

typedef struct Numbers {
    float  x[MAX_TOKENS * MAX_EMBD];
    size_t n;
} Numbers;

typedef struct Golden {
    int32_t ids[MAX_TOKENS];
    size_t  n_ids;
    Numbers exact[RP_POOLING_RANK + 1], theirs[RP_POOLING_RANK + 1]; /* by RpPooling */
} Golden;

static const char *models(int i) {
    static char names[MAX_MODELS][64];
    static int  n = 0;
    if (n == 0) {
        DIR *dir = opendir(GOLDEN_DIR "embed");
        cr_assert_not_null(dir);
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            const char *end = strstr(entry->d_name, ".gguf");
            if (end == NULL) continue;
            cr_assert_lt(n, MAX_MODELS, "%s", entry->d_name);
            snprintf(names[n++], sizeof names[0], "%.*s", (int)(end - entry->d_name), entry->d_name);
        }
        closedir(dir);
    }
    return i < n ? names[i] : NULL;
}

static RpModel *open_model(const char *name) {
    char     path[1024];
    RpModel *m;
    snprintf(path, sizeof path, GOLDEN_DIR "embed/%s.gguf", name);
    OK(rp_model_open(path, NULL, &m));
    return m;
}

static void add_numbers(const char *text, Numbers *out) {
    out->n += golden_floats(text, out->x + out->n, MAX_TOKENS * MAX_EMBD - out->n);
}

static void read_golden(const char *name, Golden *out) {
    char   path[1024];
    char  *line = NULL, *text;
    size_t size = 0;
    snprintf(path, sizeof path, "embed/%s.txt", name);
    FILE *f = golden_open(path);
    memset(out, 0, sizeof *out);
    while ((text = golden_line(f, &line, &size)) != NULL) {
        char      source[16], kind[16];
        int       at = 0;
        RpPooling pooling;
        if (strncmp(text, "ids ", 4) == 0) {
            out->n_ids = golden_ids(text + 4, out->ids, MAX_TOKENS);
            continue;
        }
        cr_assert_eq(sscanf(text, "%15s %15s%n", source, kind, &at), 2, "%s", text);
        OK(rp_pooling_from_name(kind, &pooling));
        add_numbers(text + at, strcmp(source, "exact") == 0 ? &out->exact[pooling] : &out->theirs[pooling]);
    }
    free(line);
    fclose(f);
}

static RpEmbedder *open_embedder(const RpModel *m, RpEmbedderOptions o) {
    RpEmbedder *e;
    if (o.normalize == 0) o.normalize = RP_NORMALIZE_NONE;
    OK(rp_embedder_open(m, &o, &e));
    return e;
}

/* The largest difference in standard deviations of the wanted numbers; of scores in their own size. */
static double distance(const Numbers *want, const float *got) {
    double spread = 0.0, top = 0.0;
    for (size_t i = 0; i < want->n; i++) {
        cr_assert(isfinite(got[i]), CASE(i));
        spread += (double)want->x[i] * (double)want->x[i] / (double)want->n;
        top = fmax(top, fabs((double)want->x[i] - (double)got[i]));
    }
    return top / sqrt(spread);
}

static void check_pooling(const char *name, const RpModel *m, const Golden *g, RpPooling pooling) {
    static float      got[MAX_TOKENS * MAX_EMBD];
    const Numbers    *exact = &g->exact[pooling], *theirs = &g->theirs[pooling];
    const double      llama        = distance(exact, theirs->x);
    static const char passes[][12] = {"-quantize", "-all", ""};
    double            off[3];
    if (exact->n == 0) return;
    for (size_t i = 0; i < 3; i++) {
        RpEmbedder *e = open_embedder(m, (RpEmbedderOptions){.pooling = pooling, .passes = passes[i], .n_ctx = 64});
        cr_assert_eq((size_t)rp_embedder_info(e).n_out * (pooling == RP_POOLING_NONE ? g->n_ids : 1), exact->n, "%s",
                     name);
        OK(rp_embed(e, g->ids, g->n_ids, got));
        off[i] = distance(exact, got);
        rp_embedder_free(e);
    }
    cr_log_info("%-22s %-5s from exact: llama.cpp %.5f, reprise %.5f, without quantize %.5f, unfused %.5f\n", name,
                rp_pooling_name(pooling), llama, off[2], off[0], off[1]);
    cr_expect_leq(off[0], 0.01, "%s %s without quantize is off by %.5f", name, rp_pooling_name(pooling), off[0]);
    cr_expect_leq(off[1], 0.01, "%s %s without passes is off by %.5f", name, rp_pooling_name(pooling), off[1]);
    /* the hidden states of all tokens are those of pooling none; another pooling of them only has to be right above */
    if (pooling != RP_POOLING_NONE && (int32_t)pooling != rp_model_info(m)->pooling) return;
    cr_expect_leq(off[2], fmax(1.6 * llama, 0.01), "%s %s is off by %.5f, llama.cpp by %.5f", name,
                  rp_pooling_name(pooling), off[2], llama);
}

Test(embed, tiny_models_give_the_embeddings_of_llama_cpp) {
    static Golden g;
    for (int i = 0; models(i) != NULL; i++) {
        RpModel *m = open_model(models(i));
        read_golden(models(i), &g);
        for (int p = RP_POOLING_NONE; p <= RP_POOLING_RANK; p++) check_pooling(models(i), m, &g, (RpPooling)p);
        rp_model_free(m);
    }
}

Test(embed, there_are_models_of_every_family_and_pooling) {
    bool has[RP_POOLING_RANK + 1] = {false};
    for (int a = 0; rp_arch_name(a) != NULL; a++) {
        bool floats = false, blocks = false;
        if (!rp_arch_find(rp_arch_name(a), strlen(rp_arch_name(a)))->bidirectional) continue;
        for (int i = 0; models(i) != NULL; i++) {
            RpModel *m                     = open_model(models(i));
            has[rp_model_info(m)->pooling] = true;
            if (strcmp(rp_model_info(m)->arch, rp_arch_name(a)) == 0) {
                floats = floats || strstr(models(i), "-f32") != NULL;
                blocks = blocks || strstr(models(i), "-mix") != NULL;
            }
            rp_model_free(m);
        }
        cr_expect(floats && blocks, "tests/golden/embed has no two models of family %s", rp_arch_name(a));
    }
    for (int p = RP_POOLING_DEFAULT; p <= RP_POOLING_RANK; p++)
        cr_expect(has[p] || p == RP_POOLING_NONE, "no model of pooling %s", rp_pooling_name((RpPooling)p));
}

/* ---- what a result does not depend on ---- */

static void embed_with(const RpModel *m, RpEmbedderOptions o, const int32_t *ids, size_t n, float *out) {
    RpEmbedder *e = open_embedder(m, o);
    OK(rp_embed(e, ids, n, out));
    rp_embedder_free(e);
}

/* Contexts, and with them the lengths of graphs; chunks; threads; texts before (I8). */
Test(embed, results_do_not_depend_on_context_chunks_threads_or_texts_before) {
    static const char *const names[] = {
        "bert-mix",        "modern-bert-f32", "gemma-embedding-mix", "gemma-embedding-f32",
        "qwen3-embed-mix", "llama-embed-f32"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        static Golden g;
        static float  want[MAX_EMBD], got[MAX_EMBD];
        RpModel      *m     = open_model(names[i]);
        const size_t  bytes = (size_t)rp_model_info(m)->n_embd * sizeof(float);
        RpEmbedder   *e     = open_embedder(m, (RpEmbedderOptions){.n_ctx = 8});
        const bool    cpu   = strcmp(rp_embedder_info(e).device, "cpu") == 0;
        rp_embedder_free(e);
        if (!cpu && !rp_model_info(m)->bidirectional) { /* chunks of five tokens add in another order there */
            rp_model_free(m);
            continue;
        }
        read_golden(names[i], &g);
        embed_with(m, (RpEmbedderOptions){.n_ctx = 64}, g.ids, 19, want);
        embed_with(m, (RpEmbedderOptions){.n_ctx = 19, .n_threads = 1}, g.ids, 19, got);
        cr_expect_arr_eq(want, got, bytes, "%s: context 19", names[i]);
        embed_with(m, (RpEmbedderOptions){.n_ctx = 30, .n_threads = 3, .prefill_chunk = 4}, g.ids, 19, got);
        cr_expect_arr_eq(want, got, bytes, "%s: chunks of 4", names[i]);
        e = open_embedder(m, (RpEmbedderOptions){.n_ctx = 64});
        for (size_t n = 1; n < 19; n += 4) OK(rp_embed(e, g.ids, n, got));
        OK(rp_embed(e, g.ids, 19, got));
        cr_expect_arr_eq(want, got, bytes, "%s: after others", names[i]);
        rp_embedder_free(e);
        rp_model_free(m);
    }
}

/* ---- lengths, norms and dimensions ---- */

Test(embed, one_token_has_the_same_vector_by_every_pooling) {
    RpModel      *m    = open_model("bert-f32");
    const int32_t id[] = {40};
    float         want[32], got[32];
    embed_with(m, (RpEmbedderOptions){.pooling = RP_POOLING_NONE}, id, 1, want);
    for (int p = RP_POOLING_MEAN; p <= RP_POOLING_LAST; p++) {
        embed_with(m, (RpEmbedderOptions){.pooling = (RpPooling)p}, id, 1, got);
        cr_expect_arr_eq(want, got, sizeof want, "%s", rp_pooling_name((RpPooling)p));
    }
    rp_model_free(m);
}

static double norm_of(const float *x, int n, double p) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += pow(fabs((double)x[i]), p);
    return pow(sum, 1.0 / p);
}

Test(embed, vectors_are_cut_and_then_normalised) {
    static Golden g;
    RpModel      *m = open_model("bert-f32");
    float         whole[32], got[32];
    read_golden("bert-f32", &g);
    embed_with(m, (RpEmbedderOptions){.normalize = RP_NORMALIZE_NONE}, g.ids, g.n_ids, whole);
    for (int p = 1; p <= 5; p++)
        for (int n = 8; n <= 32; n += 24) {
            const double norm = norm_of(whole, n, p);
            embed_with(m, (RpEmbedderOptions){.normalize = p, .dimensions = n}, g.ids, g.n_ids, got);
            for (int i = 0; i < n; i++)
                cr_expect_lt(fabs((double)got[i] - (double)whole[i] / norm), 1e-6, CASE(p, n, i));
        }
    RpEmbedder *e;
    OK(rp_embedder_open(m, NULL, &e)); /* the defaults */
    OK(rp_embed(e, g.ids, g.n_ids, got));
    cr_expect_lt(fabs(norm_of(got, 32, 2.0) - 1.0), 1e-6);
    cr_expect_eq(rp_embedder_info(e).n_out, 32);
    cr_expect_eq(rp_embedder_info(e).n_ctx, 64);
    cr_expect_eq(rp_embedder_info(e).pooling, RP_POOLING_MEAN);
    cr_expect_gt(rp_embedder_info(e).arena, (size_t)0);
    cr_expect_eq(rp_embedder_info(e).kv, (size_t)0);
    rp_embedder_free(e);
    embed_with(m, (RpEmbedderOptions){.normalize = RP_NORMALIZE_MAX}, g.ids, g.n_ids, got);
    double most = 0.0;
    for (int i = 0; i < 32; i++) most = fmax(most, fabs((double)got[i]));
    cr_expect_lt(fabs(most - 32760.0), 0.01);
    rp_model_free(m);
}

/* ---- texts ---- */

Test(embed, a_text_is_tokenised_with_its_special_tokens) {
    RpModel      *m     = open_model("bert-f32");
    const int32_t ids[] = {2, 5, 32, 33, 59, 3}; /* [CLS] _a b c ! [SEP] */
    float         want[32], got[32];
    RpEmbedder   *e = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    OK(rp_embed(e, ids, 6, want));
    OK(rp_embed_text(e, "  ABC! ", 7, got));
    cr_expect_arr_eq(want, got, sizeof want);
    rp_embedder_free(e);
    rp_model_free(m);
}

Test(embed, a_document_is_scored_for_a_query) {
    RpModel      *m     = open_model("bert-rank"); /* one type of tokens */
    const int32_t ids[] = {2, 5, 3, 6, 32, 3};     /* [CLS] a [SEP] b b [SEP] */
    float         want[1], got = 0.0f, other = 0.0f;
    RpEmbedder   *e = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    OK(rp_embed(e, ids, 6, want));
    OK(rp_rerank(e, "a", 1, "bb", 2, &got));
    OK(rp_rerank(e, "a", 1, "ba", 2, &other));
    cr_expect_eq(want[0], got);
    cr_expect_neq(other, got);
    rp_embedder_free(e);
    rp_model_free(m);
}

/* A model with two types of tokens: [CLS] query [SEP] document [SEP], the document of type 1. */
Test(embed, pairs_have_the_scores_of_numpy) {
    RpModel    *m    = open_model("bert-pair-f32");
    RpEmbedder *e    = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    char       *line = NULL, query[32], document[32];
    size_t      size = 0;
    int         n    = 0;
    double      want;
    FILE       *f = golden_open("embed/pairs.txt");
    for (char *text; (text = golden_line(f, &line, &size)) != NULL; n++) {
        float got;
        cr_assert_eq(sscanf(text, "%31s %31s %lf", query, document, &want), 3, "%s", text);
        OK(rp_rerank(e, query, strlen(query), document, strlen(document), &got));
        cr_expect_lt(fabs((double)got - want), 2e-5, "%s: %.7f", text, (double)got);
    }
    cr_expect_eq(n, 4);
    free(line);
    fclose(f);
    rp_embedder_free(e);
    rp_model_free(m);
}

/* The template of the file stands around the texts, which spell no control token. */
Test(embed, a_template_stands_around_a_pair) {
    static const char filled[] = "<s>!A</s>B</s>?C<s>.", control[] = "11110000001111100001";
    RpModel          *m   = open_model("qwen3-rank-f32");
    RpEmbedder       *e   = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    RpTokenList       ids = {0};
    bool              mask[sizeof control - 1];
    float             want[2], got;
    cr_assert_eq(sizeof filled, sizeof control);
    for (size_t i = 0; i < sizeof mask; i++) mask[i] = control[i] == '1';
    OK(rp_tokenize_masked(rp_model_tokenizer(m), filled, mask, sizeof mask, 0, &ids));
    cr_assert_eq(ids.ids[0], 1);
    int ends = 0;
    for (size_t i = 0; i < ids.n; i++) ends += ids.ids[i] == 2;
    cr_assert_eq(ends, 1, "the text </s> of the query is no control token");
    OK(rp_embed(e, ids.ids, ids.n, want));
    OK(rp_rerank(e, "A</s>B", 6, "C<s>", 4, &got));
    cr_expect_eq(want[0], got);
    rp_token_list_free(&ids);
    rp_embedder_free(e);
    rp_model_free(m);
}

/* ---- refusals ---- */

static void refuse_open(const char *name, RpEmbedderOptions o, RpStatus status, const char *text) {
    RpModel    *m = open_model(name);
    RpEmbedder *e;
    REFUSED(rp_embedder_open(m, &o, &e), status, text);
    cr_assert_null(e);
    rp_model_free(m);
}

Test(embed, bad_options_are_refused) {
    RpPooling pooling;
    refuse_open("bert-bare", (RpEmbedderOptions){0}, RP_E_UNSUPPORTED,
                "bert-bare.gguf: the file has no bert.pooling_type: name a pooling (none, mean, cls or last)");
    refuse_open("bert-f32", (RpEmbedderOptions){.pooling = RP_POOLING_RANK}, RP_E_UNSUPPORTED,
                "bert-f32.gguf: there is no classification head (tensor cls.output.weight)");
    refuse_open("bert-f32", (RpEmbedderOptions){.pooling = (RpPooling)9}, RP_E_ARG,
                "pooling 9: must be one of RpPooling");
    refuse_open("bert-f32", (RpEmbedderOptions){.n_ctx = 65}, RP_E_ARG,
                "a context of 65 tokens: must be from 1 to 64, for which the model was trained");
    refuse_open("bert-f32", (RpEmbedderOptions){.prefill_chunk = -1}, RP_E_ARG, "prefill chunks of -1 tokens");
    refuse_open("bert-f32", (RpEmbedderOptions){.normalize = -3}, RP_E_ARG, "norm -3: must be from -2 to 64");
    refuse_open("bert-f32", (RpEmbedderOptions){.dimensions = 33}, RP_E_ARG, "33 dimensions: must be from 0 to 32");
    refuse_open("bert-rank", (RpEmbedderOptions){.dimensions = 1}, RP_E_ARG, "1 dimensions: scores cannot be cut");
    REFUSED(rp_pooling_from_name("max", &pooling), RP_E_ARG,
            "pooling 'max': must be default, none, mean, cls, last or rank");
    for (int p = RP_POOLING_DEFAULT; p <= RP_POOLING_RANK; p++) {
        OK(rp_pooling_from_name(rp_pooling_name((RpPooling)p), &pooling));
        cr_expect_eq(pooling, (RpPooling)p, CASE(p));
    }
}

Test(embed, bad_texts_are_refused_and_change_nothing) {
    static const int32_t ids[65];
    RpModel             *m = open_model("bert-f32");
    RpEmbedder          *e = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    float                want[32], got[32], score;
    OK(rp_embed(e, ids, 64, want));
    REFUSED(rp_embed(e, ids, 0, got), RP_E_ARG, "no tokens to embed");
    REFUSED(rp_embed(e, ids, 65, got), RP_E_CONTEXT_FULL, "a text of 65 tokens is longer than the context of 64");
    REFUSED(rp_embed(e, (int32_t[]){1, 64}, 2, got), RP_E_ARG, "token 64 at 1 is outside of the vocabulary of 64");
    REFUSED(rp_embed(e, (int32_t[]){-1}, 1, got), RP_E_ARG, "token -1 at 0 is outside of the vocabulary of 64");
    REFUSED(rp_embed_text(e, "", 0, got), RP_E_ARG, "an empty text has no embedding");
    REFUSED(rp_rerank(e, "a", 1, "b", 1, &score), RP_E_ARG,
            "documents are scored by an embedder of pooling rank, this one has mean");
    OK(rp_embed(e, ids, 64, got));
    cr_expect_arr_eq(want, got, sizeof want);
    rp_embedder_free(e);
    e = open_embedder(m, (RpEmbedderOptions){.pooling = RP_POOLING_NONE});
    REFUSED(rp_embed_text(e, "a", 1, got), RP_E_ARG,
            "pooling none gives a vector for each token: tokenise the text, then call rp_embed");
    rp_embedder_free(e);
    rp_model_free(m);
    m = open_model("bert-rank");
    e = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    REFUSED(rp_rerank(e, "", 0, "b", 1, &score), RP_E_ARG, "an empty query has no score");
    REFUSED(rp_rerank(e, "a", 1, "", 0, &score), RP_E_ARG, "an empty document has no score");
    rp_embedder_free(e);
    rp_model_free(m);
}

Test(embed, encoders_have_no_next_token) {
    RpModel      *m = open_model("bert-f32");
    RpSession    *s;
    ComputeGraph *g;
    REFUSED(rp_session_open(m, NULL, &s), RP_E_UNSUPPORTED,
            "bert makes embeddings of texts (reprise embed, embed.h): it has no next token");
    REFUSED(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8}, &g), RP_E_UNSUPPORTED,
            "bert attends to later positions: it has embeddings of texts, and no next token");
    rp_model_free(m);
    m = open_model("llama-embed-f32");
    REFUSED(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8, .draws = true, .embeddings = true}, &g),
            RP_E_ARG, "a graph that samples has no embeddings");
    rp_model_free(m);
}

Test(embed, a_model_without_tokenizer_takes_tokens_only) {
    static char data[1 << 20];
    RpModel    *m;
    RpEmbedder *e;
    float       v[32];
    FILE       *f = fopen(GOLDEN_DIR "embed/bert-f32.gguf", "rb");
    cr_assert_not_null(f);
    const size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    char *at = memmem(data, n, "tokenizer.ggml.model", 20);
    cr_assert_not_null(at);
    memcpy(at + 20 + 4 + 8, "none", 4);
    OK(rp_model_open_memory(data, n, "m.gguf", &m));
    e = open_embedder(m, (RpEmbedderOptions){.n_ctx = 0});
    OK(rp_embed(e, (int32_t[]){1, 2}, 2, v));
    REFUSED(rp_embed_text(e, "a", 1, v), RP_E_UNSUPPORTED, "m.gguf: the file has no tokenizer");
    rp_embedder_free(e);
    rp_model_free(m);
}
