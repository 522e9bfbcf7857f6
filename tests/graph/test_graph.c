/* The graph builder, its checks, the verifier, the switches of passes and the dumps. Every refusal is tested
 * with its text (I11, I12); shapes and orders are compared with what the API documents. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "base/kernels.h"
#include "graph/graph.h"
#include "ops/backward.h"
#include "ops/rules.h"

#define NE(...) ((int64_t[RP_MAX_DIMS]){__VA_ARGS__})

static TensorNode *input(ComputeGraph *g, const char *name, int64_t n0, int64_t n1, int64_t n2) {
    return rp_graph_input(g, name, RP_F32, NE(n0, n1, n2, 1));
}

static float weight_data[1 << 16];

static TensorNode *weight(ComputeGraph *g, const char *name, RpDtype dtype, int64_t n0, int64_t n1) {
    const RpTensorView v = rp_view_contiguous(dtype, NE(n0, n1, 1, 1), weight_data);
    return rp_graph_weight(g, name, &v);
}

/* Finishing the graph that `build` makes must fail. */
static void refuse(TensorNode *(*build)(ComputeGraph *), RpStatus status, const char *text) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = build(g);
    REFUSED(rp_graph_finish(g, &y, 1), status, text);
    rp_graph_free(g);
}

static TensorNode *store_into_itself(ComputeGraph *g) {
    TensorNode *s = rp_graph_state(g, "s", RP_F32, NE(8, 4, 1, 1));
    return rp_silu(g, rp_store(g, s, s, NULL));
}

/* One test: the expression builds a node in graph g, and the graph must be refused. */
#define REFUSAL(name, status, text, expression)                                                                        \
    static TensorNode *build_##name(ComputeGraph *g) { return (expression); }                                          \
    Test(graph, refuses_##name) { refuse(build_##name, status, text); }

REFUSAL(mul_mat_of_rows_that_differ, RP_E_SHAPE,
        "mul_mat (node 2): sources w='w' f32 [8,4], x='x' f32 [6,2]: rows of the weights and x must have one length",
        rp_mul_mat(g, weight(g, "w", RP_F32, 8, 4), input(g, "x", 6, 2, 1)))
REFUSAL(mul_mat_of_heads_that_do_not_repeat, RP_E_SHAPE,
        "dimensions 2 and 3 of the first must divide those of the second",
        rp_mul_mat(g, input(g, "w", 8, 4, 2), input(g, "x", 8, 2, 3)))
REFUSAL(mul_mat_bound_without_positions, RP_E_ARG, "a bound and positions must be given together",
        rp_mul_mat_bound(g, weight(g, "w", RP_F32, 8, 4), input(g, "x", 8, 2, 1), NULL, RP_BOUND_ROWS))
REFUSAL(rms_norm_of_another_length, RP_E_SHAPE,
        "rms_norm (node 2): sources x='x' f32 [8,2], w='w' f32 [4], parameters {\"eps\":9.99999975e-06}: the weight",
        rp_rms_norm(g, input(g, "x", 8, 2, 1), weight(g, "w", RP_F32, 4, 1), 1e-5f))
REFUSAL(rms_norm_with_a_negative_eps, RP_E_ARG, "eps", rp_rms_norm(g, input(g, "x", 8, 2, 1), NULL, -1.0f))
REFUSAL(add_that_does_not_repeat, RP_E_SHAPE, "dimensions of the second source must divide those of the first",
        rp_add(g, input(g, "a", 8, 4, 1), input(g, "b", 8, 3, 1)))
REFUSAL(mul_of_another_type, RP_E_DTYPE, "f32", rp_mul(g, input(g, "a", 8, 4, 1), weight(g, "b", RP_F16, 8, 1)))
REFUSAL(get_rows_by_floats, RP_E_SHAPE, "i32 vector",
        rp_get_rows(g, weight(g, "w", RP_F32, 8, 4), input(g, "ids", 2, 1, 1)))
REFUSAL(soft_max_with_a_mask_of_another_shape, RP_E_SHAPE, "mask",
        rp_soft_max(g, input(g, "x", 8, 4, 1), input(g, "mask", 8, 3, 1), NULL, &(RpSoftMaxParams){.scale = 1.0f}))
REFUSAL(soft_max_window_without_positions, RP_E_ARG, "window",
        rp_soft_max(g, input(g, "x", 8, 4, 1), NULL, NULL, &(RpSoftMaxParams){.scale = 1.0f, .window = 4}))
REFUSAL(rope_of_odd_dimensions, RP_E_SHAPE, "even",
        rp_rope(g, input(g, "x", 8, 2, 3), rp_graph_input(g, "pos", RP_I32, NE(3, 1, 1, 1)), NULL,
                &(RpRopeParams){.n_dims = 7, .freq_base = 1e4f}))
REFUSAL(rope_with_positions_of_another_length, RP_E_SHAPE, "one per token",
        rp_rope(g, input(g, "x", 8, 2, 3), rp_graph_input(g, "pos", RP_I32, NE(2, 1, 1, 1)), NULL,
                &(RpRopeParams){.n_dims = 8, .freq_base = 1e4f}))
REFUSAL(silu_of_integers, RP_E_DTYPE, "f32", rp_silu(g, rp_graph_input(g, "x", RP_I32, NE(8, 1, 1, 1))))
REFUSAL(cast_to_a_block_format, RP_E_DTYPE, "source and destination must be of float types, or f32 and q8_0",
        rp_cast(g, input(g, "x", 32, 1, 1), RP_Q4_0))
REFUSAL(store_of_rows_of_another_length, RP_E_SHAPE, "source and destination",
        rp_store(g, input(g, "x", 8, 1, 1), rp_graph_state(g, "s", RP_F16, NE(4, 16, 1, 1)), NULL))
REFUSAL(store_of_too_many_rows, RP_E_SHAPE, "the destination must have at least as many rows as the source",
        rp_store(g, input(g, "x", 8, 20, 1), rp_graph_state(g, "s", RP_F16, NE(8, 16, 1, 1)), NULL))
REFUSAL(view_that_leaves_its_source, RP_E_SHAPE, "the view must lie within its source",
        rp_view(g, input(g, "x", 8, 2, 1),
                &(RpViewParams){
                    .ne = {8, 3,  1,  1 },
                    .nb = {0, 32, 96, 96},
}))
REFUSAL(view_with_a_huge_offset, RP_E_SHAPE, "the view must lie within its source",
        rp_view(g, input(g, "x", 8, 2, 1),
                &(RpViewParams){
                    .ne = {8, 1,  1,  1 },
                      .nb = {0, 32, 32, 32},
                      .offset = SIZE_MAX - 3
}))
REFUSAL(view_from_the_middle_of_a_block, RP_E_SHAPE, "whole blocks",
        rp_view(g, weight(g, "w", RP_Q8_0, 64, 4),
                &(RpViewParams){
                    .ne = {32, 1,  1,  1 },
                      .nb = {0,  68, 68, 68},
                      .offset = 17
}))
REFUSAL(view_of_rows_that_begin_in_a_block, RP_E_SHAPE, "whole blocks",
        rp_view(g, weight(g, "w", RP_Q8_0, 64, 4),
                &(RpViewParams){
                    .ne = {32, 2,  1,  1 },
                    .nb = {0,  35, 70, 70},
}))
REFUSAL(view_of_unaligned_elements, RP_E_SHAPE, "whole elements",
        rp_view(g, input(g, "x", 8, 2, 1),
                &(RpViewParams){
                    .ne = {4, 2,  1,  1 },
                    .nb = {0, 18, 36, 36},
}))
REFUSAL(view_of_half_a_row_of_activations, RP_E_SHAPE, "rows of q8_act must keep their length",
        rp_view(g, rp_graph_input(g, "x", RP_Q8_ACT, NE(64, 2, 1, 1)),
                &(RpViewParams){
                    .ne = {32, 2,  1,   1  },
                    .nb = {0,  88, 176, 176},
}))
REFUSAL(view_of_activations_between_rows, RP_E_SHAPE, "rows of q8_act must keep their length",
        rp_view(g, rp_graph_input(g, "x", RP_Q8_ACT, NE(64, 2, 1, 1)),
                &(RpViewParams){
                    .ne = {64, 1,  1,  1 },
                      .nb = {0,  88, 88, 88},
                      .offset = 44
}))
REFUSAL(reshape_to_another_size, RP_E_SHAPE, "the result must have as many elements as the source",
        rp_reshape(g, input(g, "x", 8, 2, 1), 5, 3, 1, 1))
REFUSAL(reshape_of_a_permuted_source, RP_E_SHAPE, "contiguous",
        rp_reshape(g, rp_permute(g, input(g, "x", 8, 2, 3), 0, 2, 1, 3), 48, 1, 1, 1))
REFUSAL(permute_with_an_axis_twice, RP_E_SHAPE, "permutation", rp_permute(g, input(g, "x", 8, 2, 3), 0, 0, 1, 3))
REFUSAL(transpose_of_blocks, RP_E_SHAPE, "blocks", rp_transpose(g, weight(g, "w", RP_Q8_0, 32, 4)))
REFUSAL(missing_source, RP_E_ARG, "a source is missing", rp_silu(g, NULL))
REFUSAL(fused_op_in_a_user_graph, RP_E_STATE, "only passes make this op",
        rp_graph_op(g, RP_OP_QUANTIZE, NULL, (TensorNode *const[]){input(g, "x", 32, 1, 1)}, 1))
REFUSAL(unknown_op, RP_E_ARG, "no such op",
        rp_graph_op(g, (TensorOp)999, NULL, (TensorNode *const[]){input(g, "x", 32, 1, 1)}, 1))
REFUSAL(leaf_of_a_broken_shape, RP_E_SHAPE,
        "input 'x': f32 [8,0], must have positive dimensions and rows of whole blocks",
        rp_silu(g, input(g, "x", 8, 0, 1)))
REFUSAL(leaf_of_half_a_block, RP_E_SHAPE,
        "weight 'w': q4_0 [40,2], must have positive dimensions and rows of whole blocks",
        rp_mul_mat(g, weight(g, "w", RP_Q4_0, 40, 2), input(g, "x", 40, 1, 1)))
REFUSAL(leaf_of_an_unknown_type, RP_E_DTYPE, "dtype 77, must be a known one",
        rp_silu(g, rp_graph_input(g, "x", (RpDtype)77, NE(8, 1, 1, 1))))
REFUSAL(two_leaves_of_one_name, RP_E_ARG, "two leaves are named 'x'",
        rp_add(g, input(g, "x", 8, 1, 1), input(g, "x", 8, 1, 1)))
REFUSAL(source_without_a_name, RP_E_SHAPE, "reshape (node 2): sources x=silu (node 1) f32 [8]",
        rp_reshape(g, rp_silu(g, input(g, "x", 8, 1, 1)), 7, 1, 1, 1))
REFUSAL(leaf_as_output, RP_E_ARG, "output 0, 'x', is not computed: it is a leaf or a view of one",
        input(g, "x", 8, 1, 1))
REFUSAL(output_that_is_no_node, RP_E_ARG, "output 0 is not a node of this graph", (input(g, "x", 8, 1, 1), NULL))
REFUSAL(weight_without_data, RP_E_ARG, "a weight has no data",
        rp_graph_weight(g, "w",
                        &(RpTensorView){
                            .dtype = RP_F32, .ne = {8, 1,  1,  1 },
                                 .nb = {4, 32, 32, 32}
}))
REFUSAL(rows_without_ids, RP_E_ARG, "rp_get_rows: ids is NULL", rp_get_rows(g, weight(g, "w", RP_F32, 8, 4), NULL))
REFUSAL(store_without_a_destination, RP_E_ARG, "copy: a store needs a destination",
        rp_store(g, input(g, "x", 8, 1, 1), NULL, NULL))
REFUSAL(more_sources_than_the_op_has, RP_E_ARG, "x='x' f32 [8], absent: wrong number of sources",
        rp_graph_op(g, RP_OP_SILU, NULL, (TensorNode *const[]){input(g, "x", 8, 1, 1), NULL}, 2))
REFUSAL(a_negative_number_of_sources, RP_E_ARG, "rp_graph_op: wrong number of sources",
        rp_graph_op(g, RP_OP_SILU, NULL, (TensorNode *const[]){input(g, "x", 8, 1, 1)}, -1))
REFUSAL(sources_that_are_null, RP_E_ARG, "rp_graph_op: src is NULL", rp_graph_op(g, RP_OP_SILU, NULL, NULL, 1))
REFUSAL(store_into_itself, RP_E_ARG, "it stores a tensor into itself", store_into_itself(g))

Test(graph, refuses_to_finish_without_an_output) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = rp_silu(g, input(g, "x", 8, 1, 1));
    REFUSED(rp_graph_finish(g, &y, 0), RP_E_ARG, "a graph of no outputs, must have one");
    rp_graph_free(g);
}

Test(graph, refuses_a_source_of_another_graph) {
    ComputeGraph *g = rp_graph_new(), *other = rp_graph_new();
    TensorNode   *y = rp_silu(g, input(other, "x", 8, 1, 1));
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_ARG, "x='x' f32 [8]: a source belongs to another graph");
    rp_graph_free(other);
    rp_graph_free(g);
}

Test(graph, keeps_the_first_error_and_ignores_later_calls) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "x", 8, 2, 1), *bad = rp_reshape(g, x, 7, 1, 1, 1);
    cr_expect_null(bad);
    TensorNode *y = rp_silu(g, rp_add(g, bad, rp_mul_mat(g, x, x)));
    cr_expect_null(y);
    cr_expect_null(rp_node_set_name(y, "y"));
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_SHAPE, "reshape (node 1): sources x='x' f32 [8,2]");
    rp_graph_free(g);
}

Test(graph, drops_nodes_that_no_output_needs_but_keeps_stores) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "x", 8, 2, 1), *dead = rp_node_set_name(rp_gelu(g, x, RP_GELU_ERF), "dead");
    TensorNode   *s = rp_graph_state(g, "s", RP_F16, NE(8, 16, 1, 1)), *y = rp_silu(g, x);
    rp_node_set_name(rp_store(g, x, s, NULL), "stored");
    OK(rp_graph_finish(g, &y, 1));
    cr_expect_null(rp_graph_find(g, "dead"));
    cr_expect_eq(rp_node_number(dead), -1);
    cr_expect_not_null(rp_graph_find(g, "stored"));
    cr_expect_eq(rp_graph_n_steps(g), 2);
    OK(rp_graph_verify(g));
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_STATE, "the graph is finished already");
    cr_expect_null(rp_silu(g, x));
    rp_graph_free(g);
}

Test(graph, views_share_memory_and_add_no_step) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = rp_scale(g, input(g, "x", 8, 6, 1), 2.0f, 0.0f);
    TensorNode   *v = rp_view(g, x,
                              &(RpViewParams){
                                  .ne = {8, 2,  2,  1  },
                                    .nb = {0, 32, 96, 192},
                                    .offset = 32
    });
    TensorNode   *t = rp_transpose(g, v), *y = rp_cast(g, t, RP_F16);
    OK(rp_graph_finish(g, &y, 1));
    cr_expect_eq(rp_graph_n_steps(g), 2);
    cr_expect_eq(t->base, x);
    cr_expect_eq(t->offset, 32u);
    cr_expect(t->view.ne[0] == 2 && t->view.ne[1] == 8 && t->view.nb[0] == 32 && t->view.nb[1] == 4);
    rp_graph_free(g);
}

Test(graph, verify_finds_a_node_out_of_order) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = rp_silu(g, rp_silu(g, input(g, "x", 8, 2, 1)));
    OK(rp_graph_finish(g, &y, 1));
    TensorNode *a   = g->nodes[1];
    g->nodes[1]     = g->nodes[2];
    g->nodes[2]     = a;
    g->nodes[1]->id = 1, g->nodes[2]->id = 2;
    REFUSED(rp_graph_verify(g), RP_E_STATE, "source x does not stand before it");
    rp_graph_free(g);
}

Test(graph, verify_finds_a_shape_that_was_changed) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = rp_silu(g, input(g, "x", 8, 2, 1));
    OK(rp_graph_finish(g, &y, 1));
    y->view.ne[0] = 4;
    REFUSED(rp_graph_verify(g), RP_E_SHAPE, "its shape is not the one inferred from its sources");
    rp_graph_free(g);
}

Test(graph, verify_finds_what_passes_could_break) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "x", 8, 2, 1), *v = rp_reshape(g, rp_silu(g, x), 16, 1, 1, 1), *y = rp_silu(g, v);
    OK(rp_graph_finish(g, &y, 1));
    y->src[1] = x;
    REFUSED(rp_graph_verify(g), RP_E_ARG, "it has too many sources");
    y->src[1] = NULL;
    v->base   = v;
    REFUSED(rp_graph_verify(g), RP_E_STATE, "its memory is not that of its source");
    rp_graph_update_bases(g);
    y->id = 7;
    REFUSED(rp_graph_verify(g), RP_E_STATE, "its id is not its index in the graph");
    y->id = 3;
    OK(rp_graph_verify(g));
    const RpOpParams p = {.copy = {.dtype = RP_F16}};
    REFUSED(rp_graph_mutate(rp_node_set_name(y, "y"), RP_OP_COPY, &p, &v, 1), RP_E_SHAPE,
            "copy cannot replace silu 'y': its result has another shape or dtype");
    OK(rp_graph_verify(g));
    rp_graph_free(g);
}

Test(graph, refuses_to_read_a_state_around_a_later_store) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *s = rp_graph_state(g, "s", RP_F32, NE(8, 4, 1, 1)), *x = input(g, "x", 8, 2, 1);
    (void)rp_store(g, x, s, NULL);
    TensorNode *y = rp_silu(g, s);
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_STATE, "it reads memory that a later store overwrote");
    rp_graph_free(g);
}

Test(graph, refuses_to_store_into_a_weight) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = rp_silu(g, rp_store(g, input(g, "x", 8, 1, 1), weight(g, "w", RP_F32, 8, 4), NULL));
    REFUSED(rp_graph_finish(g, &y, 1), RP_E_ARG, "a store must go into a state or a node");
    rp_graph_free(g);
}

Test(graph, optimize_switches_passes_by_name) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *y = rp_mul_mat(g, weight(g, "w", RP_Q8_0, 32, 4), input(g, "x", 32, 1, 1));
    REFUSED(rp_graph_optimize(g, ""), RP_E_STATE, "passes run on a finished graph");
    OK(rp_graph_finish(g, &y, 1));
    REFUSED(rp_graph_optimize(g, "-nonsense"), RP_E_ARG, "'nonsense' is not a pass; passes: all, attention, quantize");
    OK(rp_graph_optimize(g, "-quantize"));
    cr_expect_eq(rp_graph_n_steps(g), 1);
    OK(rp_graph_optimize(g, "-round"));
    cr_expect_eq(rp_graph_n_steps(g), 2);
    OK(rp_graph_optimize(g, "-all,+quantize")); /* all rewrites have been done */
    cr_expect_eq(rp_graph_n_steps(g), 2);
    OK(rp_graph_optimize(g, ""));
    cr_expect_eq(rp_graph_n_steps(g), 1);
    REFUSED(rp_graph_optimize(g, "quantize"), RP_E_ARG,
            "'quantize': must be -NAME, which switches a pass off, or +NAME, which switches it on again");
    rp_graph_free(g);
}

Test(graph, quantizes_once_for_all_readers) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = rp_silu(g, input(g, "x", 32, 3, 1));
    TensorNode   *a = rp_mul_mat(g, weight(g, "a", RP_Q4_0, 32, 4), x),
               *b   = rp_mul_mat(g, weight(g, "b", RP_Q8_0, 32, 4), x);
    TensorNode *c = rp_mul_mat(g, weight(g, "c", RP_F16, 32, 4), x), *y = rp_add(g, rp_add(g, a, b), c);
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_optimize(g, ""));
    cr_expect_eq(a->src[1], b->src[1]);
    cr_expect_eq(a->src[1]->view.dtype, RP_Q8_ACT);
    cr_expect_eq(c->src[1], x);
    rp_graph_free(g);
}

Test(op_table, every_row_is_complete) {
    for (int row = 0; row < RP_N_ROWS; row++) {
        const TensorOp op    = rp_row_op(row);
        const OpInfo  *info  = rp_op_info(op);
        const OpRules *rules = rp_op_rules(op);
        cr_expect_eq(rp_op_row(op), row, CASE(row));
        cr_expect_not_null(info->name, CASE(row));
        cr_expect_not_null(rules->shape, "%s has no shape rule", info->name);
        cr_expect_not_null(rules->gradient, "%s: rp_gradient_constant or rp_gradient_none is missing", info->name);
        cr_expect_eq(rules->check != NULL, (info->flags & RP_FLAG_VIEW) == 0, "%s has no check", info->name);
        const int least = op == RP_OP_FILL ? 0 : 1; /* a constant has no source */
        cr_expect(info->n_required >= least && info->n_required <= info->n_sources && info->n_sources <= RP_MAX_SRC,
                  "%s", info->name);
        cr_expect_eq(rp_cpu_kernel(op) != NULL, (info->flags & RP_FLAG_VIEW) == 0, "%s", info->name);
    }
}

/* tests/abi/op_numbers.txt has the number of every public op, which programs are compiled with. A new op is a line at
 * its end; a line that is there never changes. */
Test(op_table, public_numbers_never_change) {
    FILE *f = fopen(RP_SOURCE_DIR "/tests/abi/op_numbers.txt", "r");
    int   n = 0, number, expected = 0;
    char  name[64];
    cr_assert_not_null(f, "tests/abi/op_numbers.txt is missing");
    while (fscanf(f, "%d %63s", &number, name) == 2) {
        TensorOp op = RP_OP_CUSTOM;
        cr_expect_eq(number, expected, "line %d has number %d", n + 1, number);
        cr_expect(rp_op_find(name, strlen(name), &op) && (int)op == number, "%s has number %d, not %d", name, (int)op,
                  number);
        expected = number + 1;
        n++;
    }
    cr_expect(feof(f), "line %d of tests/abi/op_numbers.txt is no number and name", n + 1);
    fclose(f);
    cr_expect_eq(n, RP_N_PUBLIC_ROWS, "%d public ops in reprise/ops.h, %d in tests/abi/op_numbers.txt",
                 RP_N_PUBLIC_ROWS, n);
    cr_expect_eq((int)RP_OP_PRIVATE, 511);
    cr_expect_eq((int)RP_OP_CUSTOM, 1024);
}

/* Braces match, and every edge leads to a node that exists. */
static void check_dot(const char *text) {
    int depth = 0;
    for (const char *p = text; *p != '\0'; p++) depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
    cr_expect_eq(depth, 0);
    for (const char *p = strstr(text, " -> n"); p != NULL; p = strstr(p + 1, " -> n")) {
        char name[24];
        snprintf(name, sizeof name, "n%d [label", atoi(p + 5));
        cr_expect_not_null(strstr(text, name), "an edge leads to %s", name);
    }
}

static char *dump(const ComputeGraph *g, RpDumpOptions o) {
    char  *text = NULL;
    size_t size = 0;
    FILE  *f    = open_memstream(&text, &size);
    OK(rp_graph_dump(g, &o, f));
    fclose(f);
    return text;
}

Test(dump, folds_equal_layers) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = rp_silu(g, input(g, "x", 32, 1, 1));
    for (int l = 0; l < 5; l++) {
        char name[16];
        snprintf(name, sizeof name, "blk.%d.w", l);
        rp_graph_set_layer(g, l);
        x = rp_mul_mat(g, weight(g, name, RP_F32, 32, 32), x);
        if (l == 3) x = rp_gelu(g, x, RP_GELU_ERF);
    }
    rp_graph_set_layer(g, -1);
    x = rp_silu(g, x);
    OK(rp_graph_finish(g, &x, 1));
    char *folded = dump(g, (RpDumpOptions){.format = RP_DUMP_DOT, .fold = true}),
         *whole  = dump(g, (RpDumpOptions){.format = RP_DUMP_DOT});
    cr_expect_not_null(strstr(folded, "label=\"layers 0-2, 4  (x4)\""), "%s", folded);
    cr_expect_not_null(strstr(folded, "label=\"layer 3\""));
    cr_expect_null(strstr(folded, "cluster_1 "));
    cr_expect_not_null(strstr(whole, "cluster_4 "));
    check_dot(folded);
    check_dot(whole);
    char *json = dump(g, (RpDumpOptions){.format = RP_DUMP_JSON, .title = "a \"b\"\n"});
    cr_expect_not_null(strstr(json, "\"title\":\"a \\\"b\\\"\\n\""));
    char *text = dump(g, (RpDumpOptions){.format = RP_DUMP_TEXT, .one_layer = true, .layer = 3});
    cr_expect_not_null(strstr(text, "blk.3.w"));
    cr_expect_null(strstr(text, "blk.2.w"));
    REFUSED(rp_graph_dump(g, &(RpDumpOptions){.one_layer = true, .layer = 9}, stdout), RP_E_ARG,
            "layer 9 of a graph, must be one of its layers, of which the last is 4");
    REFUSED(rp_graph_dump(g, &(RpDumpOptions){.format = (RpDumpFormat)7}, stdout), RP_E_ARG,
            "dump format 7, must be from 0, RP_DUMP_TEXT, to 2, RP_DUMP_JSON");
    FILE *full = fopen("/dev/full", "w");
    cr_assert_not_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    REFUSED(rp_graph_dump(g, &(RpDumpOptions){0}, full), RP_E_IO, "the graph could not be written");
    fclose(full);
    free(folded), free(whole), free(json), free(text);
    rp_graph_free(g);
}

Test(dump, json_has_parameters_absent_sources_and_times) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "x", 8, 4, 2), *sinks = rp_graph_input(g, "sinks", RP_F32, NE(2, 1, 1, 1));
    TensorNode   *y =
        rp_soft_max_sinks(g, rp_rms_norm(g, x, NULL, 0.25f), NULL, NULL, sinks, &(RpSoftMaxParams){.scale = 0.5f});
    RpDumpNote n[5] = {[3] = {.us = 1.5}};
    y               = rp_permute(g, y, 0, 2, 1, 3);
    OK(rp_graph_finish(g, &y, 1));
    OK(rp_graph_verify(g));
    char *json = dump(g, (RpDumpOptions){.format = RP_DUMP_JSON});
    cr_expect_not_null(strstr(json, "\"sources\":[0],\"source_names\":[\"x\"],\"params\":{\"eps\":0.25}}"), "%s", json);
    cr_expect_not_null(strstr(json, "\"sources\":[2,null,null,1],\"source_names\":[\"x\",\"mask\",\"pos\",\"sinks\"],"
                                    "\"params\":{\"scale\":0.5,\"window\":0}}"),
                       "%s", json);
    cr_expect_not_null(strstr(json, "\"params\":{\"axis\":[0,2,1,3]}}"), "%s", json);
    cr_expect_not_null(strstr(json, "\"params\":{}}"), "leaves have none: %s", json);
    cr_expect_not_null(strstr(json, "\"bytes\":256,\"colour\":\"#92c5de\",\"kernel\":true"), "of a norm: %s", json);
    free(json);
    json = dump(g, (RpDumpOptions){.format = RP_DUMP_JSON, .notes = n});
    cr_expect_not_null(strstr(json, "\"window\":0},\"us\":1.500}"), "%s", json);
    free(json);
    rp_graph_free(g);
}

/* The names are those of the rows of ops.h: in text, JSON and DOT. */
Test(dump, names_sources_and_parameters) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "x", 8, 2, 1), *w = input(g, "w", 8, 1, 1),
               *pos = rp_graph_input(g, "pos", RP_I32, NE(2, 1, 1, 1));
    TensorNode *y   = rp_rms_norm(g, x, w, 0.5f);
    TensorNode *z   = rp_soft_max(g, y, NULL, pos, &(RpSoftMaxParams){.scale = 2.0f, .window = 3});
    OK(rp_graph_finish(g, &z, 1));
    char *text = dump(g, (RpDumpOptions){.format = RP_DUMP_TEXT}),
         *dot  = dump(g, (RpDumpOptions){.format = RP_DUMP_DOT}),
         *json = dump(g, (RpDumpOptions){.format = RP_DUMP_JSON});
    cr_expect_not_null(strstr(text, " x=0 w=1"), "%s", text);
    cr_expect_not_null(strstr(json, "\"sources\":[0,1],\"source_names\":[\"x\",\"w\"],\"params\":{\"eps\":0.5}"), "%s",
                       json);
    cr_expect_not_null(strstr(json, "\"source_names\":[\"x\",\"mask\",\"pos\"],\"params\":{\"scale\":2,\"window\":3}"),
                       "%s", json);
    cr_expect_not_null(strstr(dot, "n1 -> n3 [edgetooltip=\"w\"]"), "%s", dot);
    free(text), free(dot), free(json);
    rp_graph_free(g);
}

/* Names come from files. A terminal would obey them: ESC [ 2 J clears it. */
Test(dump, makes_control_characters_visible) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "a\033[2Jb\302\233c\177\303\251", 8, 2, 1), *y = rp_silu(g, x);
    OK(rp_graph_finish(g, &y, 1));
    char *text = dump(g, (RpDumpOptions){.format = RP_DUMP_TEXT, .title = "t\007"}),
         *dot  = dump(g, (RpDumpOptions){.format = RP_DUMP_DOT}),
         *json = dump(g, (RpDumpOptions){.format = RP_DUMP_JSON});
    cr_expect_not_null(strstr(text, "a\\x1b[2Jb\\x9bc\\x7f\303\251  f32"), "%s", text);
    cr_expect_not_null(strstr(text, "t\\x07\n"), "%s", text);
    cr_expect_not_null(strstr(dot, "a\\\\x1b[2Jb\\\\x9bc\\\\x7f\303\251"), "%s", dot);
    cr_expect_not_null(strstr(json, "\"a\\u001b[2Jb\\u009bc\\u007f\303\251\""), "%s", json);
    for (const char *all[] = {text, dot, json}, **t = all; t < all + 3; t++)
        cr_expect(strchr(*t, '\033') == NULL && strstr(*t, "\302\233") == NULL && strchr(*t, '\177') == NULL, "%s", *t);
    free(text), free(dot), free(json);
    rp_graph_free(g);
    g = rp_graph_new();
    (void)rp_silu(g, rp_graph_input(g, "x\033]52;c;QUFB\007", RP_I32, NE(8, 1, 1, 1)));
    REFUSED(rp_graph_finish(g, NULL, 0), RP_E_DTYPE, "x='x\\x1b]52;c;QUFB\\x07' i32 [8]");
    cr_expect_null(strchr(rp_last_error(), '\033'));
    rp_graph_free(g);
}

/* A name that is cut inside a character, as a buffer may cut it, must not make JSON that its readers refuse. */
Test(dump, json_is_valid_utf8) {
    ComputeGraph *g = rp_graph_new();
    TensorNode   *x = input(g, "a\377b\303\251c\342\202", 8, 2, 1), *y = rp_silu(g, x);
    OK(rp_graph_finish(g, &y, 1));
    char *json = dump(g, (RpDumpOptions){.format = RP_DUMP_JSON});
    cr_expect_not_null(strstr(json, "\"a\\ufffdb\303\251c\\ufffd\\ufffd\""), "%s", json);
    free(json);
    rp_graph_free(g);
}
