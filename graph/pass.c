#include "graph/pass.h"

#include "reprise/options.h"

#include <string.h>

typedef struct PassRow {
    const char *name;
    GraphPass  *run;
    const char *help;
} PassRow;

static const PassRow passes[] = {
    {"attention", rp_pass_attention,
     "scores, softmax and weighted sum in one op that streams over the cache"    },
    {"quantize",  rp_pass_quantize,
     "activations made ready for integer dot products once for all their readers"},
};

enum { N_PASSES = sizeof passes / sizeof passes[0] };

int         rp_pass_count(void) { return N_PASSES; }
const char *rp_pass_name(int i) { return i >= 0 && i < N_PASSES ? passes[i].name : NULL; }
const char *rp_pass_help(int i) { return i >= 0 && i < N_PASSES ? passes[i].help : NULL; }

/* "-a,-b" into off[]; the names are checked. */
static RpStatus parse_disabled(const char *list, bool off[N_PASSES]) {
    while (*list != '\0') {
        const size_t len = strcspn(list, ",");
        if (len > 0) {
            bool found = false;
            for (int i = 0; i < N_PASSES && list[0] == '-'; i++) {
                const bool all = len == 4 && strncmp(list + 1, "all", 3) == 0;
                if (all ||
                    (strlen(passes[i].name) == len - 1 && strncmp(passes[i].name, list + 1, len - 1) == 0))
                    off[i] = found = true;
            }
            if (!found) {
                char   names[256] = "-all";
                size_t n          = strlen(names);
                for (int i = 0; i < N_PASSES && n < sizeof names; i++)
                    n += (size_t)snprintf(names + n, sizeof names - n, ", -%s", passes[i].name);
                return rp_fail(RP_E_ARG, "'%.*s' switches off no pass; there are %s", (int)len, list, names);
            }
        }
        list += len + (list[len] == ',');
    }
    return RP_OK;
}

/* Quantised values cannot be transposed, as the products of unfused attention want them. */
static RpStatus check_unfused(const ComputeGraph *g) {
    for (int i = 0; i < g->n_nodes; i++) {
        const TensorNode *n = g->nodes[i];
        if (n->kind == NODE_OP && n->op == RP_OP_ATTENTION && rp_dtype_is_quant(n->src[1]->view.dtype))
            return rp_fail(RP_E_UNSUPPORTED,
                           "%s: a cache of %s needs the attention pass, which is switched off", n->name,
                           rp_dtype_name(n->src[1]->view.dtype));
    }
    return RP_OK;
}

static RpStatus find_pass(const char *name, int *out) {
    for (*out = 0; *out < N_PASSES; ++*out)
        if (strcmp(passes[*out].name, name) == 0) return RP_OK;
    char   names[256] = "";
    size_t n          = 0;
    for (int i = 0; i < N_PASSES && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", passes[i].name);
    return rp_fail(RP_E_ARG, "there is no pass '%s'; there are %s", name, names);
}

RpStatus rp_graph_optimize(ComputeGraph *g, const char *disable) {
    return rp_graph_optimize_to(g, disable, NULL);
}

RpStatus rp_graph_optimize_to(ComputeGraph *g, const char *disable, const char *last) {
    bool off[N_PASSES] = {false};
    int  end           = N_PASSES - 1;
    if (!g->finished) return rp_fail(RP_E_STATE, "passes run on a finished graph");
    if (last != NULL) RP_TRY(find_pass(last, &end));
    RP_TRY(parse_disabled(disable != NULL ? disable : rp_option(RP_OPT_PASSES), off));
    for (int i = 0; i <= end; i++) {
        if (off[i] && passes[i].run == rp_pass_attention) RP_TRY(check_unfused(g));
        if (off[i]) continue;
        RP_TRY(passes[i].run(g));
        rp_graph_drop_dead(g);
        RP_TRY(rp_graph_verify(g));
    }
    return RP_OK;
}
