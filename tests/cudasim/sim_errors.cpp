// sim_errors.cpp - errors and counters.
#include "sim_internal.h"
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
void     sim_stats_reset(void) { /* but for what is allocated */
    const long live    = sim_st.live_allocs;
    sim_st             = SimStats{};
    sim_st.live_allocs = live;
}
void sim_sched(int policy, unsigned seed) { sim_set_sched(policy, seed); }
void sim_async(int l) { mode_lazy = l; }
}

// ---- errors ----
static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess,                        "cudaSuccess",                        "no error"                                },
    {cudaErrorInvalidValue,              "cudaErrorInvalidValue",              "invalid argument"                        },
    {cudaErrorMemoryAllocation,          "cudaErrorMemoryAllocation",          "out of memory"                           },
    {cudaErrorInitializationError,       "cudaErrorInitializationError",       "initialization error"                    },
    {cudaErrorInvalidConfiguration,      "cudaErrorInvalidConfiguration",      "invalid configuration argument"          },
    {cudaErrorInsufficientDriver,        "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"                                                      },
    {cudaErrorDevicesUnavailable,        "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"                                                                 },
    {cudaErrorInvalidDeviceFunction,     "cudaErrorInvalidDeviceFunction",     "invalid device function"                 },
    {cudaErrorNoDevice,                  "cudaErrorNoDevice",                  "no CUDA-capable device is detected"      },
    {cudaErrorInvalidDevice,             "cudaErrorInvalidDevice",             "invalid device ordinal"                  },
    {cudaErrorDeviceUninitialized,       "cudaErrorDeviceUninitialized",       "invalid device context"                  },
    {cudaErrorECCUncorrectable,          "cudaErrorECCUncorrectable",          "uncorrectable ECC error encountered"     },
    {cudaErrorIllegalState,              "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"                                                            },
    {cudaErrorInvalidResourceHandle,     "cudaErrorInvalidResourceHandle",     "invalid resource handle"                 },
    {cudaErrorNotReady,                  "cudaErrorNotReady",                  "device not ready"                        },
    {cudaErrorIllegalAddress,            "cudaErrorIllegalAddress",            "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources,      "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"                                                                           },
    {cudaErrorLaunchTimeout,             "cudaErrorLaunchTimeout",             "the launch timed out and was terminated" },
    {cudaErrorMisalignedAddress,         "cudaErrorMisalignedAddress",         "misaligned address"                      },
    {cudaErrorAssert,                    "cudaErrorAssert",                    "device-side assert triggered"            },
    {cudaErrorLaunchFailure,             "cudaErrorLaunchFailure",             "unspecified launch failure"              },
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"                                                                             },
    {cudaErrorNotPermitted,              "cudaErrorNotPermitted",              "operation not permitted"                 },
    {cudaErrorNotSupported,              "cudaErrorNotSupported",              "operation not supported"                 },
    {cudaErrorSystemNotReady,            "cudaErrorSystemNotReady",            "system not yet initialized"              },
    {cudaErrorSystemDriverMismatch,      "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination"                                                   },
    {cudaErrorStreamCaptureUnsupported,  "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"                                                                  },
    {cudaErrorStreamCaptureInvalidated,  "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"                                                           },
    {cudaErrorStreamCaptureMerge,        "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"                                                   },
    {cudaErrorStreamCaptureUnmatched,    "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"                                                              },
    {cudaErrorStreamCaptureUnjoined,     "cudaErrorStreamCaptureUnjoined",     "capturing stream has unjoined work"      },
    {cudaErrorStreamCaptureIsolation,    "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"                                                           },
    {cudaErrorStreamCaptureImplicit,     "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"                                      },
    {cudaErrorCapturedEvent,             "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"                                           },
    {cudaErrorStreamCaptureWrongThread,  "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"                                          },
    {cudaErrorTimeout,                   "cudaErrorTimeout",                   "wait operation timed out"                },
    {cudaErrorGraphExecUpdateFailure,    "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"                                                                                         },
    {cudaErrorSymbolNotFound,            "cudaErrorSymbolNotFound",            "named symbol not found"                  },
    {cudaErrorNoKernelImageForDevice,    "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"                                                          },
    {cudaErrorUnknown,                   "cudaErrorUnknown",                   "unknown error"                           },
};
extern "C" {
// A lost device's error stays.
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
