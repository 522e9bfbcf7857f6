/* The fused op gate_up: column -> norm -> quantise -> act(gate product) * (up product) -> quantise, for a dense
 * layer or for the experts in ids. Bit for bit against the single ops (fused.h), and against the formula in
 * double. */
#include "tests/support/fused.h"

enum { E = 5, K = 4 };

/* Source i times the column, for each id: gate (0) or up (1). */
static RpTensorView half(Runner *run, const RpOpArgs *as, int i, RpTensorView column) {
    const RpTensorView *w = &as->src[i], *ids = &as->gate_up.ids, *bias = &as->src[5 + i];
    const int64_t       k = as->dst.ne[1];
    const RpTensorView  y = new_floats(w->ne[1], k);
    if (ids->ne[0] <= 0) {
        run_op(run, rp_cpu_mul_mat, y, (RpOpParams){0}, *w, column);
        unfused_add(run, y, *bias);
        return y;
    }
    const RpOpArgs product =
                       {
                           .dst = y, .src = {*w, column, *ids}
    },
                   add = {.dst = y, .src = {y, *bias, *ids}};
    run(rp_cpu_mul_mat_id, &product);
    if (bias->ne[0] > 0) run(rp_cpu_add_id, &add);
    return y;
}

/* The experts and behind them the shared one, as one source; the caller frees its data. */
static RpTensorView with_shared(RpTensorView w, const RpTensorView *shared) {
    const size_t bytes = rp_view_extent_bytes(&w), more = rp_view_extent_bytes(shared);
    char        *all = malloc(bytes + more + 64);
    memcpy(all, w.data, bytes);
    memcpy(all + bytes, shared->data, more);
    return VIEW(w.dtype, all, w.ne[0], w.ne[1], w.ne[2] + 1, 1);
}

static void unfused_all(Runner *run, const RpOpArgs *as);

/* The column of a shared expert is that of an expert more, which every token chooses. An id that names no expert must
 * not name that one. */
static void unfused(Runner *run, const RpOpArgs *as) {
    RpOpArgs all = *as;
    int32_t  ids[K + 1];
    if (as->gate_up.shared_gate.ne[0] <= 0) {
        unfused_all(run, as);
        return;
    }
    for (int i = 0; i < K; i++) {
        const int32_t id = ((const int32_t *)as->gate_up.ids.data)[i];
        ids[i]           = id >= E ? -1 : id;
    }
    ids[K]                  = E;
    all.gate_up.ids         = VIEW(RP_I32, ids, K + 1, 1, 1, 1);
    all.gate_up.gate        = with_shared(as->gate_up.gate, &as->gate_up.shared_gate);
    all.gate_up.up          = with_shared(as->gate_up.up, &as->gate_up.shared_up);
    all.gate_up.shared_gate = all.gate_up.shared_up = (RpTensorView){0};
    unfused_all(run, &all);
    free(all.gate_up.gate.data), free(all.gate_up.up.data);
}

/* Sources: 0 gate weights, 1 up weights, 2 column, 3 norm weight, 4 ids, 5 gate bias, 6 up bias; 3 to 6 may be
 * absent. */
static void unfused_all(Runner *run, const RpOpArgs *as) {
    const RpGateUpParams *p      = &as->params->gate_up;
    const RpTensorView    column = unfused_column(run, as->gate_up.x, as->gate_up.norm, &p->column), none = {0};
    const RpTensorView    gate = half(run, as, 0, column), up = half(run, as, 1, column);
    if (p->kind == RP_GATE_OAI) {
        run_op(run, rp_cpu_swiglu_oai, gate,
               (RpOpParams){
                   .swiglu_oai = {.alpha = p->alpha, .limit = p->limit}
        },
               gate, up);
    } else {
        const RpGeluKind kind = p->kind == RP_GATE_GELU_TANH ? RP_GELU_TANH : RP_GELU_ERF;
        run_op(run, p->kind == RP_GATE_SILU ? rp_cpu_silu : rp_cpu_gelu, gate, (RpOpParams){.gelu = {.kind = kind}},
               gate, none);
        run_op(run, rp_cpu_mul, gate, (RpOpParams){0}, gate, up);
    }
    const RpTensorView result = p->dtype == RP_Q8_ACT ? unfused_quantize(run, gate) : gate;
    memcpy(as->dst.data, result.data, rp_view_extent_bytes(&as->dst));
    free(column.data), free(gate.data), free(up.data);
    if (p->dtype == RP_Q8_ACT) free(result.data);
}

typedef struct Case {
    RpDtype    type, result;
    RpGateKind kind;
    int64_t    n, rows;
    bool       norm, quantize, quantized, ids, bias, shared; /* quantized: x is q8_act */
} Case;

static void check(Case c) {
    const int64_t experts = c.ids ? E : 1, k = c.ids ? K + (c.shared ? 1 : 0) : 1;
    char         *gate = random_weights(c.type, c.n, c.rows * experts, 60),
         *up = random_weights(c.type, c.n, c.rows * experts, 61), *own = random_weights(c.type, c.n, 2 * c.rows, 65);
    float *x = random_floats((size_t)c.n, 62), *norm = random_floats((size_t)c.n, 63),
          *bias             = random_floats((size_t)(2 * c.rows * experts), 64);
    char            *column = c.quantized ? quantize_columns(x, c.n, 1) : NULL;
    int32_t          ids[K] = {3, E, 0, -1};
    const RpOpParams p      = {
             .gate_up = {.column = {.norm = c.norm, .eps = 1e-5f, .round = c.quantize},
                         .kind   = c.kind,
                         .alpha  = 1.7f,
                         .limit  = 0.5f,
                         .dtype  = c.result}
    };
    RpTensorView y = VIEW(c.result, NULL, c.rows, k, 1, 1);
    y.data         = malloc(rp_view_extent_bytes(&y));
    RpOpArgs args  = {
         .dst    = y,
         .src    = {VIEW(c.type, gate, c.n, c.rows, experts, 1), VIEW(c.type, up, c.n, c.rows, experts, 1),
                    c.quantized ? VIEW(RP_Q8_ACT, column, c.n, 1, 1, 1) : floats(x, c.n, 1)},
         .params = &p
    };
    if (c.norm) args.gate_up.norm = floats(norm, c.n, 1);
    if (c.ids) args.gate_up.ids = VIEW(RP_I32, ids, K, 1, 1, 1);
    if (c.bias) args.gate_up.gate_bias = floats(bias, c.rows, experts);
    if (c.bias) args.gate_up.up_bias = floats(bias + c.rows * experts, c.rows, experts);
    if (c.shared) args.gate_up.shared_gate = VIEW(c.type, own, c.n, c.rows, 1, 1);
    if (c.shared)
        args.gate_up.shared_up = VIEW(c.type, own + (size_t)c.rows * rp_row_bytes(c.type, c.n), c.n, c.rows, 1, 1);
    check_fused(rp_cpu_gate_up, &args, unfused);
    free(own), free(gate), free(up), free(x), free(norm), free(bias), free(column), free(y.data);
}

DEFINE_FOR_ALL_TYPES(2, 77);

Test(gate_up, multiplies_the_activated_gate_by_up) {
    for_all_types((Case){.rows = 21});
    for_all_types((Case){.rows = 21, .quantized = true});
    for_all_types((Case){.rows = 11, .norm = true, .quantize = true, .bias = true});
}
Test(gate_up, quantises_its_result) {
    for_all_types((Case){.rows = 64, .quantized = true, .result = RP_Q8_ACT});
    for_all_types((Case){.rows = 96, .norm = true, .quantize = true, .result = RP_Q8_ACT, .ids = true});
    for_all_types((Case){.rows = 32, .norm = true, .result = RP_Q8_ACT, .ids = true, .bias = true});
}
Test(gate_up, computes_the_selected_experts) {
    for_all_types((Case){.rows = 13, .quantized = true, .ids = true});
    for_all_types((Case){.rows = 13, .norm = true, .ids = true, .bias = true});
}
Test(gate_up, computes_a_shared_expert) {
    for_all_types((Case){.rows = 13, .quantized = true, .ids = true, .shared = true});
    for_all_types((Case){.rows = 96, .norm = true, .quantize = true, .result = RP_Q8_ACT, .ids = true, .shared = true});
    for_all_types((Case){.rows = 32, .norm = true, .ids = true, .shared = true});
}

Test(gate_up, supports_every_kind_of_gate) {
    for (int kind = 0; kind <= RP_GATE_OAI; kind++) {
        const Case c = {
            .type = RP_Q4_K, .kind = (RpGateKind)kind, .n = 512, .rows = 32, .norm = true, .quantize = true};
        Case d = c;
        check(c);
        d.ids = d.bias = true;
        check(d);
        d.result = RP_Q8_ACT;
        check(d);
    }
}

/* On the device: rows that several warps share, more quantised blocks than arrival counters, several row tiles
 * a block. */
Test(gate_up, takes_any_shape) {
    check((Case){.type = RP_Q4_0, .n = 8192, .rows = 32, .norm = true, .quantize = true, .result = RP_Q8_ACT});
    check((Case){.type = RP_Q6_K, .n = 4096, .rows = 9, .norm = true, .quantize = true, .ids = true});
    check((Case){.type = RP_F16, .n = 4096, .rows = 64, .norm = true, .result = RP_Q8_ACT});
    check((Case){.type = RP_Q8_0, .n = 64, .rows = 192, .quantized = true, .bias = true, .result = RP_Q8_ACT});
    check((Case){.type = RP_F32, .n = 4, .rows = 34016, .norm = true, .ids = true, .result = RP_Q8_ACT});
}

Test(gate_up, computes_the_documented_formula) {
    enum { N = 32, M = 6 };
    float           *x = random_floats(N, 70), *bias = random_floats(2 * M, 71), y[M];
    char            *blocks = random_weights(RP_Q4_0, N, 2 * M, 72);
    const RpOpParams p      = {.gate_up = {.column = {.norm = 1, .eps = 1e-5f}}};
    const RpOpArgs   args   = {
            .dst    = floats(y, M, 1),
            .src    = {VIEW(RP_Q4_0, blocks, N, M, 1, 1),
                       VIEW(RP_Q4_0, blocks + M * rp_row_bytes(RP_Q4_0, N), N, M, 1, 1),
                       floats(x, N, 1),
                       {0},
                       {0},
                       floats(bias, M, 1),
                       floats(bias + M, M, 1)},
            .params = &p
    };
    float *w = dequantized(&args.gate_up.gate), *u = dequantized(&args.gate_up.up);
    run_variants(rp_cpu_gate_up, &args);
    double squares = 0.0, want[M];
    for (int k = 0; k < N; k++) squares += (double)x[k] * (double)x[k];
    for (int m = 0; m < M; m++) {
        double gate = (double)bias[m], up = (double)bias[M + m];
        for (int k = 0; k < N; k++) {
            gate += (double)w[N * m + k] * (double)x[k] / sqrt(squares / N + 1e-5);
            up += (double)u[N * m + k] * (double)x[k] / sqrt(squares / N + 1e-5);
        }
        want[m] = gate / (1.0 + exp(-gate)) * up;
    }
    expect_near(y, want, M, 1e-5);
    free(x), free(bias), free(blocks), free(w), free(u);
}

Test(gate_up, refuses_shapes_that_do_not_fit) {
    static float     w[512], x[64], y[64];
    int32_t          ids[2] = {0};
    const RpOpParams p = {.gate_up = {.kind = RP_GATE_SILU}}, quantizes = {.gate_up = {.dtype = RP_Q8_ACT}};
    RpOpArgs         args = {
                .dst    = floats(y, 4, 1),
                .src    = {floats(w, 8, 4), floats(w, 8, 5), floats(x, 8, 1)},
                .params = &p,
    };
    REFUSED(run_workers(rp_cpu_gate_up, &args, 1), RP_E_SHAPE,
            "gate_up: gate and up must have one shape: gate f32 [8,4], up f32 [8,5], x f32 [8], result f32 [4]");
    args.gate_up.up = floats(w, 8, 4), args.params = &quantizes;
    REFUSED(run_workers(rp_cpu_gate_up, &args, 1), RP_E_SHAPE,
            "gate_up: a q8_act result must be whole blocks of 32: gate f32 [8,4], up f32 [8,4], x f32 [8], "
            "result f32 [4]");
    args.params = &p, args.gate_up.ids = VIEW(RP_I32, ids, 2, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_gate_up, &args, 1), RP_E_SHAPE,
            "gate_up: ids must be i32 [1]: gate f32 [8,4], up f32 [8,4], x f32 [8], ids i32 [2], result f32 [4]");
    args.gate_up.ids = (RpTensorView){0}, args.gate_up.up_bias = floats(x, 3, 1);
    REFUSED(run_workers(rp_cpu_gate_up, &args, 1), RP_E_SHAPE,
            "gate_up: up_bias must be f32 of 4 elements: gate f32 [8,4], up f32 [8,4], x f32 [8], up_bias "
            "f32 [3], result f32 [4]");
    args.gate_up.up_bias = (RpTensorView){0}, args.gate_up.shared_gate = floats(w, 8, 4);
    REFUSED(run_workers(rp_cpu_gate_up, &args, 1), RP_E_SHAPE,
            "gate_up: a shared expert must have gate and up: gate f32 [8,4], up f32 [8,4], x f32 [8], shared_gate "
            "f32 [8,4], result f32 [4]");
    args.gate_up.shared_up = floats(w, 8, 3), args.gate_up.ids = VIEW(RP_I32, ids, 1, 1, 1, 1);
    args.dst = floats(y, 4, 2);
    REFUSED(run_workers(rp_cpu_gate_up, &args, 1), RP_E_SHAPE,
            "gate_up: a shared expert must have the shape of the others: gate f32 [8,4], up f32 [8,4], x f32 [8], ids "
            "i32 [1], shared_gate f32 [8,4], shared_up f32 [8,3], result f32 [4,2]");
}
