/* The hash of a plan: XXH64 of a text with one line for each node of its graph, in order. Node numbers are positions in
 * the order of execution, so that they are the same wherever the graph is. */
#include "graph/dump.h"
#include "graph/plan.h"

#include "base/argument.h"
#include "base/xxh64.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_node(const TensorNode *n, FILE *out) {
    static const char *const kinds[] = {
        [NODE_OP] = "op", [NODE_WEIGHT] = "weight", [NODE_INPUT] = "input", [NODE_STATE] = "state"};
    fprintf(out, "%s %s %s", kinds[n->kind], n->kind == NODE_OP ? rp_op_info(n->op)->name : n->name,
            rp_dtype_name(n->view.dtype));
    for (int d = 0; d < RP_MAX_DIMS; d++) fprintf(out, " %" PRId64 ":%zu", n->view.ne[d], n->view.nb[d]);
    for (int s = 0; s < RP_MAX_SRC; s++)
        if (n->src[s] != NULL) fprintf(out, " %d=%d", s, n->src[s]->id);
    fprintf(out, " at %d+%zu%s ", n->base->id, n->offset, n->is_output ? " output" : "");
    rp_node_dump_params(n, out);
    fputc('\n', out);
}

RpStatus rp_plan_hash(const ExecPlan *plan, uint64_t *out) {
    char  *text = NULL;
    size_t n    = 0;
    RP_NOT_NULL(out, "out");
    *out = 0;
    RP_NOT_NULL(plan, "plan");
    FILE *f = open_memstream(&text, &n);
    if (f == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the hash of a plan");
    for (int i = 0; i < plan->graph->n_nodes; i++) put_node(plan->graph->nodes[i], f);
    const bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) {
        free(text);
        return rp_fail(RP_E_NOMEM, "out of memory for the hash of a plan");
    }
    *out = rp_xxh64(text, n);
    free(text);
    return RP_OK;
}
