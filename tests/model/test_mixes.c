/* The mixes of the IQ types below 4 bits against llama.cpp (tests/golden/mixes.txt): the type of each matrix of models
 * with grouped queries, tied embeddings, 4 and 8 experts, and 80 layers. */
#include "tests/support/golden.h"

#include "model/convert/quant_mix.h"

#include <strings.h>

enum { MOST = 1024, NAME = 64 };

typedef struct Matrix {
    char    name[NAME];
    int64_t ne[RP_MAX_DIMS];
} Matrix;

typedef struct Golden {
    QuantMixModel model;
    int           n;
    Matrix        matrices[MOST];
} Golden;

static RpGgufString string_of(const char *text) { return (RpGgufString){text, strlen(text)}; }

static void read_model(const char *text, Golden *g) {
    char           arch[16];
    QuantMixModel *m = &g->model;
    *g               = (Golden){0};
    cr_assert_eq(sscanf(text, "model %15s %d %d %d %d", arch, &m->n_layer, &m->n_head, &m->n_head_kv, &m->n_expert), 5,
                 "%s", text);
    m->is_70b = strcmp(arch, "llama") == 0 && m->n_layer == 80;
    m->tied   = true;
}

static void read_matrix(const char *text, Golden *g) {
    Matrix   *m = &g->matrices[g->n++];
    long long ne[3];
    cr_assert_lt(g->n, MOST);
    cr_assert_eq(sscanf(text, "tensor %63s %lld %lld %lld", m->name, &ne[0], &ne[1], &ne[2]), 4, "%s", text);
    for (int i = 0; i < RP_MAX_DIMS; i++) m->ne[i] = i < 3 ? ne[i] : 1;
    if (strcmp(m->name, "output.weight") == 0) g->model.tied = false;
}

/* Matrices of the same part above number `at`: the file has them layer by layer, each part once in a layer but for
 * shared experts, which come after the others. */
static int32_t before(const Golden *g, int at) {
    int32_t n = 0;
    for (int i = 0; i < g->n; i++) {
        const char *name = g->matrices[i].name, *other = g->matrices[at].name;
        if (rp_mix_part(string_of(name)) != rp_mix_part(string_of(other))) continue;
        const int32_t a = rp_mix_layer(string_of(name)), b = rp_mix_layer(string_of(other));
        n += a < b || (a == b && strcmp(name, other) < 0);
    }
    return n;
}

static void check_mix(char *text, const Golden *g) {
    const QuantMix *mix;
    char           *at   = NULL;
    const char     *name = strtok_r(text, " ", &at), *with = strtok_r(NULL, " ", &at);
    OK(rp_quant_mix_find(name, &mix));
    for (int i = 0; i < g->n; i++) {
        const Matrix *m    = &g->matrices[i];
        const char   *want = strtok_r(NULL, " ", &at);
        const RpDtype type = rp_quant_mix_type(mix, &g->model, string_of(m->name), m->ne, before(g, i));
        cr_assert_not_null(want, "%s: %s has no type", name, m->name);
        cr_expect_eq(strcasecmp(rp_dtype_name(type), want), 0, "%s, %d layers, %d experts: %s is %s, llama.cpp has %s",
                     name, g->model.n_layer, g->model.n_expert, m->name, rp_dtype_name(type), want);
        if (strcmp(with, "without") == 0) cr_expect(!rp_mix_needs_importance(type, string_of(m->name)), "%s", m->name);
    }
}

Test(mixes, give_each_matrix_the_type_of_llama_cpp) {
    static Golden g;
    char         *line = NULL, *text;
    size_t        size = 0;
    int           n    = 0;
    FILE         *f    = golden_open("mixes.txt");
    while ((text = golden_line(f, &line, &size)) != NULL) {
        if (strncmp(text, "model ", 6) == 0) {
            read_model(text, &g);
        } else if (strncmp(text, "tensor ", 7) == 0) {
            read_matrix(text, &g);
        } else {
            check_mix(text, &g);
            n++;
        }
    }
    cr_expect_eq(n, 5 * 12, "%d lines of types", n);
    fclose(f);
    free(line);
}
