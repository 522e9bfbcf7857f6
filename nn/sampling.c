/* argmax, sample, topk_sample and topp_sample of nn.h: the ops top_k and sample_rows.
 *
 *     workspace   scratch of sample_rows, [batch][2 * vocab + 16] floats | memory of the op
 *
 * top-k keeps the k largest logits (Fan et al. 2018, arXiv:1805.04833). top-p, or nucleus sampling, keeps the fewest
 * tokens whose probabilities sum to p (Holtzman et al. 2019, arXiv:1904.09751). Random numbers are those of
 * Philox4x32-10 (Salmon et al. 2011), a function of the seed alone: a call has no hidden state, and host and device
 * choose the same token. */
#include "nn/workspace.h"

#include "base/limits.h"

RpStatus rp_nn_call_argmax(const NnCall *call, const float *logits, int32_t *ids, int64_t batch, int32_t vocab) {
    bool             empty;
    const RpOpParams p = {.top_k = {.k = 1}};
    RP_TRY(rp_nn_sizes("argmax", batch, vocab, &empty));
    if (batch > INT32_MAX)
        return rp_fail(RP_E_ARG, "argmax: %lld rows: must be at most %d", (long long)batch, INT32_MAX);
    if (empty) return RP_OK;
    RP_NN_NOT_NULL("argmax", logits);
    RP_NN_NOT_NULL("argmax", ids);
    const RpOpArgs args = {.dst     = rp_nn_view(RP_I32, ids, 1, batch, 1),
                           .top_k.x = rp_nn_view(RP_F32, logits, vocab, batch, 1),
                           .params  = &p};
    return rp_nn_run(call, RP_OP_TOP_K, &args);
}

/* Bytes of the first part of the workspace. */
static size_t scratch_bytes(const RpOpArgs *args) {
    return rp_nn_align(rp_view_extent_bytes(&args->sample_rows.scratch));
}

/* The arguments of op sample_rows without data. A seed of 64 bits is two words of i32. */
static RpStatus shapes(const char *function, int64_t batch, int32_t vocab, const RpOpParams *p, RpOpArgs *args,
                       bool *empty) {
    enum { MOST_ROWS = 4096, MOST_LOGITS = 1 << 24 };
    RP_TRY(rp_nn_sizes(function, batch, vocab, empty));
    if (batch > MOST_ROWS || vocab >= MOST_LOGITS)
        return rp_fail(RP_E_ARG, "%s: %lld rows of %d: must be at most %d rows of fewer than %d", function,
                       (long long)batch, vocab, MOST_ROWS, MOST_LOGITS);
    *args = (RpOpArgs){
        .dst                 = rp_nn_view(RP_I32, NULL, batch, 1, 1),
        .sample_rows.logits  = rp_nn_view(RP_F32, NULL, vocab, batch, 1),
        .sample_rows.seeds   = rp_nn_view(RP_I32, NULL, 2, batch, 1),
        .sample_rows.scratch = rp_nn_view(RP_F32, NULL, 2 * (int64_t)vocab + RP_SAMPLE_ROWS_STATE, batch, 1),
        .params              = p,
    };
    return RP_OK;
}

/* ids[r] = a token sampled from row r. top_k 0 and top_p 1 in `params` switch the two restrictions off. */
static RpStatus sample(const NnCall *call, const char *function, const float *logits, const uint64_t *seeds,
                       int32_t *ids, int64_t batch, int32_t vocab, const RpSampleRowsParams *params, NnMemory memory) {
    bool             empty;
    size_t           wanted;
    RpOpArgs         args;
    const RpOpParams p = {.sample_rows = *params};
    RP_TRY(shapes(function, batch, vocab, &p, &args, &empty));
    if (empty) return RP_OK;
    RP_NN_NOT_NULL(function, logits);
    RP_NN_NOT_NULL(function, seeds);
    RP_NN_NOT_NULL(function, ids);
    RP_TRY(rp_nn_memory(call, RP_OP_SAMPLE_ROWS, &args, &wanted));
    RP_TRY(rp_nn_check_workspace(function, &memory, wanted + scratch_bytes(&args)));
    args.sample_rows.scratch.data = rp_nn_take(&memory, scratch_bytes(&args));
    args.sample_rows.logits.data  = (void *)(uintptr_t)logits;
    args.sample_rows.seeds.data   = (void *)(uintptr_t)seeds; /* little-endian: low word first */
    args.dst.data                 = ids;
    return rp_nn_run_in(call, RP_OP_SAMPLE_ROWS, &args, memory);
}

RpStatus rp_nn_call_sample(const NnCall *call, const float *logits, const uint64_t *seeds, int32_t *ids, int64_t batch,
                           int32_t vocab, float temperature, void *workspace, int64_t workspace_bytes) {
    const RpSampleRowsParams p = {.temperature = temperature, .top_p = 1.0f};
    return sample(call, "sample", logits, seeds, ids, batch, vocab, &p, rp_nn_workspace(workspace, workspace_bytes));
}

RpStatus rp_nn_call_topk_sample(const NnCall *call, const float *logits, const uint64_t *seeds, int32_t *ids,
                                int64_t batch, int32_t vocab, int32_t k, float temperature, void *workspace,
                                int64_t workspace_bytes) {
    const RpSampleRowsParams p = {.temperature = temperature, .top_k = k, .top_p = 1.0f};
    if (k < 1) return rp_fail(RP_E_ARG, "topk_sample: k = %d: must be at least 1", k);
    return sample(call, "topk_sample", logits, seeds, ids, batch, vocab, &p,
                  rp_nn_workspace(workspace, workspace_bytes));
}

RpStatus rp_nn_call_topp_sample(const NnCall *call, const float *logits, const uint64_t *seeds, int32_t *ids,
                                int64_t batch, int32_t vocab, float p, float temperature, void *workspace,
                                int64_t workspace_bytes) {
    const RpSampleRowsParams params = {.temperature = temperature, .top_p = p};
    return sample(call, "topp_sample", logits, seeds, ids, batch, vocab, &params,
                  rp_nn_workspace(workspace, workspace_bytes));
}

/* The size depends on the shapes only, so any parameters serve for the query. */
static RpStatus workspace_of(const NnCall *call, const char *function, int64_t batch, int32_t vocab, int64_t *bytes) {
    bool             empty;
    RpOpArgs         args;
    size_t           wanted = 0;
    const RpOpParams p      = {.sample_rows = {.top_p = 1.0f}};
    RP_NN_NOT_NULL(function, bytes);
    RP_TRY(shapes(function, batch, vocab, &p, &args, &empty));
    if (!empty) {
        RP_TRY(rp_nn_memory(call, RP_OP_SAMPLE_ROWS, &args, &wanted));
        wanted += scratch_bytes(&args);
    }
    *bytes = rp_nn_workspace_bytes(wanted);
    return RP_OK;
}

RpStatus rp_nn_call_sample_workspace(const NnCall *call, int64_t batch, int32_t vocab, int64_t *bytes) {
    return workspace_of(call, "sample_workspace", batch, vocab, bytes);
}

RpStatus rp_nn_call_topk_sample_workspace(const NnCall *call, int64_t batch, int32_t vocab, int64_t *bytes) {
    return workspace_of(call, "topk_sample_workspace", batch, vocab, bytes);
}

RpStatus rp_nn_call_topp_sample_workspace(const NnCall *call, int64_t batch, int32_t vocab, int64_t *bytes) {
    return workspace_of(call, "topp_sample_workspace", batch, vocab, bytes);
}
