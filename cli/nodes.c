/* nodes.c - one-line descriptions of kernel launches: grid x block, kernel, bytes moved. */
#include "cli/nodes.h"

#include <stdlib.h>
#include <string.h>

RpDumpNote *cli_new_notes(const ComputeGraph *g) {
    const int   n     = rp_graph_n_nodes(g);
    RpDumpNote *notes = calloc((size_t)n + 1, sizeof *notes);
    for (int i = 0; notes != NULL && i < n; i++) notes[i].heat = -1.0;
    return notes;
}

/* Writes a note such as "264x1x1 x 256 (+shared) gemv_kernel, 4352.0 kB". For a step of several kernels it describes
 * the last one; the bytes are those of the whole step. */
static void note_launch(const RpStepLaunch *l, RpDumpNote *note) {
    int n = 0;
    /* Names of kernel templates with several arguments are in parentheses: "(name<a, b>)". */
    const char  *kernel = l->kernel[0] == '(' ? l->kernel + 1 : l->kernel;
    const size_t end    = strcspn(kernel, "<)");
    if (l->n_kernels > 1) n = snprintf(note->text, sizeof note->text, "%d kernels, the last ", l->n_kernels);
    snprintf(note->text + n, sizeof note->text - (size_t)n, "%ux%ux%u x %u%s %.*s, %.1f kB", l->grid[0], l->grid[1],
             l->grid[2], l->block[0], l->shared_bytes > 0 ? " (+shared)" : "", (int)(end < 40 ? end : 40), kernel,
             (double)l->bytes / 1e3);
}

RpStatus cli_note_launches(const ComputeGraph *g, RpDumpNote *notes) {
    ExecPlan *plan;
    RP_TRY(rp_plan_new(g, &plan));
    RpStatus st = RP_OK;
    for (int i = 0; i < rp_plan_memory(plan).n_steps && st == RP_OK; i++) {
        RpStepLaunch l;
        st = rp_cuda_plan_launch(plan, i, &l);
        if (st == RP_OK) note_launch(&l, &notes[rp_node_number(l.node)]);
    }
    rp_plan_free(plan);
    return st;
}
