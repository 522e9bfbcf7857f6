/* The op swiglu_oai (gpt-oss) against its formula in double:
 *     g = min(gate, limit), u = clamp(up, -limit, limit), y = g / (1 + exp(-alpha g)) * (u + 1) */
#include "tests/support/kernel_test.h"

static const RpOpParams params = {
    .swiglu_oai = {.alpha = 1.702f, .limit = 7.0f}
};

Test(swiglu_oai, clamps_gate_and_up_and_adds_one_to_up) {
    enum { N = 100, ROWS = 5 };
    float *gate = random_floats(N * ROWS, 1), *up = random_floats(N * ROWS, 2), y[N * ROWS];
    for (int i = 0; i < N * ROWS; i++) gate[i] *= 12.0f, up[i] *= 12.0f;
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, y, N, ROWS, 1, 1),
        .src    = {tensor(RP_F32, gate, N, ROWS, 1, 1), tensor(RP_F32, up, N, ROWS, 1, 1)},
        .params = &params
    };
    run_variants(rp_cpu_swiglu_oai, &args);
    for (int i = 0; i < N * ROWS; i++) {
        const double g = fmin((double)gate[i], 7.0), u = fmax(-7.0, fmin((double)up[i], 7.0));
        const double want = g / (1.0 + exp(-(double)1.702f * g)) * (u + 1.0);
        cr_assert(fabs((double)y[i] - want) <= 1e-6 * fabs(want) + 1e-8, "(%g, %g) gives %.9g, not %.9g",
                  (double)gate[i], (double)up[i], (double)y[i], want);
    }
    free(gate), free(up);
}

Test(swiglu_oai, refuses_another_shape) {
    float          x[8];
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, x, 4, 1, 1, 1),
        .src    = {tensor(RP_F32, x, 4, 1, 1, 1), tensor(RP_F32, x, 2, 1, 1, 1)},
        .params = &params
    };
    REFUSED(run_workers(rp_cpu_swiglu_oai, &args, 1), RP_E_SHAPE,
            "swiglu_oai: rows of gate and up must have one length: gate f32 [4], up f32 [2], result f32 [4]");
    ComputeGraph *g = rp_graph_new();
    TensorNode   *a = rp_graph_input(g, "a", RP_F32, NE(4, 1, 1, 1));
    TensorNode   *b = rp_swiglu_oai(g, a, a, 1.0f, 0.0f);
    REFUSED(rp_graph_finish(g, &b, 1), RP_E_ARG, "the limit must be positive");
    rp_graph_free(g);
}
