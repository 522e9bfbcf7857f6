/* The functions of nn.h for CUDA in a build without the CUDA toolkit: all fail with RP_E_NOT_AVAILABLE. */
#include "nn/call.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

RpStatus rp_nn_cuda_check(void) { return rp_fail(RP_E_NOT_AVAILABLE, "this build was made without the CUDA toolkit"); }

RpStatus rp_nn_run_cuda(void *stream, TensorOp op, const RpOpArgs *args, NnMemory memory) { return rp_nn_cuda_check(); }

RpStatus rp_nn_memory_cuda(TensorOp op, const RpOpArgs *args, size_t *bytes) { return rp_nn_cuda_check(); }

#define F(name, parameters, names)                                                                                     \
    RpStatus rp_nn_call_##name parameters { return rp_nn_cuda_check(); }
RP_NN_DEVICE_FUNCTIONS(F)
#undef F
