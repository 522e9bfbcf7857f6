/* rp_graph_backward: its refusals, which nodes and how much memory it adds, and the table of rules in
 * docs/training.md. */
#include "tests/ops/training/gradient_case.h"

#include "base/op_table.h"
#include "ops/backward.h"
#include "ops/rules.h"

/* ---- refusals ---- */

/* The gradient of an op that computes one: second derivatives have no rules. */
static TensorNode *slope_of_silu(Case *c) {
    TensorNode *x = param(c, 4, 2, 1);
    return rp_node_set_name(op(c, RP_OP_SILU_BACKWARD, (RpOpParams){0}, x, param(c, 4, 2, 1)), "act");
}

Test(backward_graph, names_an_op_without_a_rule) {
    Case        c    = {.g = rp_graph_new()};
    TensorNode *loss = rp_silu(c.g, slope_of_silu(&c));
    REFUSED(rp_graph_backward(c.g, loss, c.params, 2, c.grads), RP_E_UNSUPPORTED,
            "silu_backward 'act' f32 [4,2] (node 2): this op has no gradient rule");
    REFUSED(rp_graph_finish(c.g, &loss, 1), RP_E_UNSUPPORTED, "silu_backward 'act'");
    rp_graph_free(c.g);
}

Test(backward_graph, names_a_parameter_that_the_loss_does_not_read) {
    Case        c    = {.g = rp_graph_new()};
    TensorNode *loss = rp_silu(c.g, param(&c, 4, 2, 1));
    param(&c, 3, 1, 1);
    REFUSED(rp_graph_backward(c.g, loss, c.params, 2, c.grads), RP_E_ARG,
            "'p1' f32 [3] (node 2): the loss does not depend on this parameter");
    rp_graph_free(c.g);
}

Test(backward_graph, refuses_bad_arguments) {
    Case        c = {.g = rp_graph_new()};
    TensorNode *x = param(&c, 4, 2, 1), *loss = rp_silu(c.g, x);
    TensorNode *none = NULL, *i = ids(&c, 2, 1);
    REFUSED(rp_graph_backward(c.g, loss, c.params, 0, c.grads), RP_E_ARG,
            "rp_graph_backward: 0 parameters, must be from 1 to 3, the nodes");
    REFUSED(rp_graph_backward(c.g, x, c.params, 1, c.grads), RP_E_DTYPE,
            "rp_graph_backward: the loss must be a computed node of type f32");
    REFUSED(rp_graph_backward(c.g, loss, &none, 1, c.grads), RP_E_ARG,
            "rp_graph_backward: parameter 0 is not a node of this graph");
    REFUSED(rp_graph_backward(c.g, loss, &i, 1, c.grads), RP_E_DTYPE,
            "rp_graph_backward: parameter 0, 'ids', is i32, must be f32, f16 or bf16");
    ComputeGraph *other = rp_graph_new();
    REFUSED(rp_graph_backward(other, loss, c.params, 0, c.grads), RP_E_ARG,
            "rp_graph_backward: 0 parameters, must be from 1 to 0, the nodes");
    TensorNode *there = rp_graph_input(other, "there", RP_F32, (int64_t[]){4, 1, 1, 1});
    REFUSED(rp_graph_backward(other, loss, &there, 1, c.grads), RP_E_ARG,
            "rp_graph_backward: the loss is not a node of this graph");
    rp_graph_free(other);
    OK(rp_graph_finish(c.g, &loss, 1));
    REFUSED(rp_graph_backward(c.g, loss, c.params, 1, c.grads), RP_E_STATE, "rp_graph_backward: the graph is finished");
    rp_graph_free(c.g);
}

static TensorNode *input(Case *c, const char *name, RpDtype dtype, int64_t n0, int64_t n1, int64_t n2) {
    return rp_graph_input(c->g, name, dtype, (int64_t[]){n0, n1, n2, 1});
}

static TensorNode *attention(Case *c, RpDtype dtype, TensorNode *pos, TensorNode *mask) {
    const RpOpParams p = {.attention = {.scale = 1.0f}};
    TensorNode      *k = input(c, "k", dtype, 32, 4, 1), *v = input(c, "v", dtype, 32, 4, 1);
    return rp_graph_op(c->g, RP_OP_ATTENTION, &p, (TensorNode *const[]){param(c, 32, 2, 2), k, v, pos, NULL, mask}, 6);
}

static TensorNode *of_f16_keys(Case *c) { return attention(c, RP_F16, ids(c, 2, 1), NULL); }

static TensorNode *of_positions(Case *c) { return attention(c, RP_F32, ids(c, 2, 1), NULL); }

static TensorNode *of_a_mask(Case *c) { return attention(c, RP_F32, NULL, input(c, "mask", RP_F32, 4, 2, 1)); }

static TensorNode *of_a_store(Case *c) {
    return rp_store(c->g, param(c, 4, 2, 1), rp_graph_state(c->g, "state", RP_F32, (int64_t[]){4, 2, 1, 1}), NULL);
}

static TensorNode *of_a_bound_product(Case *c) {
    TensorNode *x = input(c, "x", RP_F32, 4, 2, 1);
    return rp_mul_mat_bound(c->g, param(c, 4, 3, 1), x, ids(c, 2, 1), RP_BOUND_ROWS);
}

static TensorNode *of_frequencies(Case *c) {
    const RpRopeParams p = {.n_dims = 4, .freq_base = 1e4f, .freq_scale = 1.0f, .attn_factor = 1.0f};
    return rp_rope(c->g, input(c, "x", RP_F32, 4, 2, 2), ids(c, 2, 1), param(c, 2, 1, 1), &p);
}

static TensorNode *of_a_softmax_of_positions(Case *c) {
    return rp_soft_max(c->g, param(c, 4, 2, 1), NULL, ids(c, 2, 1), &(RpSoftMaxParams){.scale = 1.0f});
}

static TensorNode *of_the_mask(Case *c) {
    TensorNode *x = param(c, 4, 2, 1);
    return rp_soft_max(c->g, x, param(c, 4, 2, 1), NULL, &(RpSoftMaxParams){.scale = 1.0f});
}

static TensorNode *of_the_load(Case *c) {
    return op(c, RP_OP_AUX_LOSS, (RpOpParams){0}, input(c, "probs", RP_F32, 4, 2, 1), param(c, 4, 1, 1));
}

static TensorNode *of_a_view_with_gaps(Case *c) {
    TensorNode *x = rp_transpose(c->g, param(c, 4, 2, 1));
    return rp_silu(c->g, rp_cast(c->g,
                                 rp_view(c->g, x,
                                         &(RpViewParams){
                                             .ne = {2, 2, 1, 1},
                                               .nb = {0, 4, 8, 8}
    }),
                                 RP_F32));
}

static TensorNode *of_rows_that_overlap(Case *c) {
    return rp_silu(c->g, rp_view(c->g, param(c, 8, 1, 1),
                                 &(RpViewParams){
                                     .ne = {4, 2, 1,  1 },
                                       .nb = {0, 8, 16, 16}
    }));
}

Test(backward_graph, names_what_has_no_gradient) {
    static const struct {
        TensorNode *(*loss)(Case *);
        const char *text;
    } cases[] = {
        {of_f16_keys,               "the gradient of attention needs keys and values of f32"              },
        {of_positions,              "attention with positions has no gradient; use causal"                },
        {of_a_mask,                 "attention with a mask has no gradient"                               },
        {of_a_store,                "a store has no gradient"                                             },
        {of_a_bound_product,        "a product that positions limit has no gradient"                      },
        {of_frequencies,            "frequency factors have no gradient"                                  },
        {of_a_softmax_of_positions, "a softmax with positions has no gradient; use a mask"                },
        {of_the_mask,               "the mask has no gradient"                                            },
        {of_the_load,               "the load has no gradient"                                            },
        {of_a_view_with_gaps,       "a view of a source with gaps has no gradient; copy the source before"},
        {of_rows_that_overlap,      "a view whose rows overlap or are reordered has no gradient"          },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Case        c    = {.g = rp_graph_new()};
        TensorNode *loss = cases[i].loss(&c);
        REFUSED(rp_graph_backward(c.g, loss, c.params, c.n_params, c.grads), RP_E_UNSUPPORTED, cases[i].text);
        rp_graph_free(c.g);
    }
}

/* Only the product that the parameter takes part in gets a gradient. */
Test(backward_graph, adds_no_nodes_for_the_rest) {
    int nodes[2];
    for (int more = 0; more < 2; more++) {
        Case        c = {.g = rp_graph_new()};
        TensorNode *x = rp_graph_input(c.g, "x", RP_F32, (int64_t[]){4, 2, 1, 1}), *w = param(&c, 4, 3, 1);
        if (more == 1) x = rp_silu(c.g, rp_silu(c.g, x));
        TensorNode *outputs[2] = {rp_mul_mat(c.g, w, x)};
        OK(rp_graph_backward(c.g, outputs[0], c.params, 1, &outputs[1]));
        OK(rp_graph_finish(c.g, outputs, 2));
        nodes[more] = rp_graph_n_nodes(c.g);
        rp_graph_free(c.g);
    }
    cr_expect_eq(nodes[1], nodes[0] + 2, "%d nodes, and %d", nodes[0], nodes[1]);
}

/* The gradient of expert weights takes their own memory, and no product for each column. */
Test(backward_graph, takes_no_memory_for_products_of_columns) {
    enum { N = 64, M = 64, K = 4, T = 64, E = 2 };
    Case        c = {.g = rp_graph_new()};
    TensorNode *w = param(&c, N, M, E), *x = param(&c, N, 1, T);
    c.loss = rp_mul_mat_id(c.g, w, x, ids(&c, K, T));
    OK(rp_graph_backward(c.g, c.loss, c.params, 1, c.grads));
    OK(rp_graph_finish(c.g, c.grads, 1));
    ExecPlan *plan;
    OK(rp_plan_new(c.g, &plan));
    const size_t bytes = rp_plan_memory(plan).arena, product = sizeof(float) * N * M * K * T;
    cr_expect_lt(bytes, product / 4, "%zu bytes, the products of all columns have %zu", bytes, product);
    rp_plan_free(plan);
    rp_graph_free(c.g);
}

/* ---- activations that are computed again ---- */

/* Two layers of two products each, and a node without a layer; with `store` layer 0 also stores into a state. */
static void build_layers(Case *c, bool again, bool store) {
    enum { N = 16, T = 64 };
    TensorNode *x = rp_graph_input(c->g, "x", RP_F32, (int64_t[]){N, T, 1, 1});
    for (int i = 0; i < 2; i++) {
        char name[8];
        rp_graph_set_layer(c->g, i);
        snprintf(name, sizeof name, "act%d", i);
        TensorNode *a = rp_node_set_name(rp_silu(c->g, rp_mul_mat(c->g, param(c, N, 4 * N, 1), x)), name);
        if (store && i == 0)
            (void)rp_store(c->g, a, rp_graph_state(c->g, "s", RP_F32, (int64_t[]){4 * N, T, 1, 1}), NULL);
        x = rp_add(c->g, x, rp_mul_mat(c->g, param(c, 4 * N, N, 1), a));
    }
    rp_graph_set_layer(c->g, -1);
    c->loss = rp_node_set_name(rp_silu(c->g, x), "last");
    rp_graph_set_recompute(c->g, again);
    OK(rp_graph_backward(c->g, c->loss, c->params, 4, c->grads));
    OK(rp_graph_finish(c->g, c->grads, 4));
}

/* The bytes of the plan. */
static size_t layers_of(bool again, bool store, bool first, bool second) {
    Case      c = {.g = rp_graph_new()};
    ExecPlan *plan;
    build_layers(&c, again, store);
    cr_expect_eq(rp_graph_find(c.g, "act0_again") != NULL, first);
    cr_expect_eq(rp_graph_find(c.g, "act1_again") != NULL, second);
    cr_expect_null(rp_graph_find(c.g, "last_again"));
    OK(rp_plan_new(c.g, &plan));
    const size_t bytes = rp_plan_memory(plan).arena;
    rp_plan_free(plan);
    rp_graph_free(c.g);
    return bytes;
}

Test(backward_graph, computes_the_activations_of_layers_again) {
    const size_t kept = layers_of(false, false, false, false), again = layers_of(true, false, true, true);
    cr_expect_lt(again, kept, "%zu bytes, and %zu", again, kept);
}

Test(backward_graph, keeps_the_activations_of_a_layer_that_stores) { layers_of(true, true, false, true); }

/* ---- the table of docs/training.md ---- */

/* The first column of each row of its tables, one after the other. */
static void first_columns(char *text, size_t size) {
    FILE *f = fopen(RP_SOURCE_DIR "/docs/training.md", "r");
    char  line[512];
    cr_assert_not_null(f, "docs/training.md is missing");
    text[0] = '\0';
    while (fgets(line, sizeof line, f) != NULL) {
        char *end = strchr(line + 1, '|');
        if (line[0] != '|' || end == NULL) continue;
        *end = '\0';
        cr_assert_lt(strlen(text) + strlen(line), size, "%s", line);
        strcat(text, line);
    }
    fclose(f);
}

Test(backward_graph, documents_every_rule) {
    char text[2048];
    first_columns(text, sizeof text);
    for (int row = 0; row < RP_N_ROWS; row++) {
        char          name[64];
        const OpInfo *info = rp_op_info(rp_row_op(row));
        snprintf(name, sizeof name, "`%s`", info->name);
        if (rp_op_rules(rp_row_op(row))->gradient != rp_gradient_none)
            cr_expect_not_null(strstr(text, name), "docs/training.md does not list %s", info->name);
        else
            cr_expect_null(strstr(text, name), "docs/training.md lists %s, which has no rule", info->name);
    }
}
