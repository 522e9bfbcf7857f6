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
      WITH(RESULT, "f32 32 3", RP_E_SHAPE, "get_rows: the result must have a row for each ")}                         },
    {RP_OP_RMS_NORM,
     "f32 8 2",     {"f32 8 2", "f32 8"},
     {.rms_norm = {1e-5f}},
     {WITH(1, "f16 8", RP_E_DTYPE, "rms_norm: w must be f32")}                                                                  },
    {RP_OP_ROPE,
     "f32 8 2 3",   {"f32 8 2 3", "i32 3"},
     {.rope = {.n_dims = 8, .freq_base = 1e4f, .freq_scale = 1.0f, .attn_factor = 1.0f}},
     {WITH(1, "i32 2", RP_E_SHAPE, "rope: pos must have a position for each token of x, its dimension 2")}                      },
    {RP_OP_SOFT_MAX,
     "f32 16 3 4",  {"f32 16 3 4", "f16 16 3", "i32 3", "f32 4"},
     {.soft_max = {1.0f, 4}},
     {WITH(2, "i32 2", RP_E_SHAPE, "soft_max: pos must have a position for each row of x, its dimension 1")}                    },
    {RP_OP_ATTENTION,
     "f32 64 4 3",  {"f32 64 3 4", "f32 64 16 2", "f32 64 16 2", NULL, NULL, "f32 16 3"},
     {.attention = {.scale = 1.0f}},
     {WITH(5, "f16 16 3", RP_E_DTYPE, "attention: mask must be f32"),
      WITH(1, "f32 32 16 2", RP_E_SHAPE, "attention: heads of q, k and v must have one length")}                                },
    {RP_OP_MUL_MAT,
     "f32 4 2 2",   {"f32 32 4", "f32 32 2 2"},
     NONE,                                                                                {WITH(RESULT, "f32 5 2 2", RP_E_SHAPE, "mul_mat: rows of the result must have an element for each row of w"),
      WITH(RESULT, "f32 4 3 2", RP_E_SHAPE, "mul_mat: the result must have a row for each row of x"),
      WITH(0, "f32 32 4 3", RP_E_SHAPE, "mul_mat: dimensions 2 and 3 of w must divide those of x")}                   },
    {RP_OP_MUL_MAT_ID,
     "f32 4 2 3",   {"f32 32 4 5", "f32 32 2 3", "i32 2 3"},
     NONE,                                                                                {WITH(RESULT, "f32 5 2 3", RP_E_SHAPE, "mul_mat_id: rows of the result must have an element for each row of w"),
      WITH(1, "f32 32 3 3", RP_E_SHAPE, "mul_mat_id: x must have one row for each token, or one for each id")}        },
    {RP_OP_COMBINE,
     "f32 8 3",     {"f32 8 2 3", "f32 2 3"},
     NONE,                                                                                {WITH(0, "f16 8 2 3", RP_E_DTYPE, "combine: x and weights must be f32"),
      WITH(RESULT, "f32 7 3", RP_E_SHAPE, "combine: rows of x and of the result must have one length"),
      WITH(RESULT, "f32 8 4", RP_E_SHAPE, "combine: the result must have a row for each token of x, its dimension 2")}},
    {RP_OP_GEMM,
     "f32 6 4",     {"f32 8 4", "f32 6 8", "f32 6 4"},
     {.gemm = {1.0f, 1.0f}},
     {WITH(2, "f16 6 4", RP_E_DTYPE, "gemm: c and the result must be f32"),
      WITH(2, "f32 6 4 ~", RP_E_SHAPE, "gemm: rows of c and of the result must be contiguous"),
      WITH(RESULT, "f32 5 4", RP_E_SHAPE,
           "gemm: the result must have rows as long as those of b, one for each row of a"),
      WITH(1, "f32 6 8 2", RP_E_SHAPE, "gemm: a, b and the result must be of one batch, their dimension 2"),
      WITH(2, "f32 6 3", RP_E_SHAPE, "gemm: c must have the shape of the result")}                                              },
    {RP_OP_TOP_K,
     "i32 2 3",     {"f32 8 3"},
     {.top_k = {2, 0, 0}},
     {WITH(RESULT, "i32 3 3", RP_E_SHAPE, "top_k: the result must have k = 2 elements for each row of x")}                      },
    {RP_OP_SAMPLE_ROWS,
     "i32 3",       {"f32 16 3", "i32 2 3", "f32 48 3"},
     {.sample_rows = {.top_p = 1.0f}},
     {WITH(0, "f16 16 3", RP_E_DTYPE, "sample_rows: logits and scratch must be f32"),
      WITH(0, "f32 16 3 2", RP_E_SHAPE, "sample_rows: logits must be a matrix"),
      WITH(2, "f32 47 3", RP_E_SHAPE, "sample_rows: scratch must have twice the length of a row of logits, and 16"),
      WITH(RESULT, "i32 4", RP_E_SHAPE, "sample_rows: the result must have a token for each row of logits")}                    },
    {RP_OP_TEMPERATURE,
     "f32 1 1 3",   {"i32 3"},
     {.temperature = {0.1f, 16}},
     {WITH(0, "f32 3", RP_E_DTYPE, "temperature: pos must be i32"),
      WITH(RESULT, "f32 3", RP_E_SHAPE,
           "temperature: the result must be f32 [1,1,t], with an element for each position")}                                   },
    {RP_OP_QUANTIZE,
     "q8_act 64 2", {"f32 64 2"},
     NONE,                                                                                {WITH(0, "f16 64 2", RP_E_DTYPE, "quantize: x must be f32"),
      WITH(RESULT, "f32 64 2", RP_E_DTYPE, "quantize: the result must be q8_act"),
      WITH(RESULT, "q8_act 64 3", RP_E_SHAPE, "quantize: x and the result must have as many rows of one length")}     },
    {RP_OP_REPEAT_BACKWARD,
     "f32 8 2",     {"f32 8 4"},
     {.repeat_backward = {.ne = {8, 2, 1, 1}}},
     {WITH(0, "f16 8 4", RP_E_DTYPE, "repeat_backward: dy and the result must be f32"),
      WITH(0, "f32 8 4 ~", RP_E_SHAPE, "repeat_backward: rows of dy must be contiguous")}                                       },
};

Test(check_rules, refuse_what_no_test_of_an_op_tries) {
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const char *name = rp_op_info(calls[i].op)->name;
        cr_expect_eq(check(&calls[i], NULL), RP_OK, "%s: the sound call: %s", name, rp_last_error());
        for (const RuleRefusal *r = calls[i].refusals; r->text != NULL; r++) {
            const RpStatus st = check(&calls[i], r);
            cr_expect_eq(st, r->status, "%s: status %d instead of %d for: %s", name, (int)st, (int)r->status, r->text);
            cr_expect_eq(strncmp(rp_last_error(), r->text, strlen(r->text)), 0, "%s, not: %s", rp_last_error(),
                         r->text);
        }
    }
}
