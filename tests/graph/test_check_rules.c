/* The checks with which kernels begin (RP_CHECK), called directly: a sound call, then the same call with one source or
 * the result changed, which must be refused with the text. Tests of the ops have others. */
#include "tests/support/shape_rule.h"

enum { RESULT = RP_MAX_SRC };

typedef struct Call {
    TensorOp    op;
    const char *result, *src[RP_MAX_SRC];
    RpOpParams  params;
    RuleRefusal refusals[RULE_REFUSALS]; /* source RESULT: the result; up to one without a text */
} Call;

static RpStatus check(const Call *c, const RuleRefusal *changed) {
    const RpOpParams *params = changed != NULL && changed->source < 0 ? changed->params : &c->params;
    RpOpArgs          args   = {.params = params};
    for (int i = 0; i < RP_MAX_SRC; i++) {
        const char *spec = changed != NULL && changed->source == i ? changed->with : c->src[i];
        if (spec != NULL) args.src[i] = rule_source(spec);
    }
    args.dst = rule_source(changed != NULL && changed->source == RESULT ? changed->with : c->result);
    return rp_op_rules(c->op)->check(rp_op_info(c->op)->name, &args);
}

static const Call calls[] = {
    {RP_OP_GET_ROWS,
     "f32 32 2",    {"q8_0 32 4", "i32 2"},
     NONE,                                                                                {WITH(0, "i32 32 4", RP_E_DTYPE, "get_rows: w must be of a float or weight type"),
      WITH(RESULT, "f32 64 2", RP_E_SHAPE, "get_rows: rows of w and of the result must have one length"),
      WITH(RESULT, "f32 32 3", RP_E_SHAPE, "get_rows: the result must have a row for each ")}                                                                                        },
    {RP_OP_RMS_NORM,
     "f32 8 2",     {"f32 8 2", "f32 8"},
     {.rms_norm = {1e-5f}},
     {WITH(1, "f16 8", RP_E_DTYPE, "rms_norm: w must be f32")}                                                                                                                                 },
    {RP_OP_ROPE,
     "f32 8 2 3",   {"f32 8 2 3", "i32 3"},
     {.rope = {.n_dims = 8, .freq_base = 1e4f, .freq_scale = 1.0f, .attn_factor = 1.0f}},
     {WITH(1, "i32 2", RP_E_SHAPE, "rope: pos must have a position for each token of x, its dimension 2")}                                                                                     },
    {RP_OP_SOFT_MAX,
     "f32 16 3 4",  {"f32 16 3 4", "f16 16 3", "i32 3", "f32 4"},
     {.soft_max = {1.0f, 4}},
     {WITH(2, "i32 2", RP_E_SHAPE, "soft_max: pos must have a position for each row of x, its dimension 1")}                                                                                   },
    {RP_OP_ATTENTION,
     "f32 64 4 3",  {"f32 64 3 4", "f32 64 16 2", "f32 64 16 2", NULL, NULL, "f32 16 3"},
     {.attention = {.scale = 1.0f}},
     {WITH(5, "f16 16 3", RP_E_DTYPE, "attention: mask must be f32"),
      WITH(1, "f32 32 16 2", RP_E_SHAPE, "attention: heads of q, k and v must have one length"),
      WITH(1, "f32 64 16 2 2", RP_E_SHAPE, "attention: q, k and v must be of one batch, their dimension 3"),
      WITH(6, "f32 1", RP_E_UNSUPPORTED, "attention: k must not be f32 where there is a cap")}                                                                                                 },
    {RP_OP_MUL_MAT,
     "f32 4 2 2",   {"f32 32 4", "f32 32 2 2"},
     NONE,                                                                                {WITH(RESULT, "f32 5 2 2", RP_E_SHAPE, "mul_mat: rows of the result must have an element for each row of w"),
      WITH(RESULT, "f32 4 3 2", RP_E_SHAPE, "mul_mat: the result must have a row for each row of x"),
      WITH(0, "f32 32 4 3", RP_E_SHAPE, "mul_mat: dimensions 2 and 3 of w must divide those of x")}                                                                                  },
    {RP_OP_MUL_MAT_ID,
     "f32 4 2 3",   {"f32 32 4 5", "f32 32 2 3", "i32 2 3"},
     NONE,                                                                                {WITH(RESULT, "f32 5 2 3", RP_E_SHAPE, "mul_mat_id: rows of the result must have an element for each row of w"),
      WITH(1, "f32 32 2 4", RP_E_SHAPE, "mul_mat_id: x and the result must have as many tokens, their dimension 2"),
      WITH(1, "f32 32 3 3", RP_E_SHAPE, "mul_mat_id: x must have one row for each token, or one for each id")}                                                                       },
    {RP_OP_COMBINE,
     "f32 8 3",     {"f32 8 2 3", "f32 2 3"},
     NONE,                                                                                {WITH(0, "f16 8 2 3", RP_E_DTYPE, "combine: x and weights must be f32"),
      WITH(RESULT, "f32 7 3", RP_E_SHAPE, "combine: rows of x and of the result must have one length"),
      WITH(RESULT, "f32 8 4", RP_E_SHAPE, "combine: the result must have a row for each token of x, its dimension 2")}                                                               },
    {RP_OP_GEMM,
     "f32 6 4",     {"f32 8 4", "f32 6 8", "f32 6 4"},
     {.gemm = {1.0f, 1.0f}},
     {WITH(2, "f16 6 4", RP_E_DTYPE, "gemm: c and the result must be f32"),
      WITH(2, "f32 6 4 ~", RP_E_SHAPE, "gemm: rows of c and of the result must be contiguous"),
      WITH(RESULT, "f32 5 4", RP_E_SHAPE,
           "gemm: the result must have rows as long as those of b, one for each row of a"),
      WITH(1, "f32 6 8 2", RP_E_SHAPE, "gemm: a, b and the result must be of one batch, their dimension 2"),
      WITH(2, "f32 6 3", RP_E_SHAPE, "gemm: c must have the shape of the result")}                                                                                                             },
    {RP_OP_TOP_K,
     "i32 2 3",     {"f32 8 3"},
     {.top_k = {2, 0, 0}},
     {WITH(RESULT, "i32 3 3", RP_E_SHAPE, "top_k: the result must have k = 2 elements for each row of x")}                                                                                     },
    {RP_OP_SAMPLE_ROWS,
     "i32 3",       {"f32 16 3", "i32 2 3", "f32 48 3"},
     {.sample_rows = {.top_p = 1.0f}},
     {WITH(0, "f16 16 3", RP_E_DTYPE, "sample_rows: logits and scratch must be f32"),
      WITH(0, "f32 536870912 3", RP_E_SHAPE, "sample_rows: rows of logits must have at most 536870911 elements"),
      WITH(0, "f32 16 3 2", RP_E_SHAPE, "sample_rows: logits must be a matrix"),
      WITH(2, "f32 47 3", RP_E_SHAPE,
           "sample_rows: scratch must have twice the length of a row of logits, and 16, for each"),
      WITH(RESULT, "i32 4", RP_E_SHAPE, "sample_rows: the result must have a token for each row of logits")}                                                                                   },
    {RP_OP_TEMPERATURE,
     "f32 1 1 3",   {"i32 3"},
     {.temperature = {0.1f, 16}},
     {WITH(0, "f32 3", RP_E_DTYPE, "temperature: pos must be i32"),
      WITH(RESULT, "f32 3", RP_E_SHAPE,
           "temperature: the result must be f32 [1,1,t], with an element for each position")}                                                                                                  },
    {RP_OP_QUANTIZE,
     "q8_act 64 2", {"f32 64 2"},
     NONE,                                                                                {WITH(0, "f16 64 2", RP_E_DTYPE, "quantize: x must be f32"),
      WITH(RESULT, "f32 64 2", RP_E_DTYPE, "quantize: the result must be q8_act"),
      WITH(RESULT, "q8_act 64 3", RP_E_SHAPE, "quantize: x and the result must have as many rows of one length")}                                                                    },
    {RP_OP_REPEAT_BACKWARD,
     "f32 8 2",     {"f32 8 4"},
     {.repeat_backward = {.ne = {8, 2, 1, 1}}},
     {WITH(0, "f16 8 4", RP_E_DTYPE, "repeat_backward: dy and the result must be f32"),
      WITH(0, "f32 8 4 ~", RP_E_SHAPE, "repeat_backward: rows of dy must be contiguous")}                                                                                                      },
    {RP_OP_ATTENTION,
     "f32 64 4 3",  {"f32 64 3 4", "f16 64 16 2", "f16 64 16 2", "i32 3", "f32 4"},
     {.attention = {.scale = 1.0f}},
     {WITH(0, "f16 64 3 4", RP_E_DTYPE, "attention: q must be f32"),
      WITH(RESULT, "f16 64 4 3", RP_E_DTYPE, "attention: the result must be f32 or q8_act"),
      WITH(RESULT, "f32 64 4 2", RP_E_SHAPE,
           "attention: the result must have all heads of each token of q, which is [d,t,h,b]"),
      WITH(6, "f32 2", RP_E_SHAPE, "attention: cap must be f32 [1]"),
      WITH(3, "i32 2", RP_E_SHAPE, "attention: pos must have a position for each token of q, its dimension 1"),
      WITH(4, "f32 5", RP_E_SHAPE, "attention: sinks must have one for each head of q, its dimension 2")}                                                                                      },
    {RP_OP_ATTENTION_BACKWARD,
     "f32 64 3 4",  {"f32 64 4 3", "f32 64 3 4", "f32 64 16 2", "f32 64 16 2", "f32 64 4 3", "f32 64 16 2", "f32 64 16 2", "f32 36"},
     {.attention_backward = {.scale = 1.0f}},
     {WITH(1, "f32 513 3 4", RP_E_SHAPE, "attention_backward: heads must have at most 512 elements"),
      WITH(2, "f32 32 16 2", RP_E_SHAPE, "attention_backward: heads of q and k must have one length"),
      WITH(2, "f32 64 16 2 2", RP_E_SHAPE, "attention_backward: q and k must be of one batch, their dimension 3")}                                                                             },
    {RP_OP_LINEAR,
     "f32 32",      {"q8_0 64 32", "f32 64"},
     NONE,                                                                                {WITH(0, "i32 64 32", RP_E_DTYPE, "linear: the weights must be of a float or weight type"),
      WITH(1, "f16 64", RP_E_DTYPE, "linear: the column x must be f32 or q8_act"),
      WITH(1, "f32 64 2", RP_E_SHAPE, "linear: the column x must be one row")}                                                                                                       },
    {RP_OP_LINEAR,
     "f32 32",      {"q8_0 64 32", "q8_act 64"},
     NONE,                                                                                {WITH_PARAMS(RP_E_DTYPE, "linear: the column x must be f32 to be normalised or quantised",
                  .linear = {.column = {.norm = 1}}),
      WITH_PARAMS(RP_E_DTYPE, "linear: the column x must be f32 to be normalised or quantised",
                  .linear = {.column = {.round = 1}})}                                                                                                                               },
    {RP_OP_LINEAR,
     "f32 32",      {"q8_0 48 32", "f32 48"},
     NONE,                                                                                /* no such weights today: blocks are multiples of 32 */
     {WITH_PARAMS(RP_E_SHAPE, "linear: a column x to be quantised must be whole blocks of 32",
                  .linear = {.column = {.round = 1}})}                                                                                                                               },
    {RP_OP_EXPERTS_DOWN,
     "f32 32",      {"q8_0 64 32 4", "f32 64 2", "i32 2", "f32 2"},
     NONE,                                                                                {WITH(1, "f32 64 2 2", RP_E_SHAPE, "experts_down: x must be a matrix, a row for each chosen expert")}},
    {RP_OP_ROUTER,
     "i32 2 2",     {"q8_0 64 8", "q8_act 64"},
     {.router = {.top_k = {.k = 2}}},
     {WITH_PARAMS(RP_E_DTYPE, "router: a column that is quantised beside the product must be f32",
                  .router = {.top_k = {.k = 2}, .quantize = 1})}                                                                                                                               },
    {RP_OP_ROUTER,
     "i32 2 2",     {"q8_0 64 8", "f32 64"},
     {.router = {.top_k = {.k = 2}}},
     {WITH_PARAMS(RP_E_DTYPE, "router: a column must be quantised once: for the product, or beside it",
                  .router = {.column = {.round = 1}, .top_k = {.k = 2}, .quantize = 1})}                                                                                                       },
    {RP_OP_CAUSAL_CONV,
     "f32 8 3",     {"f32 8 3", "f32 4 8", "f32 24 2", "i32 4", "f32 8"},
     NONE,                                                                                {WITH_PARAMS(RP_E_ARG, "causal_conv: silu = 2 must be 0 or 1", .causal_conv = {.silu = 2})}          },
    {RP_OP_GATED_DELTA,
     "f32 4 6 3",   {"f32 4 2 3", "f32 4 2 3", "f32 4 6 3", "f32 6 1 3", "f32 6 1 3", "f32 6", "f32 6", "f32 96 2", "i32 4"},
     NONE,                                                                                {WITH(RESULT, "f32 4 6 2", RP_E_SHAPE, "gated_delta: the result must be f32 of the shape of v"),
      WITH_PARAMS(RP_E_ARG, "gated_delta: eps = -1 must not be negative", .gated_delta = {.eps = -1.0f})}                                                                            },
    {RP_OP_SSM_SCAN,
     "f32 4 6 3",   {"f32 4 6 3", "f32 4 6 3", "f32 6 3", "f32 5 2 3", "f32 5 2 3", "f32 6", "f32 6", "f32 6", "f32 120 2", "i32 4"},
     NONE,                                                                                {WITH(RESULT, "f32 4 6 2", RP_E_SHAPE, "ssm_scan: the result must be f32 of the shape of x")}        },
    {RP_OP_LATENT_ATTENTION,
     "f32 16 2 3",  {"f32 16 2 3", "f16 16 9", "f16 4 9", "i32 2", "f32 4 2 3"},
     {.latent_attention = {.scale = 1.0f}},
     {WITH(3, "i32 3", RP_E_SHAPE, "latent_attention: pos must be i32, one for each token of q"),
      WITH(RESULT, "f32 16 3 2", RP_E_SHAPE, "latent_attention: the result must be f32 of the shape of q"),
      WITH(RESULT, "q8_act 32 2 3", RP_E_SHAPE, "latent_attention: the result must be f32 of the shape of q")}                                                                                 },
    {RP_OP_LATENT,
     "f32 20",      {"f32 8 6 2", "f32 12 2", "f32 10", "i32 1", "f16 6 9", "f16 4 9", "f32 6", "f32 2"},
     {.latent = {.rope = {.n_dims = 4, .freq_base = 1e4f}}},
     {WITH(4, "f16 7 9", RP_E_SHAPE, "latent: latent and key must be f16 matrices of rows of n and r elements"),
      WITH(6, "f32 5", RP_E_SHAPE, "latent: norm must be f32 of 6 elements"),
      WITH(7, "f32 3", RP_E_SHAPE, "latent: factors must be f32 of 2 elements"),
      WITH(RESULT, "f32 21", RP_E_SHAPE, "latent: the result must be f32 [20]")}                                                                                                               },
    {RP_OP_SAMPLE,
     "i32 64",      {"f32 16", "i32 64", "f32 32"},
     NONE,                                                                                {WITH(0, "f32 1073741824", RP_E_SHAPE, "sample: rows of logits must have at most 1073741823 elements"),
      WITH(1, "i32 3", RP_E_SHAPE, "sample: rows of state must have at least 14 words"),
      WITH(1, "i32 64 2", RP_E_SHAPE, "sample: state and scratch must have a row for each row of logits")}                                                                           },
    {RP_OP_COPY,
     "f32 8 2",     {"f32 8 2"},
     NONE,                                                                                {WITH(RESULT, "f32 7 2", RP_E_SHAPE, "copy: rows of x and of the result must have one length"),
      WITH(RESULT, "f32 8 3", RP_E_SHAPE, "copy: x and the result must have as many rows")}                                                                                          },
    {RP_OP_SAMPLE,
     "i32 64",      {"f32 16", "i32 64", "f32 32"},
     NONE,                                                                                {WITH(0, "f16 16", RP_E_DTYPE, "sample: logits and scratch must be f32"),
      WITH(2, "f16 32", RP_E_DTYPE, "sample: logits and scratch must be f32")}                                                                                                       },
    {RP_OP_ROUTER,
     "i32 2 2",     {"f32 48 8", "f32 48"},
     {.router = {.top_k = {.k = 2}}},
     {WITH_PARAMS(RP_E_DTYPE, "router: a column to be quantised must be whole blocks of 32",
                  .router = {.top_k = {.k = 2}, .quantize = 1})}                                                                                                                               },
    {RP_OP_GATE_UP,
     "f32 32",      {"q8_0 64 32", "q8_0 64 32", "f32 64"},
     NONE,                                                                                {WITH(1, "q8_0 64 16", RP_E_SHAPE, "gate_up: gate and up must have one shape")}                      },
    {RP_OP_QKV,
     "f32 16 4",    {"f32 64 64", "f32 64", "i32 1", "f32 64 32", "f32 64 32", "f16 16 9 2", "f16 16 9 2"},
     {.qkv = {.head_dim = 16}},
     {WITH(5, "f16 16 9", RP_E_SHAPE, "qkv: the caches must have rows of 16 and the heads of wk and wv"),
      WITH(5, "f16 32 9 2", RP_E_SHAPE, "qkv: the caches must have rows of 16 and the heads of wk and wv"),
      WITH(6, "f32 16 9 2", RP_E_SHAPE, "qkv: the caches must be f16 or q8_0"),
      WITH(4, NULL, RP_E_ARG, "qkv: wk, wv and both caches must be given together")}                                                                                                           },
    {RP_OP_MUL_MAT,
     "f32 4 2",     {"f32 32 4", "f32 32 2"},
     NONE,                                                                                {WITH(0, "i32 32 4", RP_E_DTYPE, "mul_mat: w must be of a float or weight type")}                    },
};

static void expect_refusal(const Call *c, const RuleRefusal *r) {
    const char    *name = rp_op_info(c->op)->name;
    const RpStatus st   = check(c, r);
    cr_expect_eq(st, r->status, "%s: status %d instead of %d for: %s", name, (int)st, (int)r->status, r->text);
    cr_expect_eq(strncmp(rp_last_error(), r->text, strlen(r->text)), 0, "%s, not: %s", rp_last_error(), r->text);
}

Test(check_rules, refuse_what_no_test_of_an_op_tries) {
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const char *name = rp_op_info(calls[i].op)->name;
        cr_expect_eq(check(&calls[i], NULL), RP_OK, "%s: the sound call: %s", name, rp_last_error());
        for (const RuleRefusal *r = calls[i].refusals; r->text != NULL; r++) expect_refusal(&calls[i], r);
    }
}

/* Conditions that need two sources unlike the sound call: the call is refused as it stands. */
static const Call unsound[] = {
    {RP_OP_ATTENTION,
     "f32 64 4 3 2", {"f32 64 3 4 2", "f16 64 16 2 2", "f16 64 16 2 2", "i32 3"},
     {.attention = {.scale = 1.0f}},
     {WITH(3, "i32 3", RP_E_UNSUPPORTED, "attention: k must be f32 where there is a batch, dimension 3 of q")}                  },
    {RP_OP_ROUTE_BACKWARD,
     "f32 300 3",    {"f32 257 3", "f32 300 3", "i32 257 3"},
     NONE,                           {WITH(2, "i32 257 3", RP_E_SHAPE, "route_backward: a token must have at most 256 experts")}},
};

Test(check_rules, refuse_sources_that_only_together_are_wrong) {
    for (size_t i = 0; i < sizeof unsound / sizeof unsound[0]; i++) expect_refusal(&unsound[i], unsound[i].refusals);
}
