// sim_errors.cpp - errors, counters and the properties of the simulated device.
#include "sim_internal.h"
#include <cstdio>
#include <cstdlib>

SimStats    sim_st;
cudaError_t sim_last_err;
static int  mode_lazy = -1;
bool        sim_lazy(void) {
           if (mode_lazy < 0) {
               const char *e = getenv("SIM_ASYNC");
               mode_lazy     = !e || std::string(e) != "eager";
    }
           return mode_lazy;
}
cudaError_t sim_err(cudaError_t e, const char *why) {
    if (e != cudaSuccess) {
        sim_last_err = e;
        if (why && !getenv("SIM_QUIET")) fprintf(stderr, "cudasim: %s: %s\n", cudaGetErrorName(e), why);
    }
    return e;
}
extern "C" {
SimStats sim_stats(void) { return sim_st; }
void     sim_stats_reset(void) { /* but for what is allocated */
    const long live    = sim_st.live_allocs;
    sim_st             = SimStats{};
    sim_st.live_allocs = live;
}
void sim_sched(int policy, unsigned seed) { sim_set_sched(policy, seed); }
void sim_async(int l) { mode_lazy = l; }
}

// ---- device, errors ----
extern "C" {
cudaError_t cudaGetLastError(void) {
    auto e       = sim_last_err;
    sim_last_err = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void) { return sim_last_err; }
const char *cudaGetErrorName(cudaError_t e) {
#define N(x)                                                                                                 \
    case x:                                                                                                  \
        return #x;
    switch (e) {
        N(cudaSuccess)
        N(cudaErrorInvalidValue)
        N(cudaErrorMemoryAllocation) N(cudaErrorInvalidConfiguration) N(cudaErrorInvalidDeviceFunction)
            N(cudaErrorNotReady) N(cudaErrorNotSupported) N(cudaErrorIllegalState)
                N(cudaErrorStreamCaptureUnsupported) N(cudaErrorStreamCaptureInvalidated)
                    N(cudaErrorStreamCaptureMerge) N(cudaErrorStreamCaptureUnjoined)
                        N(cudaErrorStreamCaptureIsolation) N(cudaErrorCooperativeLaunchTooLarge)
                            N(cudaErrorGraphExecUpdateFailure) default : return "cudaError?";
    }
}
const char *cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }
cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int d) { return d ? sim_err(cudaErrorInvalidValue) : cudaSuccess; }
cudaError_t cudaGetDevice(int *d) {
    *d = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int) {
    switch (a) {
    case cudaDevAttrMultiProcessorCount:
        *v = 132;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *v = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *v = 0;
        break;
    case cudaDevAttrCooperativeLaunch:
        *v = 1;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *v = 227 * 1024;
        break;
    case cudaDevAttrWarpSize:
        *v = 32;
        break;
    default:
        return sim_err(cudaErrorInvalidValue, "device attribute not simulated");
    }
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t) {
    *f = *t = (size_t)1 << 34;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *v) {
    *v = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v) {
    *v = CUDART_VERSION;
    return cudaSuccess;
}
}
