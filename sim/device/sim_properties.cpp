// sim_properties.cpp - properties and attributes of the simulated device: those of an H100, with 16 GiB of memory.
#include "sim/device/sim_internal.h"
#include <cstdio>
#include <cstdlib>
#undef warpSize

static const char *name     = getenv("SIM_NAME");
static const char *l2_kb    = getenv("SIM_L2_KB");
static const int   l2_bytes = (l2_kb != nullptr ? atoi(l2_kb) : 50 << 10) << 10;

static struct {
    cudaDeviceAttr attribute;
    int            value;
} attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock,                1024                  },
    {cudaDevAttrMaxBlockDimX,                      1024                  },
    {cudaDevAttrMaxBlockDimY,                      1024                  },
    {cudaDevAttrMaxBlockDimZ,                      64                    },
    {cudaDevAttrMaxGridDimX,                       0x7fffffff            },
    {cudaDevAttrMaxGridDimY,                       65535                 },
    {cudaDevAttrMaxGridDimZ,                       65535                 },
    {cudaDevAttrMaxSharedMemoryPerBlock,           48 * 1024             },
    {cudaDevAttrMaxSharedMemoryPerBlockOptin,      227 * 1024            },
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor,  228 * 1024            },
    {cudaDevAttrReservedSharedMemoryPerBlock,      1024                  },
    {cudaDevAttrTotalConstantMemory,               64 * 1024             },
    {cudaDevAttrWarpSize,                          32                    },
    {cudaDevAttrMaxRegistersPerBlock,              65536                 },
    {cudaDevAttrMaxRegistersPerMultiprocessor,     65536                 },
    {cudaDevAttrMaxThreadsPerMultiProcessor,       2048                  },
    {cudaDevAttrMaxBlocksPerMultiprocessor,        32                    },
    {cudaDevAttrMultiProcessorCount,               SIM_SMS               },
    {cudaDevAttrCooperativeLaunch,                 1                     },
    {cudaDevAttrConcurrentKernels,                 1                     },
    {cudaDevAttrUnifiedAddressing,                 1                     },
    {cudaDevAttrCanMapHostMemory,                  1                     },
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1                     },
    {cudaDevAttrHostRegisterSupported,             1                     },
    {cudaDevAttrIntegrated,                        0                     },
    {cudaDevAttrManagedMemory,                     1                     },
    {cudaDevAttrConcurrentManagedAccess,           1                     },
    {cudaDevAttrPageableMemoryAccess,              0                     },
    {cudaDevAttrMemoryPoolsSupported,              0                     },
    {cudaDevAttrAsyncEngineCount,                  3                     },
    {cudaDevAttrEccEnabled,                        1                     },
    {cudaDevAttrL2CacheSize,                       l2_bytes              },
    {cudaDevAttrGlobalMemoryBusWidth,              0                     },
    {cudaDevAttrMaxPersistingL2CacheSize,          0                     },
    {cudaDevAttrClockRate,                         1755000               },
    {cudaDevAttrMemoryClockRate,                   2619000               },
    {cudaDevAttrKernelExecTimeout,                 0                     },
    {cudaDevAttrComputeMode,                       cudaComputeModeDefault},
    {cudaDevAttrPciBusId,                          1                     },
    {cudaDevAttrPciDeviceId,                       0                     },
    {cudaDevAttrPciDomainId,                       0                     },
    {cudaDevAttrClusterLaunch,                     0                     },
    {cudaDevAttrStreamPrioritiesSupported,         0                     },
};
static int current;

static cudaError_t no_device(int device) {
    return device < 0 || device >= sim_n_devices ? sim_err(cudaErrorInvalidDevice) : cudaSuccess;
}
static int from_environment = getenv("SIM_CAPABILITY") ? atoi(getenv("SIM_CAPABILITY")) : 90;
static int capability[2]    = {from_environment / 10, from_environment % 10};
bool       sim_has_pdl(void) { return capability[0] >= 9; }
static int attribute(cudaDeviceAttr a) {
    if (a == cudaDevAttrComputeCapabilityMajor) return capability[0];
    if (a == cudaDevAttrComputeCapabilityMinor) return capability[1];
    for (auto &row : attributes)
        if (row.attribute == a) return row.value;
    return 0;
}
static void set(cudaDeviceAttr a, int value) {
    for (auto &row : attributes)
        if (row.attribute == a) row.value = value;
}

extern "C" {
void sim_capability(int major, int minor) {
    capability[0] = major > 0 ? major : from_environment / 10;
    capability[1] = major > 0 ? minor : from_environment % 10;
}
void        sim_l2(size_t bytes) { set(cudaDevAttrL2CacheSize, (int)bytes); }
void        sim_memory_bus(int bits) { set(cudaDevAttrGlobalMemoryBusWidth, bits); }
cudaError_t cudaGetDeviceCount(int *n) {
    *n = 0;
    SIM_CALL(SIM_NEEDS_DRIVER);
    *n = sim_n_devices;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = no_device(device)) return e;
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    SIM_CALL(SIM_NEEDS_DRIVER);
    *device = current;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int device) {
    SIM_CALL(SIM_NEEDS_DRIVER);
    if (auto e = no_device(device)) return e;
    for (auto &row : attributes)
        if (row.attribute == a) {
            *v = row.value;
            return cudaSuccess;
        }
    return sim_err(cudaErrorInvalidValue, "device attribute not simulated");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    SIM_CALL(SIM_NEEDS_DRIVER);
    if (auto e = no_device(device)) return e;
    size_t free;
    *p = cudaDeviceProp{};
    snprintf(p->name, sizeof p->name, "%s", name != nullptr ? name : "simulated device");
    sim_memory_info(&free, &p->totalGlobalMem);
    p->major                       = attribute(cudaDevAttrComputeCapabilityMajor);
    p->minor                       = attribute(cudaDevAttrComputeCapabilityMinor);
    p->multiProcessorCount         = SIM_SMS;
    p->l2CacheSize                 = attribute(cudaDevAttrL2CacheSize);
    p->warpSize                    = 32;
    p->sharedMemPerBlock           = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    p->sharedMemPerBlockOptin      = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    p->sharedMemPerMultiprocessor  = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    p->reservedSharedMemPerBlock   = (size_t)attribute(cudaDevAttrReservedSharedMemoryPerBlock);
    p->totalConstMem               = (size_t)attribute(cudaDevAttrTotalConstantMemory);
    p->regsPerBlock                = attribute(cudaDevAttrMaxRegistersPerBlock);
    p->regsPerMultiprocessor       = attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
    p->maxThreadsPerBlock          = attribute(cudaDevAttrMaxThreadsPerBlock);
    p->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    p->maxBlocksPerMultiProcessor  = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
    p->memoryBusWidth              = attribute(cudaDevAttrGlobalMemoryBusWidth);
    p->asyncEngineCount            = attribute(cudaDevAttrAsyncEngineCount);
    p->ECCEnabled                  = attribute(cudaDevAttrEccEnabled);
    p->pciBusID                    = attribute(cudaDevAttrPciBusId);
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = attribute((cudaDeviceAttr)(cudaDevAttrMaxBlockDimX + i));
        p->maxGridSize[i]   = attribute((cudaDeviceAttr)(cudaDevAttrMaxGridDimX + i));
    }
    p->cooperativeLaunch = p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = 1;
    p->managedMemory = p->concurrentManagedAccess = p->hostRegisterSupported = 1;
    return cudaSuccess;
}
// Frees all memory and destroys all streams.
cudaError_t cudaDeviceReset(void) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    sim_drain_all();
    while (!sim_streams.empty()) cudaStreamDestroy(*sim_streams.begin());
    sim_free_all();
    return call.result(sim_status());
}
cudaError_t cudaRuntimeGetVersion(int *v) {
    SIM_CALL(SIM_NEEDS_NOTHING);
    *v = CUDART_VERSION;
    return cudaSuccess;
}
}
