/* The table of passes, their selection by name, and the loop that runs them:
 *
 *     for each pass that is not disabled:  run -> drop dead nodes -> verify (I1, I2, one writer at a time)
 *
 * Registered patterns follow the built-in passes, each as a pass of one row. Passes apply to the graph,
 * before any backend sees it, so every backend runs the same graph (I7). */
#include "graph/pass.h"

#include "base/argument.h"

#include "base/sized.h"
#include "graph/origin.h"
#include "graph/patterns.h"
#include "reprise/options.h"

#include <string.h>

/* A pass is either a function or rows of patterns; the other field is NULL. */
typedef struct PassRow {
    const char       *name, *help;
    GraphPass        *run;
    const PatternRow *rows;
    int               n_rows;
} PassRow;

#define PATTERNS(name) NULL, rp_patterns_##name, sizeof rp_patterns_##name / sizeof rp_patterns_##name[0]

/* In execution order. "attention" and "quantize" come first because the later rows match their results;
 * "linear" precedes "residual" and "norm", which extend its op. */
/* clang-format off */
static const PassRow passes[] = {
    {"attention", "scores, softmax and weighted sum in one op that streams over the cache", PATTERNS(attention)},
    {"quantize", "activations quantised to q8_act once for all their readers", rp_pass_quantize, NULL, 0},
    {"qkv", "queries, keys and values with bias, norm, rotation and store", rp_pass_qkv, NULL, 0},
    {"gate", "gate, up and activation; gates of delta nets and of attention", PATTERNS(gate)},
    {"router", "expert scores, top-k choice and routing weights", PATTERNS(router)},
    {"experts", "the second product of experts and their weighted sum", PATTERNS(experts)},
    {"shared", "a shared expert and its gate beside the chosen experts", PATTERNS(shared)},
    {"linear", "a product with its bias, scale and activation", PATTERNS(linear)},
    {"residual", "norms, residuals and a factor after a product", PATTERNS(residual)},
    {"norm", "the norm and quantisation before a product, in each product that reads them", PATTERNS(norm)},
    {"round", "quantisation of a result by its producer, else by the product that reads it", PATTERNS(round)},
    {"projections", "products of one column that are left, such as those of a delta net", PATTERNS(projections)},
    {"embed", "the embedding and its scale", PATTERNS(embed)},
};
/* clang-format on */

enum { N_BUILT_IN = sizeof passes / sizeof passes[0], MAX_PASSES = N_BUILT_IN + RP_MAX_CUSTOM_PATTERNS };

_Static_assert(MAX_PASSES <= 128, "TensorNode.passes has a bit for each pass");

static PatternRow custom[RP_MAX_CUSTOM_PATTERNS];
static int        n_custom;

static PassRow pass_at(int i) {
    if (i < N_BUILT_IN) return passes[i];
    const PatternRow *row = &custom[i - N_BUILT_IN];
    return (PassRow){row->pattern.name, row->pattern.help, NULL, row, 1};
}

int         rp_pass_count(void) { return N_BUILT_IN + n_custom; }
const char *rp_pass_name(int i) { return i >= 0 && i < rp_pass_count() ? pass_at(i).name : NULL; }
const char *rp_pass_help(int i) { return i >= 0 && i < rp_pass_count() ? pass_at(i).help : NULL; }

const char *rp_node_pass(const TensorNode *node, int i) {
    if (node == NULL || i < 0) return NULL;
    for (int p = 0; p < rp_pass_count(); p++)
        if ((node->passes[p / PASS_BITS] >> p % PASS_BITS & 1) != 0 && i-- == 0) return rp_pass_name(p);
    return NULL;
}

static RpStatus no_such_pass(const char *text, size_t len) {
    char   names[1024] = "";
    size_t n           = 0;
    for (int i = 0; i < rp_pass_count() && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, ", %s", pass_at(i).name);
    return rp_fail(RP_E_ARG, "'%.*s' is not a pass; passes: all%s", (int)len, text, names);
}

static RpStatus find_pass(const char *name, size_t len, int *out) {
    for (*out = 0; *out < rp_pass_count(); ++*out)
        if (strlen(pass_at(*out).name) == len && strncmp(pass_at(*out).name, name, len) == 0) return RP_OK;
    return no_such_pass(name, len);
}

RpStatus rp_pattern_register_sized(const RpGraphPattern *given, size_t given_bytes) {
    RP_NOT_NULL(given, "pattern");

    RpGraphPattern        copy;
    const RpGraphPattern *pattern = &copy;
    Pattern               parsed;
    int                   taken;
    RP_TRY(rp_sized_in(&copy, sizeof copy, given, given_bytes, "RpGraphPattern"));
    if (pattern->name == NULL || pattern->match == NULL || pattern->make == NULL)
        return rp_fail(RP_E_ARG, "a pattern must have a name, a match text and a make text");
    if (!rp_is_name(pattern->name) || strcmp(pattern->name, "all") == 0)
        return rp_fail(RP_E_ARG, "pattern '%s': its name must be made of letters, digits and _, and not be 'all'",
                       pattern->name);
    if (find_pass(pattern->name, strlen(pattern->name), &taken) == RP_OK)
        return rp_fail(RP_E_ARG, "there is a pass '%s' already", pattern->name);
    RP_TRY(rp_pattern_parse(pattern, &parsed));
    RP_TRY(rp_pattern_check_stores(pattern, &parsed));
    if (n_custom == RP_MAX_CUSTOM_PATTERNS)
        return rp_fail(RP_E_NOMEM, "pattern '%s': at most %d can be registered", pattern->name, RP_MAX_CUSTOM_PATTERNS);
    custom[n_custom++] = (PatternRow){.pattern = *pattern};
    return RP_OK;
}

/* Parses a list such as "-a,-b" or "-all,+a" into off[], one flag per pass. Entries apply from left to
 * right, so the second list leaves only a. */
static RpStatus parse_disabled(const char *list, bool off[MAX_PASSES]) {
    while (*list != '\0') {
        const size_t len = strcspn(list, ",");
        if (len > 0) {
            const bool is_off = list[0] == '-';
            int        pass   = 0;
            if (!is_off && list[0] != '+')
                return rp_fail(RP_E_ARG,
                               "'%.*s': must be -NAME, which switches a pass off, or +NAME, which switches it on again",
                               (int)len, list);
            const bool all = len == 4 && strncmp(list + 1, "all", 3) == 0;
            for (int i = 0; i < rp_pass_count() && all; i++) off[i] = is_off;
            if (!all) RP_TRY(find_pass(list + 1, len - 1, &pass));
            if (!all) off[pass] = is_off;
        }
        list += len + (list[len] == ',');
    }
    return RP_OK;
}

static RpStatus run_pass(ComputeGraph *g, const PassRow *p) {
    return p->run != NULL ? p->run(g) : rp_pattern_apply(g, p->rows, p->n_rows);
}

/* Unfused attention multiplies with the transposed values, and blocks cannot be transposed. So model code
 * builds the fused op for a quantised KV cache. To switch the pass off is then refused, not ignored (I10). */
static RpStatus check_unfused(const ComputeGraph *g) {
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        if (n->kind != NODE_OP || n->op != RP_OP_ATTENTION) continue;
        if (n->params.attention.block != 0)
            return rp_fail(RP_E_UNSUPPORTED, "%s: the attention pass is switched off, must be on for a cache of blocks",
                           n->name);
        if (rp_dtype_is_quant(n->from.attention.k->view.dtype))
            return rp_fail(RP_E_UNSUPPORTED, "%s: the attention pass is switched off, must be on for a cache of %s",
                           n->name, rp_dtype_name(n->from.attention.k->view.dtype));
    }
    return RP_OK;
}

RpStatus rp_graph_optimize(ComputeGraph *g, const char *disable) {
    RP_NOT_NULL(g, "g");

    return rp_graph_optimize_to(g, disable, NULL);
}

RpStatus rp_graph_optimize_to(ComputeGraph *g, const char *disable, const char *last) {
    RP_NOT_NULL(g, "g");

    bool off[MAX_PASSES] = {false};
    int  end             = rp_pass_count() - 1;
    if (!g->finished) return rp_fail(RP_E_STATE, "passes run on a finished graph");
    if (last != NULL) RP_TRY(find_pass(last, strlen(last), &end));
    RP_TRY(parse_disabled(disable != NULL ? disable : rp_option(RP_OPT_PASSES), off));
    for (int i = 0; i <= end; i++) {
        const PassRow pass = pass_at(i);
        if (off[i] && pass.rows == rp_patterns_attention) RP_TRY(check_unfused(g));
        if (off[i]) continue;
        g->changed = false;
        g->pass    = i;
        RP_TRY(run_pass(g, &pass));
        if (!g->changed) continue;
        rp_graph_drop_dead(g);
        RP_TRY(rp_graph_verify(g));
    }
    return RP_OK;
}
