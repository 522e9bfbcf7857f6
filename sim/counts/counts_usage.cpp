// counts_usage.cpp - registers and shared memory of a kernel, from ptxas, and how many of its blocks an SM holds.
#include "sim/counts/counts.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#ifndef PTX_PTXAS
#define PTX_PTXAS "ptxas"
#endif

namespace ptx {
// ptxas prints "Used 77 registers, used 1 barriers, 272 bytes smem".
Usage usage_of(const string &ptx_file, const string &entry, unsigned architecture) {
    const string command = string(PTX_PTXAS " -v -arch=sm_") + std::to_string(architecture) + " -e " + entry + " " +
                           ptx_file + " -o /dev/null 2>&1";
    Usage u;
    char  line[4096];
    FILE *f = popen(command.c_str(), "r");
    while (f != nullptr && fgets(line, sizeof line, f) != nullptr) {
        const char *used = strstr(line, "Used "), *shared = strstr(line, " bytes smem");
        if (used == nullptr || sscanf(used, "Used %u registers", &u.registers) != 1) continue;
        while (shared != nullptr && shared > line && shared[-1] >= '0' && shared[-1] <= '9') shared--;
        if (shared != nullptr) sscanf(shared, "%u", &u.shared_bytes);
    }
    if (f != nullptr) pclose(f);
    return u;
}

// Compute capability 9.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"): 64 warps,
// 32 blocks, 65,536 registers and 228 KiB of shared memory an SM. A warp takes registers in units of 256, and four
// schedulers share the warps evenly; a block takes shared memory in units of 128 bytes and 1 KiB for the system.
//
//     warps by registers = floor4(65536 / ceil256(32 * registers))
//     blocks             = min(32, 64 / w, warps by registers / w, 228 KiB / (ceil128(shared) + 1 KiB))
unsigned blocks_per_sm(unsigned threads, unsigned registers, unsigned shared_bytes) {
    const unsigned warps = (threads + 31) / 32, each = std::max(1u, (32 * registers + 255) / 256 * 256);
    const unsigned by_registers = 65536 / each / 4 * 4 / warps;
    const unsigned by_shared    = 228 * 1024 / ((shared_bytes + 127) / 128 * 128 + 1024);
    return std::min({32u, 64 / warps, by_registers, by_shared});
}
} // namespace ptx
