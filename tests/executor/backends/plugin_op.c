/* A plugin with an op, halve(x), and a pattern that makes it of scale(x) by a half. */
#include "reprise/plugin.h"

static const RpPluginHost *host;

static RpStatus like_first(const RpSourceShapes *in, const RpOpParams *params, RpTensorView *out, const char **why) {
    (void)params;
    if (in->unary.x->dtype != RP_F32 || !host->view_is_contiguous(in->unary.x))
        return *why = "the source must be contiguous f32", RP_E_DTYPE;
    *out = host->view_contiguous(RP_F32, in->unary.x->ne, NULL);
    return RP_OK;
}

static RpStatus halve(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *x = args->unary.x.data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth) y[i] = 0.5f * x[i];
    return RP_OK;
}

static bool is_half(const RpPatternMatch *m, RpOpParams *out) {
    const RpScaleParams *p = &host->node_params(host->match_node(m, "s"))->scale;
    (void)out;
    return p->scale == 0.5f && p->bias == 0.0f;
}

RP_API RpStatus rp_plugin(const RpPluginHost *given);
RpStatus        rp_plugin(const RpPluginHost *given) {
           static const RpOpDescription op = {
               .name = "halve", .n_required = 1, .n_sources = 1, .shape = like_first, .flags = RP_FLAG_FUSED, .cpu = halve};
           static const RpGraphPattern pattern = {
               .name = "halves", .match = "scale:s(x)", .make = "halve(x)", .params = is_half};
           TensorOp number;
           host = given;
           if (host->bytes < sizeof *host || host->abi != RP_PLUGIN_ABI)
        return host->fail(RP_E_UNSUPPORTED, "another version");
    RP_TRY(host->op_register(&op, sizeof op, &number));
           return host->pattern_register(&pattern, sizeof pattern);
}
