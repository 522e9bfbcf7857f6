/* Custom ops, custom patterns and the fusions of the library: which graphs match, which do not, and what
 * registration refuses. Expected are the numbers of steps that remain; results are compared with runs without
 * passes. */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

#include "graph/pattern.h"

/* ---- custom ops ---- */

static RpStatus like_first(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params;
    if (in->unary.x->dtype != RP_F32) return *why = "the source must be f32", RP_E_DTYPE;
    *out = rp_view_contiguous(RP_F32, in->unary.x->ne, NULL);
    return RP_OK;
}

/* y = x + i[0] * src[1], or x + i[0] without a second source. */
static RpStatus shift(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *x = args->src[0].data, by = (float)args->params->custom.i[0];
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth)
        y[i] = x[i] + by * (rp_is_present(&args->src[1]) ? ((const float *)args->src[1].data)[i] : 1.0f);
    return RP_OK;
}

static const RpOpDescription shift_op = {
    .name = "shift", .n_required = 1, .n_sources = 2, .shape = like_first, .cpu = shift};

static TensorOp shift_id(void) {
    static TensorOp op;
    if (op == 0) OK(rp_op_register(&shift_op, &op));
    return op;
}

static TensorNode *shifted(ComputeGraph *g, TensorNode *x, int by) {
    const RpOpParams p = {.custom = {.i = {by}}};
    return rp_graph_op(g, shift_id(), &p, &x, 1);
}

static TensorNode *vector(ComputeGraph *g, const char *name) { return rp_graph_input(g, name, RP_F32, NE(8, 1, 1, 1)); }

Test(pattern, a_custom_op_runs) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = vector(g, "x"), *y = shifted(g, x, 3);
    ExecPlan     *plan;
    RpExecutor   *e;
    OK(rp_graph_finish(g, &y, 1));
    cr_expect_str_eq(rp_node_op_name(y), "shift");
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu"}, &e));
    for (int i = 0; i < 8; i++) ((float *)rp_executor_data(e, x))[i] = (float)i;
    OK(rp_executor_run(e));
    for (int i = 0; i < 8; i++) cr_expect_eq(((float *)rp_executor_data(e, y))[i], (float)i + 3.0f, CASE(i));
    rp_executor_free(e);
    rp_plan_free(plan);
    rp_graph_free(g);
}

Test(pattern, bad_custom_ops_are_refused_by_name) {
    RpOpDescription d = shift_op;
    TensorOp        op;
    (void)shift_id();
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "there is an op 'shift'");
    d.name = "mul_mat";
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "there is an op 'mul_mat'");
    d.name = "no name";
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "an op's name is made of letters, digits and _");
    d.name = "half", d.sources = (const char *const[]){"x", "no name"};
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "op 'half': the name of source 1 must be made of letters, digits and _");
    d.cpu = NULL;
    REFUSED(rp_op_register(&d, &op), RP_E_ARG,
            "op 'half': must have a shape rule, a CPU kernel, 0 <= n_required <= n_sources <= 16 and no flags but "
            "RP_FLAG_INPLACE, RP_FLAG_FUSED and RP_WRITES");
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = vector(g, "x"), *y = rp_graph_op(g, (TensorOp)(RP_OP_CUSTOM + 60), NULL, &x, 1);
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_ARG, "there is no such op");
    rp_graph_free(g);
}

/* ---- pattern texts ---- */

static void refuse(const char *match, const char *make, const char *text) {
    const RpGraphPattern p = {.name = "refused", .match = match, .make = make};
    REFUSED(rp_pattern_register(&p), RP_E_ARG, text);
}

Test(pattern, bad_pattern_texts_are_refused_with_the_position) {
    refuse("mul(silu(x)", "mul(x)", "\"mul(silu(x)\", character 12: expected ',' or ')'");
    refuse("mul(sulu(x), y)", "mul(x, y)", "character 5: there is no such op");
    refuse("silu(x, y)", "silu(x)", "the op has fewer sources");
    refuse("x", "silu(x)", "a root must be an op, without ? or ~");
    refuse("silu?(x)", "silu(x)", "a root must be an op, without ? or ~");
    refuse("(x)", "silu(x)", "pattern refused: \"(x)\", character 1: expected an op");
    refuse("silu(~)", "silu(x)", "character 6: expected a name");
    refuse("silu(x); silu(x); silu(x); silu(x); silu(x)", "silu(x)", "too many roots");
    refuse("silu(x) y", "silu(x)", "expected the end or ';'");
    refuse("silu(x)", "silu(y)", "the match has no such variable");
    refuse("silu(x)", "silu", "expected '('");
    refuse("silu(x)", "silu(x) x", "expected the end");
    refuse("silu(a_name_that_is_too_long)", "silu(x)", "the name is too long");
    const RpGraphPattern taken = {.name = "qkv", .match = "silu(x)", .make = "gelu(x)"};
    REFUSED(rp_pattern_register(&taken), RP_E_ARG, "there is a pass 'qkv' already");
    const RpGraphPattern all = {.name = "all", .match = "silu(x)", .make = "gelu(x)"};
    REFUSED(rp_pattern_register(&all), RP_E_ARG,
            "pattern 'all': its name must be made of letters, digits and _, and not be 'all'");
    REFUSED(rp_pattern_register(&(RpGraphPattern){.name = "x"}), RP_E_ARG,
            "a pattern must have a name, a match text and a make text");
}

/* Nested: each term is the second source of the one around it. */
static void nested(char *text, int depth) {
    char *p = text;
    for (int i = 0; i < depth; i++) p += sprintf(p, "add(x, ");
    p += sprintf(p, "x");
    for (int i = 0; i < depth; i++) *p++ = ')';
    *p = '\0';
}

Test(pattern, texts_of_more_terms_or_names_than_fit_are_refused) {
    char text[2048];
    nested(text, 31); /* 63 terms */
    const RpGraphPattern p = {.name = "nested", .match = text, .make = "silu(x)"};
    Pattern              parsed;
    OK(rp_pattern_parse(&p, &parsed));
    nested(text, 32);
    refuse(text, "silu(x)", "too many terms");
    refuse("silu:a0(silu:a1(silu:a2(silu:a3(silu:a4(silu:a5(silu:a6(silu:a7(silu:a8(silu:a9("
           "silu:b0(silu:b1(silu:b2(silu:b3(silu:b4(silu:b5(silu:b6(silu:b7(silu:b8(silu:b9("
           "silu:c0(silu:c1(silu:c2(silu:c3(silu:c4(silu:c5(silu:c6(silu:c7(silu:c8(silu:c9("
           "silu:d0(silu:d1(silu:d2(silu:d3(silu:d4(silu:d5(silu:d6(silu:d7(silu:d8(silu:d9(x",
           "silu(x)", "too many names");
}

/* ---- matching ---- */

/* Finishes the graph and applies one pattern; returns the number of steps that remain. */
static int steps_with(ComputeGraph *g, TensorNode *const outputs[], int n_outputs, const RpGraphPattern *p) {
    const PatternRow row = {.pattern = *p};
    OK(rp_graph_finish(g, outputs, n_outputs));
    OK(rp_pattern_apply(g, &row, 1));
    rp_graph_drop_dead(g);
    OK(rp_graph_verify(g));
    return rp_graph_n_steps(g);
}

static const RpGraphPattern silu_mul = {.name = "t", .match = "mul(silu(x), y)", .make = "swiglu_oai(x, y)"};

static bool oai_params(const RpPatternMatch *m, RpOpParams *out) {
    cr_assert_not_null(rp_match_node(m, "x"));
    cr_assert_null(rp_match_node(m, "nothing"));
    out->swiglu_oai = (RpSwigluOaiParams){.alpha = 1.0f, .limit = 7.0f};
    return true;
}

static int steps_of_silu_mul(bool swapped, bool second_reader, bool is_output) {
    ComputeGraph  *g = rp_graph_new();
    TensorNode    *x = vector(g, "x"), *y = vector(g, "y"), *s = rp_silu(g, x);
    RpGraphPattern p   = silu_mul;
    p.params           = oai_params;
    TensorNode *out[2] = {swapped ? rp_mul(g, y, s) : rp_mul(g, s, y), s};
    if (second_reader) out[0] = rp_add(g, out[0], s);
    const int n = steps_with(g, out, is_output ? 2 : 1, &p);
    rp_graph_free(g);
    return n;
}

Test(pattern, inner_nodes_must_have_no_other_reader) {
    cr_expect_eq(steps_of_silu_mul(false, false, false), 1);
    cr_expect_eq(steps_of_silu_mul(true, false, false), 1, "the sources of mul may be swapped");
    cr_expect_eq(steps_of_silu_mul(false, true, false), 3, "a second reader");
    cr_expect_eq(steps_of_silu_mul(false, false, true), 2, "an output");
}

Test(pattern, a_replacement_whose_shapes_do_not_fit_is_no_match) {
    ComputeGraph  *g = rp_graph_new();
    TensorNode    *x = vector(g, "x"), *one = rp_graph_input(g, "y", RP_F32, NE(1, 1, 1, 1));
    TensorNode    *y = rp_mul(g, rp_silu(g, x), one);
    RpGraphPattern p = silu_mul;
    p.params         = oai_params;
    cr_expect_eq(steps_with(g, &y, 1, &p), 2, "swiglu_oai wants two sources of one shape");
    rp_graph_free(g);
}

Test(pattern, a_variable_names_the_same_node_everywhere) {
    const RpGraphPattern square = {.name = "t", .match = "mul(silu(x), x)", .make = "silu(x)"};
    for (int same = 0; same < 2; same++) {
        ComputeGraph *g = rp_graph_new();
        TensorNode   *x = vector(g, "x"), *z = vector(g, "z"), *y = rp_mul(g, rp_silu(g, x), same ? x : z);
        cr_expect_eq(steps_with(g, &y, 1, &square), same ? 1 : 2, CASE(same));
        rp_graph_free(g);
    }
}

Test(pattern, optional_ops_and_sources_may_be_absent) {
    const RpGraphPattern p = {.name = "t", .match = "sigmoid(rms_norm?(x, w?))", .make = "mul(x, w)"};
    for (int with = 0; with < 3; with++) {
        ComputeGraph *g = rp_graph_new();
        TensorNode   *x = vector(g, "x"), *w = vector(g, "w");
        TensorNode   *y = rp_sigmoid(g, with > 0 ? rp_rms_norm(g, x, with > 1 ? w : NULL, 0.0f) : x);
        cr_expect_eq(steps_with(g, &y, 1, &p), with > 0 && with < 2 ? 2 : 1, "mul needs both sources: %d", with);
        cr_expect_str_eq(rp_node_op_name(y), with == 2 ? "mul" : "sigmoid", CASE(with));
        rp_graph_free(g);
    }
}

/* A node with `~` may have other readers: it is kept for them, and computed again in the fused op. */
Test(pattern, a_kept_node_keeps_its_other_readers) {
    const RpGraphPattern p = {.name = "t", .match = "gelu(silu~(x))", .make = "sigmoid(x)"};
    ComputeGraph        *g = rp_graph_new();
    TensorNode          *x = vector(g, "x"), *s = rp_silu(g, x),
               *y[3] = {rp_gelu(g, s, RP_GELU_TANH), rp_scale(g, s, 2.0f, 0.0f)};
    y[2]             = rp_gelu(g, s, RP_GELU_ERF);
    cr_expect_eq(steps_with(g, y, 3, &p), 4);
    cr_expect_str_eq(rp_node_op_name(y[0]), "sigmoid");
    cr_expect_eq(rp_node_source(y[2], 0), x);
    cr_expect_eq(rp_node_source(y[1], 0), s);
    rp_graph_free(g);
}

/* A store between silu and mul overwrites the state that silu has read. The fused op, in the place of mul,
 * would read the new values. */
Test(pattern, a_source_written_between_the_nodes_is_no_match) {
    for (int between = 0; between < 2; between++) {
        ComputeGraph *g     = rp_graph_new();
        TensorNode   *state = rp_graph_state(g, "s", RP_F32, NE(8, 1, 1, 1)), *x = vector(g, "x");
        TensorNode   *silu = rp_silu(g, state), *y = vector(g, "y");
        TensorNode   *stored = between ? rp_store(g, x, state, NULL) : NULL;
        TensorNode   *out    = rp_mul(g, silu, y);
        if (!between) stored = rp_store(g, x, state, NULL);
        RpGraphPattern p   = silu_mul;
        p.params           = oai_params;
        TensorNode *outs[] = {out, rp_scale(g, stored, 2.0f, 0.0f)};
        cr_expect_eq(steps_with(g, outs, 2, &p), between ? 4 : 3, CASE(between));
        rp_graph_free(g);
    }
}

/* y = src[0], and src[1] is written to the state src[2]. */
static RpStatus both(const RpOpArgs *args, RpKernelCtx *ctx) {
    if (ctx->ith != 0) return RP_OK;
    memcpy(args->dst.data, args->src[0].data, rp_view_extent_bytes(&args->dst));
    memcpy(args->src[2].data, args->src[1].data, rp_view_extent_bytes(&args->src[2]));
    return RP_OK;
}

static const RpOpDescription both_op = {.name       = "both",
                                        .n_required = 3,
                                        .n_sources  = 3,
                                        .shape      = like_first,
                                        .flags      = RP_FLAG_FUSED | RP_WRITES(2),
                                        .cpu        = both};

typedef enum Between { NOTHING, READS_STATE, STORES, DEPENDS } Between;

/* Two roots, silu(x) and the store of gelu(z); `between` is what stands between them. */
static int steps_of_two_roots(Between between) {
    static TensorOp      op;
    const RpGraphPattern p = {.name = "t", .match = "silu(x); copy(gelu(z), s)", .make = "both(x, z, s)"};
    if (op == 0) OK(rp_op_register(&both_op, &op));
    ComputeGraph *g     = rp_graph_new();
    TensorNode   *state = rp_graph_state(g, "s", RP_F32, NE(8, 1, 1, 1)),
               *other = rp_graph_state(g, "o", RP_F32, NE(8, 1, 1, 1)), *x = vector(g, "x"), *z = vector(g, "z");
    TensorNode *out[3] = {rp_silu(g, x)};
    int         n      = 1;
    if (between == READS_STATE) out[n++] = rp_sigmoid(g, state);
    if (between == STORES) (void)rp_store(g, x, other, NULL);
    TensorNode *stored =
        rp_store(g, rp_gelu(g, between == DEPENDS ? rp_sigmoid(g, out[0]) : z, RP_GELU_TANH), state, NULL);
    out[n++]    = rp_sigmoid(g, stored);
    const int k = steps_with(g, out, n, &p);
    if (between == NOTHING) {
        cr_expect_str_eq(rp_node_op_name(out[0]), "both");
        cr_expect_str_eq(rp_node_op_name(stored), "after", "readers of the state see it after the op");
        cr_expect_eq(rp_node_source(stored, 1), out[0]);
    }
    rp_graph_free(g);
    return k;
}

Test(pattern, several_roots_become_one_op) {
    cr_expect_eq(steps_of_two_roots(NOTHING), 2);
    cr_expect_eq(steps_of_two_roots(READS_STATE), 5, "a reader of the state before the store");
    cr_expect_eq(steps_of_two_roots(STORES), 5, "a store into something else between the roots");
    cr_expect_eq(steps_of_two_roots(DEPENDS), 5, "the second root needs the first");
}

Test(pattern, a_pattern_that_matches_what_it_makes_is_refused) {
    const RpGraphPattern p   = {.name = "loop", .match = "silu(x)", .make = "silu(x)"};
    const PatternRow     row = {.pattern = p};
    ComputeGraph        *g   = rp_graph_new();
    TensorNode          *y   = rp_silu(g, vector(g, "x"));
    OK(rp_graph_finish(g, &y, 1));
    REFUSED(rp_pattern_apply(g, &row, 1), RP_E_ARG, "pattern 'loop' matches its own result without end");
    rp_graph_free(g);
}

static const RpGraphPattern custom_pattern = {
    .name = "twice", .help = "shifts", .match = "add(shift(x), y)", .make = "shift(x, y)", .params = NULL};

static bool whole_shift(const RpPatternMatch *m, RpOpParams *out) {
    out->custom = rp_node_params(rp_match_node(m, "s"))->custom;
    return out->custom.i[0] == 1;
}

Test(pattern, a_custom_pattern_is_a_pass) {
    static RpGraphPattern p;
    p        = custom_pattern;
    p.match  = "add(shift:s(x), y)";
    p.params = whole_shift;
    (void)shift_id();
    const int n = rp_pass_count();
    OK(rp_pattern_register(&p));
    cr_expect_eq(rp_pass_count(), n + 1);
    cr_expect_str_eq(rp_pass_name(n), "twice");
    cr_expect_str_eq(rp_pass_help(n), "shifts");
    for (int by = 1; by <= 2; by++)
        for (int on = 0; on < 2; on++) {
            ComputeGraph *g = rp_graph_new();
            TensorNode   *x = vector(g, "x"), *y = rp_add(g, shifted(g, x, by), vector(g, "y"));
            OK(rp_graph_finish(g, &y, 1));
            OK(rp_graph_optimize(g, on ? "" : "-twice"));
            cr_expect_eq(rp_graph_n_steps(g), on && by == 1 ? 1 : 2, "the params function decides");
            rp_graph_free(g);
        }
    REFUSED(rp_pattern_register(&p), RP_E_ARG, "there is a pass 'twice' already");
}

/* ---- what registration refuses ---- */

static const RpOpDescription plain_op = {
    .name = "plain", .n_required = 1, .n_sources = 3, .shape = like_first, .flags = RP_FLAG_FUSED, .cpu = both};

Test(pattern, stores_that_would_be_lost_are_refused) {
    TensorOp op;
    OK(rp_op_register(&plain_op, &op));
    OK(rp_op_register(&both_op, &op));
    refuse("silu(x); copy(y, s)", "plain(x, y, s)",
           "pattern refused: root 2 stores into 's', which 'plain' does not write");
    refuse("silu(x); copy(y, s)", "both(x, s, y)", "root 2 stores into 's', which 'both' does not write");
    refuse("silu(x); gelu(x)", "both(x, x, x)", "pattern refused: root 2 is not a store");
    refuse("copy(x, s)", "both(x, x, s)", "pattern refused: the first root must not be a store");
    refuse("mul:r(silu(x), x)", "plain(x, r)", "a root cannot be a source of what replaces it");
    OK(rp_pattern_register(
        &(RpGraphPattern){.name = "fine", .match = "silu (x) ; copy ( y , s )", .make = " both (x, y, s) "}));
}

Test(pattern, bad_names_and_flags_are_refused) {
    RpOpDescription      d = shift_op;
    TensorOp             op;
    const RpGraphPattern named = {.name = "a\"b", .match = "silu(x)", .make = "gelu(x)"},
                         empty = {.name = "", .match = "silu(x)", .make = "gelu(x)"};
    REFUSED(rp_pattern_register(&named), RP_E_ARG, "letters, digits and _");
    REFUSED(rp_pattern_register(&empty), RP_E_ARG, "letters, digits and _");
    d.name = "writer", d.flags = RP_WRITES(0);
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "op 'writer': RP_WRITES is for ops that patterns make (RP_FLAG_FUSED)");
    d.flags = RP_FLAG_FUSED | RP_WRITES(2);
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "op 'writer': it writes to a source that it does not have");
    d.flags = RP_FLAG_INPLACE, d.n_required = 0;
    REFUSED(rp_op_register(&d, &op), RP_E_ARG, "op 'writer': must have a source to work in place");
}

Test(pattern, more_ops_or_patterns_than_fit_are_refused) {
    char     names[RP_MAX_CUSTOM_OPS + 1][8];
    TensorOp op;
    for (int i = 0; i <= RP_MAX_CUSTOM_OPS; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        RpOpDescription      d = shift_op;
        const RpGraphPattern p = {.name = names[i], .match = "silu(silu(x))", .make = "silu(x)"};
        d.name                 = names[i];
        if (i < RP_MAX_CUSTOM_OPS) {
            OK(rp_op_register(&d, &op));
            OK(rp_pattern_register(&p));
        } else {
            REFUSED(rp_op_register(&d, &op), RP_E_NOMEM, "op 'n64': at most 64 custom ops can be registered");
            REFUSED(rp_pattern_register(&p), RP_E_NOMEM, "pattern 'n64': at most 64 can be registered");
        }
    }
}

/* ---- fusions of the library: graphs that do not match ---- */

static TensorNode *weight(ComputeGraph *g, const char *name, RpDtype type, int64_t n, int64_t m) {
    static char        memory[1 << 16];
    const RpTensorView v = rp_view_contiguous(type, NE(n, m, 1, 1), memory);
    return rp_graph_weight(g, name, &v);
}

static int steps_after(ComputeGraph *g, TensorNode *const out[], int n, const char *passes) {
    OK(rp_graph_finish(g, out, n));
    OK(rp_graph_optimize(g, passes));
    return rp_graph_n_steps(g);
}

Test(pattern, several_tokens_are_not_fused) {
    for (int t = 1; t <= 2; t++) {
        ComputeGraph *g = rp_graph_new();
        TensorNode   *x = rp_graph_input(g, "x", RP_F32, NE(32, t, 1, 1)), *n = rp_rms_norm(g, x, NULL, 0.0f);
        TensorNode   *y = rp_add(g, rp_mul_mat(g, weight(g, "w", RP_Q8_0, 32, 32), n), x);
        cr_expect_eq(steps_after(g, &y, 1, ""), t == 1 ? 1 : 4, CASE(t));
        rp_graph_free(g);
    }
}

/* The fused order is post_norm(scale * sum): a scale behind the norm stays. */
Test(pattern, a_scale_behind_the_norm_of_experts_is_not_fused) {
    static char        memory[8 * 4 * 3 * 4];
    const RpTensorView v = rp_view_contiguous(RP_F32, NE(8, 4, 3, 1), memory);
    for (int normed = 0; normed < 2; normed++) {
        ComputeGraph *g   = rp_graph_new();
        TensorNode   *ids = rp_graph_input(g, "ids", RP_I32, NE(2, 1, 1, 1)), *w = rp_graph_weight(g, "w", &v);
        TensorNode   *y = rp_combine(g, rp_mul_mat_id(g, w, rp_graph_input(g, "x", RP_F32, NE(8, 2, 1, 1)), ids),
                                     rp_graph_input(g, "weights", RP_F32, NE(2, 1, 1, 1)));
        if (normed) y = rp_rms_norm(g, y, NULL, 1e-5f);
        y = rp_scale(g, y, 0.5f, 0.0f);
        cr_expect_eq(steps_after(g, &y, 1, ""), normed ? 2 : 1, CASE(normed));
        rp_graph_free(g);
    }
}

/* Whichever of queries and keys is rotated first. */
Test(pattern, queries_keys_and_values_are_one_kernel_in_any_order) {
    for (int keys_first = 0; keys_first < 2; keys_first++) {
        ComputeGraph      *g    = rp_graph_new();
        const RpRopeParams rope = {.n_dims = 8, .freq_base = 1e4f, .freq_scale = 1.0f, .attn_factor = 1.0f};
        TensorNode        *x = vector(g, "x"), *pos = rp_graph_input(g, "pos", RP_I32, NE(1, 1, 1, 1)), *rotated[2];
        for (int i = 0; i < 2; i++) {
            const int   which = keys_first ? 1 - i : i;
            TensorNode *y     = rp_mul_mat(g, weight(g, which == 0 ? "wq" : "wk", RP_F32, 8, 8), x);
            rotated[which]    = rp_rope(g, rp_reshape(g, y, 8, 1, 1, 1), pos, NULL, &rope);
        }
        TensorNode *values = rp_reshape(g, rp_mul_mat(g, weight(g, "wv", RP_F32, 8, 8), x), 8, 1, 1, 1);
        for (int v = 0; v < 2; v++)
            rp_store(g, rp_permute(g, v ? values : rotated[1], 0, 2, 1, 3),
                     rp_graph_state(g, v ? "v" : "k", RP_F16, NE(8, 16, 1, 1)), pos);
        cr_expect_eq(steps_after(g, &rotated[0], 1, ""), 1, CASE(keys_first));
        rp_graph_free(g);
    }
}

/* One product with the activation, whose result is the factor of the other. */
Test(pattern, gate_and_up_of_different_types_are_two_products) {
    for (int same = 0; same < 2; same++) {
        ComputeGraph *g = rp_graph_new();
        TensorNode   *x = vector(g, "x");
        TensorNode   *y = rp_mul(g, rp_silu(g, rp_mul_mat(g, weight(g, "g", RP_F32, 8, 4), x)),
                                 rp_mul_mat(g, weight(g, "u", same ? RP_F32 : RP_F16, 8, 4), x));
        cr_expect_eq(steps_after(g, &y, 1, ""), same ? 1 : 2, CASE(same));
        rp_graph_free(g);
    }
}

/* A norm with a second reader is computed for it, and again in the fused product. */
Test(pattern, a_norm_with_other_readers_stays) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = vector(g, "x"), *n = rp_rms_norm(g, x, NULL, 0.0f);
    TensorNode   *y[] = {rp_mul_mat(g, weight(g, "w", RP_F32, 8, 4), n), rp_silu(g, n)};
    cr_expect_eq(steps_after(g, y, 2, ""), 3);
    cr_expect_str_eq(rp_node_op_name(y[0]), "linear");
    cr_expect_eq(rp_node_source(y[1], 0), n);
    rp_graph_free(g);
}

/* Two products of one source become views of one result, which has the name of the first. */
Test(pattern, outputs_are_found_by_name_when_they_are_fused) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *n = rp_rms_norm(g, vector(g, "x"), NULL, 0.0f);
    TensorNode *y[] = {rp_mul_mat(g, weight(g, "u", RP_F32, 8, 4), n), rp_mul_mat(g, weight(g, "v", RP_F32, 8, 2), n)};
    rp_node_set_name(y[0], "first");
    rp_node_set_name(y[1], "second");
    cr_expect_eq(steps_after(g, y, 2, ""), 1);
    for (int i = 0; i < 2; i++) {
        const TensorNode *found = rp_graph_find(g, i == 0 ? "first" : "second");
        cr_expect(rp_node_is_output(found) && rp_node_view(found).ne[0] == 4 - 2 * i, "%s: %d", rp_node_name(found),
                  (int)rp_node_view(found).ne[0]);
    }
    rp_graph_free(g);
}

/* top_k and route become views of the router's result. A reshape of route must then read that result. */
Test(pattern, views_of_replaced_nodes_are_redirected) {
    float got[2][2];
    for (int on = 0; on < 2; on++) {
        ComputeGraph       *g   = rp_graph_new();
        const RpTopKParams  top = {.k = 2};
        const RpRouteParams how = {.normalize = true, .scale = 1.0f};
        TensorNode         *x = vector(g, "x"), *w = rp_graph_input(g, "w", RP_F32, NE(8, 4, 1, 1));
        TensorNode         *p   = rp_soft_max(g, rp_mul_mat(g, w, x), NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f});
        TensorNode         *ids = rp_top_k(g, p, NULL, &top), *expert_weights = rp_route(g, p, ids, &how);
        TensorNode         *y = rp_scale(g, rp_reshape(g, expert_weights, 1, 2, 1, 1), 2.0f, 0.0f);
        ExecPlan           *plan;
        RpExecutor         *e;
        OK(rp_graph_finish(g, &y, 1));
        OK(rp_graph_optimize(g, on ? "" : "-all"));
        OK(rp_plan_new(g, &plan));
        OK(rp_executor_open(plan, &(RpExecutorOptions){.device = "cpu", .n_threads = 1}, &e));
        for (int i = 0; i < 32; i++) ((float *)rp_executor_data(e, w))[i] = (float)(i * 7 % 11) * 0.1f;
        for (int i = 0; i < 8; i++) ((float *)rp_executor_data(e, x))[i] = (float)i * 0.1f - 0.2f;
        OK(rp_executor_run(e));
        memcpy(got[on], rp_executor_data(e, y), sizeof got[on]);
        rp_executor_free(e);
        rp_plan_free(plan);
        rp_graph_free(g);
    }
    cr_expect_arr_eq(got[0], got[1], sizeof got[0]);
    cr_expect_float_eq(got[0][0] + got[0][1], 2.0f, 1e-5f);
}
