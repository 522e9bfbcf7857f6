// sim_launch.cpp - kernel launches, their limits, attributes and occupancy. The limits are those of an H100 (sm_90):
// 1024 threads a block, 227 KiB of dynamic shared memory, 2048 threads and 32 blocks an SM.
#include "sim/device/sim_internal.h"

// Occupancy: resident blocks per SM, limited by threads (whole warps), by block slots, and by shared memory, of which
// each block takes 1 KiB for the system. Registers are not known here.
static unsigned long blocks_per_sm(unsigned long threads, size_t smem) {
    unsigned long n = 2048 / ((threads + 31) / 32 * 32);
    if (n > 32) n = 32;
    if (smem > 0 && 228 * 1024 / (smem + 1024) < n) n = 228 * 1024 / (smem + 1024);
    return n;
}
static int max_dyn_smem(const SimKernelInfo &k) { return k.allowed_smem > 0 ? k.allowed_smem : 48 * 1024; }
// Limits of block, grid and shared memory; a cooperative launch must fit on the device at once.
cudaError_t sim_check_launch(const SimLaunch &l) {
    unsigned long nt = (unsigned long)l.block.x * l.block.y * l.block.z;
    if (!nt || nt > 1024 || l.block.z > 64 || !l.grid.x || !l.grid.y || !l.grid.z || l.grid.y > 65535 ||
        l.grid.z > 65535 || l.grid.x > 0x7fffffff)
        return sim_err(cudaErrorInvalidConfiguration, l.k->name.c_str());
    if ((int)l.smem > max_dyn_smem(*l.k))
        return sim_err(cudaErrorInvalidValue,
                       (l.k->name + ": dynamic shared memory over the limit; cudaFuncSetAttribute needed").c_str());
    if (l.coop) {
        if ((unsigned long)l.grid.x * l.grid.y * l.grid.z > SIM_SMS * blocks_per_sm(nt, l.smem))
            return sim_err(cudaErrorCooperativeLaunchTooLarge, l.k->name.c_str());
    }
    return cudaSuccess;
}
// Fills in a launch; false if the kernel was never registered.
bool sim_make_launch(SimLaunch &l, const void *f, dim3 g, dim3 b, void **args, size_t smem) {
    l.k = sim_find_kernel(f);
    if (!l.k) {
        sim_err(cudaErrorInvalidDeviceFunction, "kernel not registered (RP_KERNEL)");
        return false;
    }
    l.grid  = g;
    l.block = b;
    l.smem  = (unsigned)smem;
    l.set_args(args);
    return true;
}

struct KernelCode {
    std::string name;
    int         ptx, binary;
};
static std::vector<KernelCode> kernel_code; // of sim_kernel_code; the last one that fits counts

extern "C" void sim_kernel_code(const char *name, int ptx, int binary) {
    kernel_code.push_back({name != nullptr ? name : "", ptx, binary});
}

static bool     without_code;
extern "C" void sim_no_code(int none) { without_code = none != 0; }

static bool     sim_no_pdl;
extern "C" void sim_refuse_pdl(int refuse) { sim_no_pdl = refuse != 0; }

// Queues the launch, or adds it to the capture. A launch that fails invalidates the capture of its stream.
static cudaError_t launch(cudaStream_t s, SimLaunch l, bool made) {
    s             = sim_stream(s);
    cudaError_t e = made ? sim_check_launch(l) : sim_last_err;
    if (e != cudaSuccess) {
        s->cap_bad |= s->cap;
        return e;
    }
    if (without_code) return sim_err(cudaErrorNoKernelImageForDevice, l.k->name.c_str());
    sim_st.launch_calls++;
    if (s == &sim_null_stream) {
        e = sim_no_capture("launch on the legacy stream while another stream captures", cudaErrorStreamCaptureImplicit);
        if (e != cudaSuccess) return e;
    }
    if (s->cap) {
        sim_cap_add(s, cudaGraphNodeTypeKernel)->k = l;
        return cudaSuccess;
    }
    auto p = std::make_shared<SimLaunch>(l);
    sim_enqueue(s, [p](bool) {
        if (sim_kernel_hangs(*p)) return false;
        sim_do_kernel(*p);
        return true;
    });
    return cudaSuccess;
}

extern "C" {
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **a) {
    SIM_CALL(SIM_NEEDS_DEVICE, c->stream);
    SimLaunch l;
    bool      made = sim_make_launch(l, f, c->gridDim, c->blockDim, a, c->dynamicSmemBytes);
    for (unsigned i = 0; i < c->numAttrs; i++) switch (c->attrs[i].id) {
        case cudaLaunchAttributeCooperative:
            l.coop = c->attrs[i].val.cooperative;
            break;
        case cudaLaunchAttributeProgrammaticStreamSerialization:
            l.pdl = c->attrs[i].val.programmaticStreamSerializationAllowed;
            if (l.pdl && sim_no_pdl) made = (sim_err(cudaErrorNotSupported, "PDL launches are refused"), false);
            if (l.pdl) sim_st.pdl_launches++;
            break;
        default:
            sim_err(cudaErrorNotSupported, "launch attribute not simulated");
            made = false;
        }
    return launch(c->stream, l, made);
}
cudaError_t cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **a, size_t sm, cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    SimLaunch  l;
    const bool made = sim_make_launch(l, f, g, b, a, sm);
    return launch(s, l, made);
}
cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 g, dim3 b, void **a, size_t sm, cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    SimLaunch  l;
    const bool made = sim_make_launch(l, f, g, b, a, sm);
    l.coop          = true;
    return launch(s, l, made);
}

// ---- attributes ----
cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute a, int v) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    auto k = sim_find_kernel(f);
    if (!k) return sim_err(cudaErrorInvalidDeviceFunction);
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (v > 227 * 1024) return sim_err(cudaErrorInvalidValue, "more than 227 KiB of shared memory");
        k->allowed_smem = v;
    }
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *f) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    auto k = sim_find_kernel(f);
    if (!k) return sim_err(cudaErrorInvalidDeviceFunction);
    if (without_code) return sim_err(cudaErrorNoKernelImageForDevice, k->name.c_str());
    *a                    = cudaFuncAttributes{};
    a->maxThreadsPerBlock = k->max_threads;
    a->numRegs            = 32;
    a->ptxVersion         = 90;
    a->binaryVersion      = 90;
    // 48 KiB without the static part, which is known only when the kernel runs. It is assumed to have 16 KiB.
    a->maxDynamicSharedSizeBytes = k->allowed_smem > 0 ? k->allowed_smem : 32 * 1024;
    for (auto &c : kernel_code)
        if (k->name.find(c.name) != std::string::npos) a->ptxVersion = c.ptx, a->binaryVersion = c.binary;
    return cudaSuccess;
}
cudaError_t cudaFuncGetName(const char **name, const void *f) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    auto k = sim_find_kernel(f);
    if (!k) return sim_err(cudaErrorInvalidDeviceFunction);
    *name = k->name.c_str();
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int threads, size_t smem) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (!sim_find_kernel(f)) return sim_err(cudaErrorInvalidDeviceFunction);
    if (threads <= 0 || threads > 1024) return sim_err(cudaErrorInvalidValue, "threads of a block");
    *n = (int)blocks_per_sm((unsigned long)threads, smem);
    return cudaSuccess;
}
}
