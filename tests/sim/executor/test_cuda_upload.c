/* Upload of weights that take several pieces of the pinned buffer. The simulated device copies only when somebody
 * waits, so a half that is written again too early shows. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "sim/device/sim.h"

enum { N = 4096, PIECE_ROWS = (32 << 20) / (N * 4), N_IDS = 6 };

typedef struct Rows {
    ComputeGraph *g;
    ExecPlan     *plan;
    float        *w[2];
} Rows;

static const int64_t n_rows[2] = {2 * PIECE_ROWS + 900, PIECE_ROWS + 450}; /* three pieces and two */

/* Element i of row r of weight k. */
static float value(int k, int64_t r, int64_t i) { return (float)(k + 1) * (float)(10000 * r + i); }

/* Two outputs: rows of each weight, selected by ids. */
static Rows new_rows(void) {
    Rows        t = {.g = rp_graph_new()};
    TensorNode *y[2];
    for (int k = 0; k < 2; k++) {
        static const char *const names[2][3] = {
            {"w0", "ids0", "y0"},
            {"w1", "ids1", "y1"}
        };
        const int64_t ne[RP_MAX_DIMS] = {N, n_rows[k], 1, 1}, n_ids[RP_MAX_DIMS] = {N_IDS, 1, 1, 1};
        t.w[k] = malloc((size_t)(N * n_rows[k]) * sizeof *t.w[k]);
        cr_assert_not_null(t.w[k], CASE(k));
        for (int64_t r = 0; r < n_rows[k]; r++)
            for (int64_t i = 0; i < N; i++) t.w[k][r * N + i] = value(k, r, i);
        const RpTensorView v = rp_view_contiguous(RP_F32, ne, t.w[k]);
        y[k] = rp_get_rows(t.g, rp_graph_weight(t.g, names[k][0], &v), rp_graph_input(t.g, names[k][1], RP_I32, n_ids));
        rp_node_set_name(y[k], names[k][2]);
    }
    OK(rp_graph_finish(t.g, y, 2));
    OK(rp_plan_new(t.g, &t.plan));
    return t;
}

Test(cuda_upload, a_weight_of_several_pieces_arrives_whole) {
    Rows        t = new_rows();
    RpExecutor *e;
    sim_stats_reset();
    OK(rp_executor_open(t.plan, &(RpExecutorOptions){.device = "cuda", .require_graph = true}, &e));
    cr_expect_eq(sim_stats().h2d_copies, 5ul);
    const RpExecutorInfo info = rp_executor_info(e);
    cr_expect_eq(info.upload_bytes, (size_t)(N * (n_rows[0] + n_rows[1])) * sizeof(float));
    cr_expect(info.upload_wait_s > 0.0 && info.upload_read_s > 0.0 &&
                  info.upload_s > info.upload_read_s + info.upload_wait_s,
              "%g s, read %g s, waited %g s", info.upload_s, info.upload_read_s, info.upload_wait_s);
    for (int k = 0; k < 2; k++) {
        int32_t      *ids       = rp_executor_data(e, rp_graph_find(t.g, k == 0 ? "ids0" : "ids1"));
        const int32_t at[N_IDS] = {0, 1, PIECE_ROWS - 1, PIECE_ROWS, PIECE_ROWS + 1, (int32_t)n_rows[k] - 1};
        memcpy(ids, at, sizeof at);
    }
    OK(rp_executor_run(e));
    for (int k = 0; k < 2; k++) {
        const int32_t *ids = rp_executor_data(e, rp_graph_find(t.g, k == 0 ? "ids0" : "ids1"));
        const float   *y   = rp_executor_data(e, rp_graph_find(t.g, k == 0 ? "y0" : "y1"));
        for (int64_t r = 0; r < N_IDS; r++)
            cr_expect_arr_eq(y + r * N, t.w[k] + ids[r] * N, N * sizeof *y, "weight %d, row %d", k, ids[r]);
    }
    rp_executor_free(e);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    cr_expect_eq(sim_stats().live_streams, 0L);
    rp_plan_free(t.plan);
    rp_graph_free(t.g);
    for (int k = 0; k < 2; k++) free(t.w[k]);
}

#ifndef SIM_RACE /* which keeps a record of each byte */

/* Two weights in q8_0: of two pieces, repacked as a whole first, and of a part of one, repacked into the pinned buffer.
 * A block is a scale (f16, here 1) and 32 quants. */
Test(cuda_upload, quantised_weights_of_any_size_arrive_repacked) {
    enum { BLOCK = 34, ROW = N / 32 * BLOCK };
    static const int64_t rows[2] = {8000, 40};
    ComputeGraph        *g       = rp_graph_new();
    TensorNode          *y[2];
    unsigned char       *w[2];
    for (int k = 0; k < 2; k++) {
        const int64_t ne[RP_MAX_DIMS] = {N, rows[k], 1, 1}, one[RP_MAX_DIMS] = {1, 1, 1, 1};
        w[k] = calloc((size_t)rows[k], ROW);
        cr_assert_not_null(w[k], CASE(k));
        for (int64_t b = 0; b < rows[k] * N / 32; b++) {
            w[k][b * BLOCK + 1] = 0x3c;
            for (int i = 0; i < 32; i++) w[k][b * BLOCK + 2 + i] = (unsigned char)((b / (N / 32) + i + k) % 100);
        }
        const RpTensorView v = rp_view_contiguous(RP_Q8_0, ne, w[k]);
        y[k]                 = rp_get_rows(g, rp_graph_weight(g, k == 0 ? "w0" : "w1", &v),
                                           rp_graph_input(g, k == 0 ? "id0" : "id1", RP_I32, one));
    }
    ExecPlan   *plan;
    RpExecutor *e;
    OK(rp_graph_finish(g, y, 2));
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cuda", .require_graph = true}, &e));
    for (int k = 0; k < 2; k++)
        *(int32_t *)rp_executor_data(e, rp_graph_find(g, k == 0 ? "id0" : "id1")) = (int32_t)rows[k] - 1;
    OK(rp_executor_run(e));
    for (int k = 0; k < 2; k++) {
        const float *x = rp_executor_data(e, y[k]);
        for (int i = 0; i < N; i++)
            cr_assert_eq(x[i], (float)((rows[k] - 1 + i % 32 + k) % 100), "weight %d, %d", k, i);
    }
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
    for (int k = 0; k < 2; k++) free(w[k]);
}

#endif

/* The scratch memory of a product in tiles is larger than what the check leaves to the driver: a device without room
 * for it refuses the plan before weights are copied. */
Test(cuda_upload, scratch_memory_counts_before_weights_are_copied) {
    enum { COLUMNS = 8192, BLOCK = 34 };
    const int64_t ne[RP_MAX_DIMS] = {N, 64, 1, 1}, columns[RP_MAX_DIMS] = {N, COLUMNS, 1, 1};
    void         *w = calloc((size_t)ne[1] * N / 32, BLOCK);
    cr_assert_not_null(w);
    const RpTensorView v = rp_view_contiguous(RP_Q8_0, ne, w);
    ComputeGraph      *g = rp_graph_new();
    TensorNode        *y = rp_mul_mat(g, rp_graph_weight(g, "w", &v), rp_graph_input(g, "x", RP_F32, columns));
    ExecPlan          *plan;
    RpExecutor        *e;
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_optimize(g, NULL));
    OK(rp_plan_new(g, &plan));
    setenv("REPRISE_BLAS", "off", 1);
    OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cuda", .mode = RP_MODE_EAGER}, &e));
    const size_t takes = rp_executor_info(e).device_bytes;
    rp_executor_free(e);
    for (size_t more = 31; more <= 33; more += 2) {
        sim_device_memory(takes + (more << 20));
        sim_stats_reset();
        const RpStatus st = rp_executor_open(plan, &(RpExecutorOptions){.device = "cuda", .mode = RP_MODE_EAGER}, &e);
        cr_expect_eq(st, more < 32 ? RP_E_NOMEM : RP_OK, "%s", rp_last_error());
        if (st != RP_OK) cr_expect_eq(sim_stats().h2d_bytes, 0ul, "%s", rp_last_error());
        if (st != RP_OK) cr_expect_not_null(strstr(rp_last_error(), "the plan takes"), "%s", rp_last_error());
        rp_executor_free(e);
    }
    unsetenv("REPRISE_BLAS");
    const RpPlanMemory m = rp_plan_memory(plan);
    cr_expect_gt(takes, m.arena + m.weights + (33 << 20), "the scratch memory is larger than the margin");
    rp_plan_free(plan);
    rp_graph_free(g);
    free(w);
}

/* Copies that were enqueued fault: the error comes with the wait for them, and the device counts as lost. */
Test(cuda_upload, a_lost_device_is_noticed) {
    RpModel               *m = golden_open_tiny("llama-q4_0");
    const RpSessionOptions o = {.n_ctx = 8, .prefill_chunk = 1, .device = "cuda"};
    RpSession             *s;
    for (unsigned nth = 1; nth <= 3; nth++) {
        sim_fail("cudaEventSynchronize", nth, cudaErrorIllegalAddress);
        sim_fail("cudaStreamQuery", 1, cudaErrorIllegalAddress); /* as any call answers then */
        REFUSED(rp_session_open(m, &o, &s), RP_E_CUDA, "upload of weights");
        cr_expect_eq(sim_fails_left(), 0u, CASE(nth));
        sim_reset_faults();
        cr_expect_eq(sim_stats().live_allocs, 0L, "%u", nth);
    }
    rp_model_free(m);
}

/* Each call of the upload may fail: nothing stays allocated. */
Test(cuda_upload, fails_cleanly) {
    static const char *const calls[] = {"cudaMallocHost",  "cudaEventCreateWithFlags", "cudaEventSynchronize",
                                        "cudaMemcpyAsync", "cudaEventRecord",          "cudaStreamCreateWithFlags"};
    RpModel                 *m       = golden_open_tiny("llama-q4_0");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const RpSessionOptions o = {.n_ctx = 8, .prefill_chunk = 1, .device = "cuda"};
        RpSession             *s;
        const unsigned most = strcmp(calls[i], "cudaStreamCreateWithFlags") == 0 ? 3 : 2; /* the device's is first */
        for (unsigned nth = 1; nth <= most; nth++) {
            sim_fail(calls[i], nth, cudaErrorInvalidValue);
            const RpStatus st = rp_session_open(m, &o, &s);
            cr_expect_eq(st, RP_E_CUDA, "%s %u", calls[i], nth);
            cr_expect_not_null(strstr(rp_last_error(), "cuda:0"), "%s", rp_last_error());
            rp_session_free(s);
            sim_reset_faults();
            cr_expect_eq(sim_stats().live_allocs, 0L, "%s %u", calls[i], nth);
            cr_expect_eq(sim_stats().live_streams, 0L, "%s %u", calls[i], nth);
        }
    }
    rp_model_free(m);
}
