/* adapter.h - LoRA (Hu et al. 2021, arXiv:2106.09685): y = w x + scale * b (a x) for matrices w [n,m] of a
 * model, with a [n,rank] and b [rank,m]. In the files of llama.cpp scale is the user's factor * alpha / rank. */
#ifndef MODEL_ADAPTER_H
#define MODEL_ADAPTER_H

#include "reprise/gguf.h"
#include "reprise/model.h"

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

void rp_model_free_adapters(RpModel *m);

#endif
