// sim_bits.cpp - a log of what kernels computed, to compare two runs of a suite bit by bit (tests/sim/ptx/bits.sh).
// With SIM_BITS=FILE each copy from the device appends a line: a hash of its bytes, then the kernels since the copy
// before, each with the instructions of its PTX whose results the host may round otherwise:
//
//     host    8c1f3a90d2e4b657 rms_norm_kernel
//     PTX     51d8e2f06a7c9b34 rms_norm_kernel|fma,rsqrt.approx
#include "sim/device/sim_internal.h"
#include <cstdlib>

static const char *path(void) {
    static const char *p = getenv("SIM_BITS");
    return p;
}
bool                          sim_bits_on(void) { return path() != nullptr; }
static std::set<std::string> &kernels(void) {
    static std::set<std::string> s;
    return s;
}
// The name without template arguments. instructions: their names between commas, empty from the host.
void sim_bits_kernel(const std::string &name, const std::string &instructions) {
    if (!sim_bits_on()) return;
    const size_t      from = name.find_first_not_of("( ");
    const std::string base = name.substr(from, name.find_first_of("<() ", from) - from);
    kernels().insert(instructions.empty() ? base : base + "|" + instructions);
}
void sim_bits_copy(const void *p, size_t n) {
    if (!sim_bits_on()) return;
    uint64_t hash = 14695981039346656037ull; // FNV-1a
    for (size_t i = 0; i < n; i++) hash = (hash ^ ((const unsigned char *)p)[i]) * 1099511628211ull;
    FILE *f = fopen(path(), "a");
    if (f == nullptr) return;
    fprintf(f, "%016llx", (unsigned long long)hash);
    for (auto &k : kernels()) fprintf(f, " %s", k.c_str());
    fputc('\n', f);
    fclose(f);
    kernels().clear();
}
