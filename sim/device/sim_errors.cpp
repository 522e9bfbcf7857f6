// sim_errors.cpp - error codes with their names and texts, the last error, and counters.
#include "sim/device/sim_internal.h"
#include <cstdio>
#include <cstdlib>

SimStats    sim_st;
cudaError_t sim_last_err;
static int  mode_lazy = -1;

bool sim_lazy(void) {
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
void     sim_stats_reset(void) { /* the allocations still exist: they stay counted */
    const long live = sim_st.live_allocs, libraries = sim_st.live_libraries, streams = sim_st.live_streams;
    sim_st                = SimStats{};
    sim_st.live_allocs    = live;
    sim_st.live_libraries = libraries;
    sim_st.live_streams   = streams;
}
void sim_sched(int policy, unsigned seed) { sim_set_sched(policy, seed); }
void sim_async(int l) { mode_lazy = l; }
}

// ---- errors ----
static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define E(name, text)                                                                                                  \
    { cudaError##name, "cudaError" #name, text }
    {cudaSuccess, "cudaSuccess", "no error"},
    E(InvalidValue, "invalid argument"),
    E(MemoryAllocation, "out of memory"),
    E(InitializationError, "initialization error"),
    E(InvalidConfiguration, "invalid configuration argument"),
    E(InsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    E(DevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    E(InvalidDeviceFunction, "invalid device function"),
    E(NoDevice, "no CUDA-capable device is detected"),
    E(InvalidDevice, "invalid device ordinal"),
    E(DeviceUninitialized, "invalid device context"),
    E(ECCUncorrectable, "uncorrectable ECC error encountered"),
    E(IllegalState, "the operation cannot be performed in the present state"),
    E(InvalidResourceHandle, "invalid resource handle"),
    E(NotReady, "device not ready"),
    E(IllegalAddress, "an illegal memory access was encountered"),
    E(LaunchOutOfResources, "too many resources requested for launch"),
    E(LaunchTimeout, "the launch timed out and was terminated"),
    E(MisalignedAddress, "misaligned address"),
    E(Assert, "device-side assert triggered"),
    E(LaunchFailure, "unspecified launch failure"),
    E(CooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    E(NotPermitted, "operation not permitted"),
    E(NotSupported, "operation not supported"),
    E(SystemNotReady, "system not yet initialized"),
    E(SystemDriverMismatch, "system has unsupported display driver / cuda driver combination"),
    E(StreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    E(StreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    E(StreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    E(StreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    E(StreamCaptureUnjoined, "capturing stream has unjoined work"),
    E(StreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    E(StreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    E(CapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    E(StreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    E(Timeout, "wait operation timed out"),
    E(GraphExecUpdateFailure, "the graph update was not performed because it included changes which violated "
                              "constraints specific to instantiated graph update"),
    E(SymbolNotFound, "named symbol not found"),
    E(NoKernelImageForDevice, "no kernel image is available for execution on the device"),
    E(InvalidPtx, "a PTX JIT compilation failed"),
    E(Unknown, "unknown error"),
#undef E
};

extern "C" {
// Clears the last error, but not a sticky one.
cudaError_t cudaGetLastError(void) {
    SIM_CALL(SIM_NEEDS_NOTHING);
    auto e       = sim_sticky != cudaSuccess ? sim_sticky : sim_last_err;
    sim_last_err = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void) {
    SIM_CALL(SIM_NEEDS_NOTHING);
    return sim_sticky != cudaSuccess ? sim_sticky : sim_last_err;
}
const char *cudaGetErrorName(cudaError_t e) {
    for (auto &row : errors)
        if (row.error == e) return row.name;
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t e) {
    for (auto &row : errors)
        if (row.error == e) return row.text;
    return "unrecognized error code";
}
}
