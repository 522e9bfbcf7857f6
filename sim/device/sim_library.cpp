// sim_library.cpp - libraries of kernels that a program loads at run time. They are PTX, run by the interpreter of
// sim/ptx; a cubin is code for another device. The handle of a kernel takes the place of a host function in launches.
#include "sim/device/sim_internal.h"
#include <cstring>

struct CUlib_st {
    void                     *module;
    std::vector<const void *> kernels;
};
static std::set<cudaLibrary_t> libraries;

extern "C" {
cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, cudaJitOption *, void **, unsigned,
                                cudaLibraryOption *, void **, unsigned) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (memcmp(code, "\177ELF", 4) == 0) return sim_err(cudaErrorNoKernelImageForDevice);
#ifdef SIM_PTX
    if (strstr((const char *)code, ".version") == nullptr) return sim_err(cudaErrorInvalidPtx, "no PTX");
    *out = new CUlib_st{sim_ptx_open((const char *)code), {}};
    libraries.insert(*out);
    sim_st.live_libraries++;
    return cudaSuccess;
#else
    (void)out;
    return sim_err(cudaErrorNotSupported, "this build has no interpreter of PTX (RP_PTX)");
#endif
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library, const char *name) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (libraries.count(library) == 0) return sim_err(cudaErrorInvalidResourceHandle, "not a library");
#ifdef SIM_PTX
    SimKernelInfo k{};
    if (!sim_ptx_kernel(library->module, name, k)) return sim_err(cudaErrorSymbolNotFound, name);
    if (sim_find_kernel(k.fn) == nullptr) {
        sim_add_kernel(k);
        library->kernels.push_back(k.fn);
    }
    *out = (cudaKernel_t) const_cast<void *>(k.fn);
#else
    (void)out, (void)name;
#endif
    return cudaSuccess;
}
// Its kernels can no longer be launched: captured nodes must be gone.
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    if (libraries.erase(library) == 0) return call.result(sim_err(cudaErrorInvalidResourceHandle, "not a library"));
    sim_drain_all();
    for (auto k : library->kernels) sim_remove_kernel(k);
#ifdef SIM_PTX
    sim_ptx_close(library->module);
#endif
    delete library;
    sim_st.live_libraries--;
    return call.result(cudaSuccess);
}
}
