/* The mixes against llama.cpp (tests/golden/mixes.txt): the type of each matrix of models with grouped queries, tied
 * embeddings, 4 and 8 experts, joined queries, keys and values, a latent, attention in every fourth layer, rows that
 * are no whole blocks, and 80 layers. */
#include "tests/support/golden.h"

#include "model/convert/quant_mix.h"

#include <strings.h>

enum { MOST = 1024, NAME = 64 };

typedef struct Matrix {
    char    name[NAME];
    int64_t ne[RP_MAX_DIMS];
    int32_t before; /* as rp_quant_mix_type has it */
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

/* The number of matrices before the last one that belong to the same part as it. The file lists them layer by layer,
 * and a layer has each part once, except for shared experts, which come after the others. */
static int32_t count_before(const Golden *g) {
    const RpMixPart part = rp_mix_part(string_of(g->matrices[g->n - 1].name));
    int32_t         n    = 0;
    for (int i = 0; i < g->n - 1; i++) n += rp_mix_part(string_of(g->matrices[i].name)) == part;
    return n;
}

static void read_matrix(const char *text, Golden *g) {
    Matrix   *m = &g->matrices[g->n++];
    long long ne[3];
    cr_assert_lt(g->n, MOST);
    cr_assert_eq(sscanf(text, "tensor %63s %lld %lld %lld", m->name, &ne[0], &ne[1], &ne[2]), 4, "%s", text);
    for (int i = 0; i < RP_MAX_DIMS; i++) m->ne[i] = i < 3 ? ne[i] : 1;
    if (strcmp(m->name, "output.weight") == 0) g->model.tied = false;
    m->before = count_before(g);
    g->model.n_value += rp_mix_part(string_of(m->name)) == RP_MIX_VALUE;
}

/* NULL: there is none. */
static const char *type_of_number(char *types, int number) {
    char *at = NULL, *type = strtok_r(types, ",", &at);
    for (int i = 0; i < number && type != NULL; i++) type = strtok_r(NULL, ",", &at);
    return type;
}

static void check_mix(const char *text, Golden *g) {
    const QuantMix *mix;
    char            name[16], with[16], types[128], numbers[MOST + 1];
    cr_assert_eq(sscanf(text, "%15s %15s %127s %1024s", name, with, types, numbers), 4, "%s", text);
    cr_assert_eq(strlen(numbers), (size_t)g->n, "%s", text);
    OK(rp_quant_mix_find(name, &mix));
    g->model.has_importance = strcmp(with, "with") == 0;
    for (int i = 0; i < g->n; i++) {
        const Matrix      *m = &g->matrices[i];
        const RpGgufString n = string_of(m->name);
        char               list[128];
        memcpy(list, types, sizeof list);
        const char   *want = type_of_number(list, numbers[i] - '0');
        const RpDtype type = rp_quant_mix_type(mix, &g->model, n, m->ne, m->before);
        cr_assert_not_null(want, "%s: %s has no type", name, m->name);
        cr_expect_eq(strcasecmp(rp_dtype_name(type), want), 0,
                     "%s %s importance, %d layers, %d experts: %s is %s, llama.cpp has %s", name, with,
                     g->model.n_layer, g->model.n_expert, m->name, rp_dtype_name(type), want);
        if (!g->model.has_importance) cr_expect(!rp_mix_needs_importance(mix, type, n), "%s: %s", name, m->name);
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
    cr_expect_eq(n, 326, "%d lines of types", n);
    fclose(f);
    free(line);
}
