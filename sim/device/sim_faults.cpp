// sim_faults.cpp - entry of every API function: takes the mutex, counts the call, applies injected failures.
//
//     cudaError_t cudaX(...) {
//         SIM_CALL(SIM_NEEDS_DEVICE, stream);    an injected failure, a missing driver or a sticky error returns here
//         ...
//     }
//
// Functions that release something use SimCall directly: they do their work and return call.result(...).
#include "sim/device/sim_internal.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

struct Failure {
    std::string call;
    unsigned    left;
    cudaError_t with;
};
static std::vector<Failure> failures;
static unsigned             kernels_to_fault;
static cudaError_t          fault_with;
static std::string          kernel_to_hang, hanging_kernel; // what its name contains; the name of the latest one
static unsigned             kernels_to_hang;
static int                  depth; // of nested API calls; only the outermost is counted and can fail
static int                  driver_version = CUDART_VERSION;

cudaError_t sim_sticky;
int         sim_n_devices = 1;

std::recursive_mutex &sim_mutex(void) {
    static std::recursive_mutex m;
    return m;
}

// The error that this call must return, if it is the nth call of its name since sim_fail.
static cudaError_t injected(const char *name) {
    cudaError_t with = cudaSuccess;
    for (auto &f : failures)
        if (f.call == name && --f.left == 0) with = f.with;
    failures.erase(std::remove_if(failures.begin(), failures.end(), [](const Failure &f) { return f.left == 0; }),
                   failures.end());
    return with;
}
cudaError_t sim_driver_state(void) {
    if (driver_version / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
    return sim_n_devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

// In order: injected failure, driver and device, sticky error. Nested calls of the runtime pass.
SimCall::SimCall(const char *name, SimNeeds needs, cudaStream_t s) : error(cudaSuccess) {
    sim_mutex().lock();
    if (depth++ > 0) return;
    sim_st.api_calls++;
    error = injected(name);
    if (error == cudaSuccess && needs >= SIM_NEEDS_DRIVER) error = sim_driver_state();
    if (error == cudaSuccess && needs >= SIM_NEEDS_DEVICE) error = sim_sticky;
    if (error == cudaSuccess) return;
    if (s != nullptr && s != cudaStreamLegacy && s->cap) s->cap_bad = true;
    sim_last_err = error;
}
SimCall::~SimCall() {
    depth--;
    sim_mutex().unlock();
}

cudaError_t SimCall::result(cudaError_t e) const { return error != cudaSuccess ? error : e; }

cudaError_t sim_status(void) { return sim_sticky == cudaSuccess ? cudaSuccess : sim_err(sim_sticky); }

bool sim_kernel_faults(void) {
    if (sim_sticky == cudaSuccess && kernels_to_fault > 0 && --kernels_to_fault == 0) sim_sticky = fault_with;
    return sim_sticky != cudaSuccess;
}

bool sim_kernel_hangs(const SimLaunch &l) {
    if (kernels_to_hang == 0 || sim_running == nullptr || sim_sticky != cudaSuccess) return false;
    if (l.k->name.find(kernel_to_hang) == std::string::npos || --kernels_to_hang > 0) return false;
    hanging_kernel     = l.k->name;
    sim_running->hangs = true;
    return true;
}
// After the stream (null: any stream) has run as far as it can.
void sim_must_end(cudaStream_t s, const char *call) {
    for (auto x : sim_streams)
        if ((s == nullptr || s == x) && !x->q.empty() && sim_sticky == cudaSuccess)
            sim_report(true, "%s waits for ever for kernel %s, which hangs", call, hanging_kernel.c_str());
}
static const bool from_environment = [] {
    const char *value = getenv("SIM_HANG"), *name = value != nullptr ? strchr(value, ':') : nullptr;
    if (value != nullptr) sim_hang(name != nullptr ? name + 1 : nullptr, (unsigned)atoi(value));
    return value != nullptr;
}();

extern "C" {
void sim_hang(const char *kernel, unsigned nth) {
    kernel_to_hang  = kernel != nullptr ? kernel : "";
    kernels_to_hang = nth;
}
unsigned sim_hanging(void) {
    unsigned n = 0;
    for (auto s : sim_streams) n += s->hangs;
    return n;
}
void sim_release(void) {
    kernels_to_hang = 0;
    for (auto s : sim_streams) s->hangs = false;
}

void sim_fail(const char *call, unsigned nth, cudaError_t with) {
    if (nth > 0) failures.push_back({call, nth, with});
}
unsigned sim_fails_left(void) { return (unsigned)failures.size() + (kernels_to_fault > 0); }

void sim_fault(unsigned nth_kernel, cudaError_t with) {
    kernels_to_fault = nth_kernel;
    fault_with       = with;
}
void sim_reset_faults(void) {
    sim_release();
    if (sim_sticky != cudaSuccess) sim_drain_all();
    failures.clear();
    kernels_to_fault = 0;
    sim_sticky = sim_last_err = cudaSuccess;
}
void sim_driver(int version, int n_devices) {
    driver_version = version;
    sim_n_devices  = n_devices;
}
cudaError_t cudaDriverGetVersion(int *v) {
    SIM_CALL(SIM_NEEDS_NOTHING);
    *v = driver_version;
    return cudaSuccess;
}
}
