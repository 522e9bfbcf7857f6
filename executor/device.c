/* The choice of a device by name, and the free memory of each. A fallback to the CPU happens for "auto"
 * only and is reported with its reason (I10). */
#include "executor/device.h"
#include "executor/host_memory.h"

#include "base/argument.h"

#include "base/sized.h"
#include "reprise/device.h"
#include "reprise/options.h"

#include <stdlib.h>
#include <string.h>

static bool is_cuda(const char *name, int *index) {
    char *end = NULL;
    *index    = 0;
    if (strcmp(name, "cuda") == 0) return true;
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
    *index = (int)strtol(name + 5, &end, 10);
    return *end == '\0' && *index >= 0 && *index < 1024;
}

int rp_device_index(const char *name) {
    int index;
    (void)is_cuda(name, &index);
    return index;
}

/* Whether kernels can run there, before weights are copied. */
static RpStatus check_device(int index) {
    RpCudaDeviceInfo info;
    char             text[256];
    const RpStatus   st = rp_cuda_device_info(index, &info);
    if (st == RP_OK && info.has_code) return RP_OK;
    if (st == RP_OK)
        return rp_fail(RP_E_NOT_AVAILABLE, "cuda:%d: this build has no code for %s of compute capability %d.%d", index,
                       info.name, info.major, info.minor);
    snprintf(text, sizeof text, "%s", rp_last_error());
    return rp_fail(st, "cuda:%d: %s", index, text);
}

RpStatus rp_device_choose(const char *name, bool require_cuda, DeviceChoice *out) {
    int        index, n_devices;
    const bool given = name != NULL;
    *out             = (DeviceChoice){.name = given ? name : rp_option(RP_OPT_DEVICE)};
    const char *from = given ? "device" : rp_option_name(RP_OPT_DEVICE);
    if (strcmp(out->name, "cpu") == 0)
        return require_cuda ? rp_fail(RP_E_ARG, "%s 'cpu', and CUDA is required", from) : RP_OK;
    const bool named = is_cuda(out->name, &index);
    if (!named && strcmp(out->name, "auto") != 0)
        return rp_fail(RP_E_ARG, "%s '%s': must be auto, cpu, cuda or cuda:N", from, out->name);
    RpStatus st = rp_cuda_probe(&n_devices);
    if (st == RP_OK && index >= n_devices)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s '%s': there are %d CUDA devices", from, out->name, n_devices);
    if (st == RP_OK) st = check_device(index);
    if (st == RP_OK) {
        out->cuda = true;
        return RP_OK;
    }
    if (named || require_cuda) return st;
    strncpy(out->reason, rp_last_error(), sizeof out->reason - 1);
    out->fell_back = rp_cuda_built;
    return RP_OK;
}

static RpStatus device_memory(const char *device, bool require_cuda, RpDeviceMemory *out) {
    DeviceChoice     choice;
    RpCudaDeviceInfo info;
    *out = (RpDeviceMemory){.id = "cpu"};
    RP_TRY(rp_device_choose(device, require_cuda, &choice));
    if (!choice.cuda) {
        out->free_bytes = rp_host_memory_free();
        return RP_OK;
    }
    const int index = rp_device_index(choice.name);
    RP_TRY(rp_cuda_device_info(index, &info));
    snprintf(out->id, sizeof out->id, "cuda:%d", index);
    out->index      = index;
    out->is_own     = true;
    out->free_bytes = info.free_bytes > RP_DEVICE_MARGIN ? info.free_bytes - RP_DEVICE_MARGIN : 0;
    return RP_OK;
}

RpStatus rp_device_memory_sized(const char *device, bool require_cuda, RpDeviceMemory *out, size_t out_bytes) {
    RP_NOT_NULL(out, "out");

    RpDeviceMemory m;
    const RpStatus st = device_memory(device, require_cuda, &m);
    rp_sized_out(out, out_bytes, &m, sizeof m);
    return st;
}
