/* weights.cuh - every type of block-quantised weights, and dispatch over them. */
#ifndef KERNELS_DEVICE_WEIGHTS_CUH
#define KERNELS_DEVICE_WEIGHTS_CUH

#include "kernels/device/quants/iq1.cuh"
#include "kernels/device/quants/iq2.cuh"
#include "kernels/device/quants/iq3.cuh"
#include "kernels/device/quants/iq4.cuh"
#include "kernels/device/quants/mxfp4.cuh"
#include "kernels/device/quants/nvfp4.cuh"
#include "kernels/device/quants/q1_0.cuh"
#include "kernels/device/quants/q2_0.cuh"
#include "kernels/device/quants/q2_k.cuh"
#include "kernels/device/quants/q3_k.cuh"
#include "kernels/device/quants/q4.cuh"
#include "kernels/device/quants/q4_k_q5_k.cuh"
#include "kernels/device/quants/q5.cuh"
#include "kernels/device/quants/q6_k.cuh"
#include "kernels/device/quants/q8_0.cuh"
#include "kernels/device/quants/tq1_0.cuh"
#include "kernels/device/quants/tq2_0.cuh"

/* Each type in turn: that it has a Blocks, and what the GEMV assumes of it. */
#define X(ID, name, sub, offset, has_min, ...)                                                                         \
    static_assert((int)Blocks<RP_##ID>::RUNS * RP_RUN == (int)QuantType<RP_##ID>::FRAG,                                \
                  #name ": a block of 32 is a fragment, a block of 256 is four");                                      \
    static_assert((bool)Blocks<RP_##ID>::SUB_SCALES == ((sub) == RP_SUM_BLOCK),                                        \
                  #name ": sub-blocks of 16 have scales of their own");                                                \
    static_assert(Blocks<RP_##ID>::HAS_MIN || !(has_min), #name ": the GEMV must add its minima");
RP_QUANTS(X)
#undef X

/* Calls f<T>(...) for a quantised type given at run time; RP_E_DTYPE for others (I12). */
#define RP_FOR_QUANT(type, f, ...) rp_for_quant(type, [&](auto quant) { return f<decltype(quant)::TYPE>(__VA_ARGS__); })

template <class F> static inline RpStatus rp_for_quant(RpDtype type, const F &f) {
    switch (type) {
#define X(ID, ...)                                                                                                     \
    case RP_##ID:                                                                                                      \
        return f(QuantType<RP_##ID>());
        RP_QUANTS(X)
#undef X
    default:
        return rp_fail(RP_E_DTYPE, "no kernel for %s", rp_dtype_name(type));
    }
}

#endif
