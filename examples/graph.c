/* A graph without a model: y = silu(w x) * x for three columns x.
 *
 *     w [N, N]: row m is w[m][0..N)     x, y [N, COLUMNS]: column c is columns[c][0..N)
 *
 * Flow: build -> finish (reports the first error) -> passes -> plan -> executor -> run. */
#include "reprise/executor.h"

#include <stdio.h>
#include <string.h>

enum { N = 4, COLUMNS = 3 };

static RpStatus run(ComputeGraph *g) {
    static float w[N][N] = {
        {1, 0, 0, 0},
        {0, 2, 0, 0},
        {0, 0, 3, 0},
        {1, 1, 1, 1}
    }; /* row m gives element m of each result */
    const float columns[COLUMNS][N] = {
        {1, 2, 3, 4 },
        {0, 1, 0, -1},
        {2, 2, 2, 2 }
    };
    const RpTensorView view = rp_view_contiguous(RP_F32, (int64_t[]){N, N, 1, 1}, w);

    TensorNode *x = rp_graph_input(g, "x", RP_F32, (int64_t[]){N, COLUMNS, 1, 1});
    TensorNode *y = rp_mul(g, rp_silu(g, rp_mul_mat(g, rp_graph_weight(g, "w", &view), x)), x);
    RP_TRY(rp_graph_finish(g, &y, 1)); /* reports the first error of all calls above */
    RP_TRY(rp_graph_optimize(g, NULL));

    ExecPlan   *plan = NULL;
    RpExecutor *exec = NULL;
    RpStatus    st   = rp_plan_new(g, &plan);
    if (st == RP_OK) st = rp_executor_open(plan, NULL, &exec);
    if (st == RP_OK) {
        memcpy(rp_executor_data(exec, x), columns, sizeof columns);
        st = rp_executor_run(exec);
    }
    if (st == RP_OK) st = rp_graph_dump(g, &(RpDumpOptions){.format = RP_DUMP_TEXT}, stdout);
    const float *result = st == RP_OK ? rp_executor_data(exec, y) : NULL;
    for (int c = 0; result != NULL && c < COLUMNS; c++)
        printf("y[%d] = %8.4f %8.4f %8.4f %8.4f\n", c, (double)result[c * N], (double)result[c * N + 1],
               (double)result[c * N + 2], (double)result[c * N + 3]);
    rp_executor_free(exec);
    rp_plan_free(plan);
    return st;
}

int main(void) {
    ComputeGraph  *g  = rp_graph_new();
    const RpStatus st = g != NULL ? run(g) : rp_fail(RP_E_NOMEM, "out of memory");
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    rp_graph_free(g);
    return st != RP_OK;
}
