/* A kernel of source text inside a model: a pattern puts it into the graph, and a short reply in mode loop is one
 * launch with it. The compiler is a stand-in. */
#include "tests/sim/executor/source_net.h"

/* mul(a, x), the product of the feed-forward network, as a kernel of source text. The second source is at byte 160. */
static RpStatus product_cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *a = args->binary.a.data, *b = args->binary.b.data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth) y[i] = a[i] * b[i];
    return RP_OK;
}

/* The factor of `times` becomes an element of the second source. */
static char *product_text(void) {
    static const char old[]  = "ld.param.f32 %f2, [p+1360];",
                      with[] = "ld.param.u64 %rd5, [p+160]; cvta.to.global.u64 %rd6, %rd5; add.s64 %rd8, %rd6, %rd7; "
                               "ld.global.f32 %f2, [%rd8];";
    char        *text        = malloc(strlen(times.text) + sizeof with), *at;
    const size_t before      = (size_t)(strstr(times.text, old) - times.text);
    memcpy(text, times.text, before);
    at = text + before;
    memcpy(at, with, sizeof with - 1);
    strcpy(at + sizeof with - 1, times.text + before + strlen(old));
    /* all elements, not one row: dst.ne[0] * dst.ne[1] */
    return text;
}

static void reply(const RpModel *m, const char *device, RpExecMode mode, int32_t ids[12]) {
    static const int32_t   prompt[] = {5, 17, 40};
    const RpSessionOptions o        = {
               .n_ctx = 24, .prefill_chunk = 1, .device = device, .mode = mode, .n_threads = 1, .passes = "-all,+product"};
    const RpGenerateOptions g = {.max_tokens = 12, .ignore_end = true, .tokens = &(RpTokenList){0}};
    RpSamplerParams         p = rp_sampler_defaults();
    RpSampler              *sampler;
    RpSession              *s;
    RpGenerateResult        r;
    p.temperature = 0.0f;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_session_open(m, &o, &s));
    if (strcmp(device, "cuda") == 0) cr_assert_eq(rp_session_info(s).mode, mode, "%s", rp_session_info(s).reason);
    OK(rp_generate(s, sampler, prompt, 3, &g, &r));
    cr_assert_eq(g.tokens->n, (size_t)12);
    memcpy(ids, g.tokens->ids, 12 * sizeof *ids);
    rp_token_list_free(g.tokens);
    rp_session_free(s);
    rp_sampler_free(sampler);
}

Test(source_model, a_reply_in_one_launch_has_the_same_tokens) {
    static const RpGraphPattern pattern = {.name = "product", .match = "mul(silu(a), b)", .make = "product(x, b)"};
    (void)start();
    char                 *text  = product_text();
    const RpCudaSource    s     = {.text = text, .kernel = "times", .grid = RP_GRID_ELEMENTS};
    RpGraphPattern        plain = pattern;
    const RpOpDescription d     = {.name       = "product",
                                   .n_required = 2,
                                   .n_sources  = 2,
                                   .shape      = net_shape,
                                   .flags      = RP_FLAG_FUSED,
                                   .cpu        = product_cpu};
    int32_t               cpu[12], other[12];
    TensorOp              op;
    plain.match = "mul(a, b)";
    plain.make  = "product(a, b)";
    OK(rp_op_register_source(&d, &s, &op));
    OK(rp_pattern_register(&plain));
    RpModel *m = golden_open_tiny("llama-f32");
    reply(m, "cpu", RP_MODE_AUTO, cpu);
    for (RpExecMode mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        reply(m, "cuda", mode, other);
        cr_expect_arr_eq(other, cpu, sizeof cpu, "%s", rp_mode_name(mode));
    }
    rp_model_free(m);
    free(text);
    finish();
}
