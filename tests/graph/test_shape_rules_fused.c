/* The shape rules of fused and recurrent ops: each condition is violated alone. */
#include "tests/support/shape_rule.h"

#define BIASES "biases must be f32, one per row of the weights"
#define CACHES "the caches must be f16 or q8_0, with rows of all keys or values of a token"
#define HEAD_NORMS                                                                                                     \
    "weights of the head norms must be f32 of one head, or of all heads if the norm is over the whole row"
#define ONE_EACH       "there must be one id and one weight for each row of x, of one token"
#define ROWS_OF_LINEAR "bias, residual and weight of the post-norm must be f32, one per row of the weights"

/* A column with a norm; then without, of floats; then one that the op quantises. */
static const RuleCase fused[] = {
    {RP_OP_LINEAR,
     {"q8_0 64 32", "f32 64", "f32 64", "f32 32", "f32 32", "f32 32"},
     {.linear = {.column = {.norm = 1, .eps = 1e-5f}, .post_norm = 1}},
     {WITH(0, "i32 64 32", RP_E_DTYPE, "weights must be of a weight type"),
      WITH(0, "q8_act 64 32", RP_E_DTYPE, "weights must be of a weight type"),
      WITH(1, "f16 64", RP_E_DTYPE, "the column must be f32 or q8_act"),
      WITH(1, "q8_act 64", RP_E_DTYPE, "a q8_act column takes neither a norm nor quantisation"),
      WITH(0, "q8_0 64 32 ~", RP_E_SHAPE, "the rows of the weights must be contiguous"),
      WITH(1, "f32 64 2", RP_E_SHAPE, "the column must be of one token"),
      WITH(1, "f32 64 ~", RP_E_SHAPE, "the column must be of one token"),
      WITH(1, "f32 32", RP_E_SHAPE, "row lengths differ"),
      WITH(2, "f32 32", RP_E_SHAPE, "the weight of the norm must be f32 of the column's length"),
      WITH_PARAMS(RP_E_SHAPE, "the weight of the norm must be f32 of the column's length", .linear = {.post_norm = 1}),
      WITH_PARAMS(RP_E_ARG, "eps must not be negative",
                  .linear = {.column = {.norm = 1, .eps = -1.0f}, .post_norm = 1}),
      WITH(0, "q8_0 64 32 2", RP_E_SHAPE, "the weights must be a matrix"),
      WITH(3, "f32 31", RP_E_SHAPE, ROWS_OF_LINEAR), WITH(4, "f16 32", RP_E_SHAPE, ROWS_OF_LINEAR),
      WITH(5, "f32 32 2", RP_E_SHAPE, ROWS_OF_LINEAR),
      WITH_PARAMS(RP_E_ARG, "a weight for the post-norm, but post_norm is 0", .linear = {.column = {.norm = 1}}),
      WITH_PARAMS(RP_E_ARG, "eps must not be negative",
                  .linear = {.column = {.norm = 1}, .post_norm = 1, .post_eps = -1.0f})}                                                                                                 },
    {RP_OP_LINEAR,
     {"f32 64 32", "f32 64"},
     NONE,                                                                       {WITH(1, "q8_act 64", RP_E_DTYPE, "a q8_act column needs quantised weights"),
      WITH_PARAMS(RP_E_DTYPE, "a q8_act column needs quantised weights", .linear = {.column = {.round = 1}})}                                                                  },
    {RP_OP_LINEAR,
     {"q8_0 48 32", "f32 48"},                                                          /* no such weights today: blocks are multiples of 32 */
     NONE,                                         {WITH_PARAMS(RP_E_SHAPE, "a column to be quantised must be whole blocks of 32",
                  .linear = {.column = {.round = 1}})}                                                                                           },
    {RP_OP_GATE_UP,
     {"q8_0 64 32 4", "q8_0 64 32 4", "f32 64", NULL, "i32 2", "f32 32 4", "f32 32 4"},
     NONE,                                                                       {WITH(1, "q4_0 64 32 4", RP_E_SHAPE, "gate and up must be of one type and shape"),
      WITH(1, "q8_0 64 32 3", RP_E_SHAPE, "gate and up must be of one type and shape"),
      WITH(1, "q8_0 64 32 4 ~", RP_E_SHAPE, "gate and up must be of one type and shape"),
      WITH_PARAMS(RP_E_DTYPE, "the result is f32 or q8_act", .gate_up = {.dtype = RP_F16}),
      WITH_PARAMS(RP_E_ARG, "unknown kind of gate", .gate_up = {.kind = (RpGateKind)4}),
      WITH_PARAMS(RP_E_ARG, "the limit must be positive", .gate_up = {.kind = RP_GATE_OAI}),
      WITH(4, NULL, RP_E_SHAPE, "the weights must be matrices, or with ids one matrix per expert"),
      WITH(4, "i32 2 2", RP_E_SHAPE, "ids must be i32 of one token"), WITH(5, "f32 32 3", RP_E_SHAPE, BIASES),
      WITH(6, "f16 32 4", RP_E_SHAPE, BIASES)}                                                                                                                                 },
    {RP_OP_GATE_UP,
     {"f32 64 48", "f32 64 48", "f32 64"},
     NONE,                                                                       {WITH_PARAMS(RP_E_SHAPE, "a q8_act result must be whole blocks of 32", .gate_up = {.dtype = RP_Q8_ACT})}},
    {RP_OP_EXPERTS_DOWN,
     {"q8_0 64 32 4", "f32 64 2", "i32 2", "f32 2", "f32 32 4", "f32 32"},
     NONE,                                                                       {WITH(0, "i32 64 32 4", RP_E_DTYPE, "weights must be of a weight type"),
      WITH(1, "f16 64 2", RP_E_DTYPE, "x must be f32, or q8_act for quantised weights"),
      WITH(0, "q8_0 64 32 4 ~", RP_E_SHAPE, "the rows must be contiguous"),
      WITH(1, "f32 64 2 |", RP_E_SHAPE, "the rows must be contiguous"),
      WITH(1, "f32 32 2", RP_E_SHAPE, "row lengths differ"),
      WITH(0, "q8_0 64 32 4 2", RP_E_SHAPE, "row lengths differ"), WITH(1, "f32 64 2 2", RP_E_SHAPE, ONE_EACH),
      WITH(2, "i32 3", RP_E_SHAPE, ONE_EACH), WITH(3, "f32 3", RP_E_SHAPE, ONE_EACH),
      WITH(4, "f32 32 3", RP_E_SHAPE, "the bias must be f32, one per row of the weights"),
      WITH(5, "f32 31", RP_E_SHAPE, "the residual must be f32, one per row of the weights")}                                                                                   },
    {RP_OP_EXPERTS_DOWN,
     {"f32 64 32 4", "f32 64 2", "i32 2", "f32 2"},
     NONE,                                                                       {WITH(1, "q8_act 64 2", RP_E_DTYPE, "x must be f32, or q8_act for quantised weights")}                  },
    {RP_OP_ROUTER,
     {"f32 64 8", "f32 64", NULL, "f32 8", "f32 8"},
     {.router = {.kind = RP_ROUTER_SOFT_MAX, .top_k = {.k = 2}, .quantize = 1}},
     {WITH(0, "f32 64 8 2", RP_E_SHAPE, "the weights must be a matrix"),
      WITH(3, "f32 7", RP_E_SHAPE, "biases must be f32, one per expert"),
      WITH(4, "f16 8", RP_E_SHAPE, "biases must be f32, one per expert"),
      WITH_PARAMS(RP_E_ARG, "unknown kind of router", .router = {.kind = (RpRouterKind)3, .top_k = {.k = 2}}),
      WITH_PARAMS(RP_E_ARG, "k must be from 1 to the row's length", .router = {.top_k = {.k = 9}})}                                                                                      },
    {RP_OP_ROUTER,
     {"q8_0 64 8", "f32 64"},
     {.router = {.top_k = {.k = 2}, .quantize = 1}},
     {WITH(1, "q8_act 64", RP_E_DTYPE, "only an f32 column can be quantised beside the product"),
      WITH_PARAMS(RP_E_DTYPE, "only an f32 column can be quantised beside the product",
                  .router = {.column = {.round = 1}, .top_k = {.k = 2}, .quantize = 1})}                                                                                                 },
    {RP_OP_ROUTER,
     {"f32 48 8", "f32 48"},
     {.router = {.top_k = {.k = 2}}},
     {WITH_PARAMS(RP_E_SHAPE, "a column to be quantised must be whole blocks of 32",
                  .router = {.top_k = {.k = 2}, .quantize = 1})}                                                                                                                         },
    {RP_OP_QUANTIZE,
     {"f32 64 2"},
     NONE,                                                                       {WITH(0, "f16 64 2", RP_E_DTYPE, "the source must be f32"),
      WITH(0, "f32 48 2", RP_E_SHAPE, "rows must be contiguous and whole blocks of 32"),
      WITH(0, "f32 64 2 ~", RP_E_SHAPE, "rows must be contiguous and whole blocks of 32")}                                                                                     },
};

Test(shape_rules_fused, each_condition_of_products) { check_rules(fused, sizeof fused / sizeof fused[0]); }

#define ROPED .head_dim = 16, .norm = RP_HEAD_NORM_EACH, .rope = {.n_dims = 16, .freq_base = 1e4f}

/* Sources: 0-2 weights, 3 x, 4 pos, 5 and 6 caches, 7 norm, 8-10 biases, 11 and 12 head norms, 13 factors. */
static const RuleCase qkv[] = {
    {RP_OP_QKV,
     {"f32 64 64", "f32 64 32", "f32 64 32", "f32 64", "i32 1", "f16 32 9", "f16 32 9", NULL, "f32 64", "f32 32",
      "f32 32", "f32 16", "f32 16", "f32 8"},
     {.qkv = {ROPED}},
     {WITH(1, "i32 64 32", RP_E_DTYPE, "weights must be of a weight type"),
      WITH(2, "f32 64 32 2", RP_E_SHAPE, "the weights must be matrices"),
      WITH(9, "f32 31", RP_E_SHAPE, "a bias must be f32, one per row of its weights"),
      WITH_PARAMS(RP_E_SHAPE, "the rows of the weights must be whole heads", .qkv = {.head_dim = 0}),
      WITH_PARAMS(RP_E_SHAPE, "the rows of the weights must be whole heads", .qkv = {.head_dim = 24}),
      WITH(4, "i32 2", RP_E_SHAPE, "the position must be i32 of one token"), WITH(5, "f32 32 9", RP_E_SHAPE, CACHES),
      WITH(6, "q8_0 32 9", RP_E_SHAPE, CACHES), WITH(6, "f16 16 9", RP_E_SHAPE, CACHES),
      WITH_PARAMS(RP_E_ARG, "unknown head norm", .qkv = {.head_dim = 16, .norm = (RpHeadNorm)3}),
      WITH_PARAMS(RP_E_ARG, "unknown head norm", .qkv = {.head_dim = 16, .norm = RP_HEAD_NORM_EACH, .norm_eps = -1.0f}),
      WITH_PARAMS(RP_E_ARG, "a weight for the head norm, but the norm is none", .qkv = {.head_dim = 16}),
      WITH(11, "f32 64", RP_E_SHAPE, HEAD_NORMS), WITH(12, "f16 16", RP_E_SHAPE, HEAD_NORMS),
      WITH_PARAMS(RP_E_SHAPE, HEAD_NORMS, .qkv = {.head_dim = 16, .norm = RP_HEAD_NORM_WHOLE}),
      WITH_PARAMS(RP_E_SHAPE, "n_dims must be even, from 0 to head_dim",
                  .qkv = {.head_dim = 16, .norm = RP_HEAD_NORM_EACH, .rope = {.n_dims = 18, .freq_base = 1e4f}}),
      WITH_PARAMS(RP_E_SHAPE, "n_dims must be even, from 0 to head_dim",
                  .qkv = {.head_dim = 16, .norm = RP_HEAD_NORM_EACH, .rope = {.n_dims = 16}}),
      WITH(13, "f32 7", RP_E_SHAPE, "frequency factors must be f32, one per pair")}             },
    {RP_OP_QKV,
     {"f32 64 64", "f32 64 32", "f32 64 32", "f32 64", "i32 1", "q8_0 32 9", "q8_0 32 9"},
     {.qkv = {.head_dim = 32}},
     {WITH_PARAMS(RP_E_SHAPE, "heads must be whole q8_0 blocks of 32", .qkv = {.head_dim = 16})}},
};

Test(shape_rules_fused, each_condition_of_qkv) { check_rules(qkv, sizeof qkv / sizeof qkv[0]); }

#define SLOTS "slots must be i32, one before the first token and one for each token"
#define STATE "the state must be an f32 matrix, a row for each slot"

static const RuleCase recurrent[] = {
    {RP_OP_CAUSAL_CONV,
     {"f32 8 3", "f32 4 8", "f32 24 2", "i32 4", "f32 8"},
     NONE, {WITH(0, "f16 8 3", RP_E_SHAPE, "x must be an f32 matrix of contiguous rows"),
      WITH(0, "f32 8 3 2", RP_E_SHAPE, "x must be an f32 matrix of contiguous rows"),
      WITH(0, "f32 8 3 ~", RP_E_SHAPE, "x must be an f32 matrix of contiguous rows"),
      WITH(1, "f32 4 7", RP_E_SHAPE, "w must be f32 with a contiguous row of taps for each channel of x"),
      WITH(1, "f16 4 8", RP_E_SHAPE, "w must be f32 with a contiguous row of taps for each channel of x"),
      WITH(1, "f32 1 8", RP_E_SHAPE, "there must be from 2 to 8 taps"),
      WITH(1, "f32 9 8", RP_E_SHAPE, "there must be from 2 to 8 taps"),
      WITH(4, "f32 7", RP_E_SHAPE, "the bias must be f32, one for each channel"),
      WITH(2, "f32 23 2", RP_E_SHAPE, STATE), WITH(2, "f16 24 2", RP_E_SHAPE, STATE),
      WITH(2, "f32 24 2 ~", RP_E_SHAPE, "the rows of the state must be contiguous"),
      WITH(3, "i32 3", RP_E_SHAPE, SLOTS), WITH_PARAMS(RP_E_ARG, "silu must be 0 or 1", .causal_conv = {.silu = 2})}},
    {RP_OP_GATED_DELTA,
     {"f32 4 2 3", "f32 4 2 3", "f32 4 6 3", "f32 6 1 3", "f32 6 1 3", "f32 6", "f32 6", "f32 96 2", "i32 4"},
     NONE, {WITH(2, "f32 257 6 3", RP_E_SHAPE, "heads must have from 1 to 256 elements"),
      WITH(2, "f16 4 6 3", RP_E_SHAPE, "v must be f32 [d,heads,t] with contiguous rows"),
      WITH(0, "f32 4 3 3", RP_E_SHAPE,
           "q and k must be f32 [d,key heads,t] with contiguous rows, for the d and t of v"),
      WITH(1, "f32 4 2 4", RP_E_SHAPE,
           "q and k must be f32 [d,key heads,t] with contiguous rows, for the d and t of v"),
      WITH(2, "f32 4 5 3", RP_E_SHAPE, "the heads of v must be a multiple of those of k"),
      WITH(3, "f32 5 1 3", RP_E_SHAPE, "alpha and beta must be f32, one for each head of v and token"),
      WITH(4, "f16 6 1 3", RP_E_SHAPE, "alpha and beta must be f32, one for each head of v and token"),
      WITH(5, "f32 5", RP_E_SHAPE, "a and dt must be f32, one for each head of v"),
      WITH(6, "f16 6", RP_E_SHAPE, "a and dt must be f32, one for each head of v"),
      WITH(7, "f32 95 2", RP_E_SHAPE, STATE), WITH(8, "f32 4", RP_E_SHAPE, SLOTS),
      WITH_PARAMS(RP_E_ARG, "eps must not be negative", .gated_delta = {.eps = -1.0f})}                             },
};

Test(shape_rules_fused, each_condition_of_recurrent_ops) {
    check_rules(recurrent, sizeof recurrent / sizeof recurrent[0]);
}
