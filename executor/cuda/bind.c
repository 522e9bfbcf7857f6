/* Addresses after other states or weights were bound, in the arguments and in captured nodes. */
#include "executor/cuda/cuda.h"

RpStatus rp_cuda_update_addresses(CudaExecutor *c) {
    if (!c->stale) return RP_OK;
    RP_TRY(rp_executor_fill_args(&c->base, rp_cuda_weight));
    if (c->exec != NULL) RP_TRY(rp_cuda_repoint(c));
    c->stale = false;
    return RP_OK;
}
