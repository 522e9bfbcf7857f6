/* adapter.h - LoRA (Hu et al. 2021, arXiv:2106.09685): y = w x + scale * b (a x) for matrices w [n,m] of a
 * model, with a [n,rank] and b [rank,m]. In the files of llama.cpp scale is the user's factor * alpha / rank. */
#ifndef MODEL_ADAPTER_H
#define MODEL_ADAPTER_H

#include "reprise/gguf.h"
#include "reprise/model.h"

#include "model/gguf/gguf_write.h"

typedef struct AdapterPair {
    const RpGgufTensor *weight; /* of the model */
    const RpGgufTensor *a, *b;
    float               scale;
    int                 adapter; /* its number in the model */
} AdapterPair;

/* Whether pairs for the tensor are applied: a matrix of a layer that is not that of experts, or the output matrix
 * if it is not the embedding. */
bool rp_model_adapts(const RpModel *m, const RpGgufTensor *t);

/* RP_E_FORMAT if the file is no adapter for the model's architecture. */
RP_NODISCARD RpStatus rp_adapter_check(const RpModel *m, const RpGgufFile *f);

/* The checksums of the model's tensors, [tensors of the file]: all of it is read. The caller frees *out, also on
 * failure. */
RP_NODISCARD RpStatus rp_adapter_sum_base(const RpModel *m, uint64_t **out);

/* The keys by which an adapter names its base (adapter_base.c). */
void rp_adapter_put_base(GgufWriter *w, const RpModel *m, const uint64_t *sums);

/* Fails if the model is not the base of the adapter: RP_E_FORMAT or RP_E_SHAPE names a tensor by which they differ.
 * With `sums` of the model also types and data must be the same, else RP_E_ARG. RP_OK for an adapter that does not name
 * its base. */
RP_NODISCARD RpStatus rp_adapter_compare_base(const RpModel *m, const RpGgufFile *adapter, const uint64_t *sums);

/* The first vector of the model whose values differ from the adapter's base; NULL: there is none, or the adapter does
 * not name its base. Quantisation keeps vectors (norms, biases) in f32, so they distinguish models of one shape. */
const RpGgufTensor *rp_adapter_other_vector(const RpModel *m, const RpGgufFile *adapter);

void rp_model_free_adapters(RpModel *m);

#endif
