/* The instruction set in use: the best one available, or the one that REPRISE_ISA names. Detected at the first call
 * and kept in one atomic word. */
#include "base/kernels.h"

#include "fallback/simd/simd.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static const char *const names[RP_ISA_COUNT] = {[RP_ISA_PLAIN]        = "plain",
                                                [RP_ISA_AVX2]         = "avx2",
                                                [RP_ISA_AVX512_VNNI]  = "avx512-vnni",
                                                [RP_ISA_NEON]         = "neon",
                                                [RP_ISA_NEON_DOTPROD] = "neon-dotprod"};

static atomic_int in_use = -1;

const char *rp_cpu_isa_name(RpCpuIsa isa) { return (unsigned)isa < RP_ISA_COUNT ? names[isa] : "?"; }

static bool available(RpCpuIsa isa) {
    if (isa == RP_ISA_PLAIN) return true;
#ifdef RP_X86
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == RP_ISA_AVX2) return avx2;
    if (isa == RP_ISA_AVX512_VNNI)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
    if (isa == RP_ISA_NEON) return true;
#if defined(__linux__)
    if (isa == RP_ISA_NEON_DOTPROD) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
#endif
    return false;
}

/* Instruction sets are listed from least to best, so the last available one is the best. */
static RpCpuIsa best(void) {
    int isa = RP_ISA_COUNT - 1;
    while (!available((RpCpuIsa)isa)) isa--;
    return (RpCpuIsa)isa;
}

/* The instruction set that REPRISE_ISA asks for; *out is the best one if that fails. */
static RpStatus requested(RpCpuIsa *out) {
    const char *text = rp_option(RP_OPT_ISA);
    *out             = best();
    if (strcmp(text, "auto") == 0) return RP_OK;
    for (int i = 0; i < RP_ISA_COUNT; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        if (!available((RpCpuIsa)i))
            return rp_fail(RP_E_NOT_AVAILABLE, "%s=%s: this CPU or build does not have it; the best here is %s",
                           rp_option_name(RP_OPT_ISA), text, names[*out]);
        *out = (RpCpuIsa)i;
        return RP_OK;
    }
    return rp_fail(RP_E_ARG, "%s=%s: must be " RP_ISA_NAMES, rp_option_name(RP_OPT_ISA), text);
}

RpStatus rp_cpu_isa_check(void) {
    RpCpuIsa isa;
    return requested(&isa);
}

RpCpuIsa rp_cpu_isa(void) {
    const int now = atomic_load_explicit(&in_use, memory_order_relaxed);
    if (now >= 0) return (RpCpuIsa)now;
    RpCpuIsa isa;
    if (requested(&isa) != RP_OK) isa = best(); /* rp_cpu_isa_check reports this error */
    atomic_store_explicit(&in_use, (int)isa, memory_order_relaxed);
    return isa;
}

RpStatus rp_cpu_isa_set(RpCpuIsa isa) {
    if ((unsigned)isa >= RP_ISA_COUNT)
        return rp_fail(RP_E_ARG, "instruction set %d: must be from 0 to %d", (int)isa, RP_ISA_COUNT - 1);
    if (!available(isa)) return rp_fail(RP_E_NOT_AVAILABLE, "%s: this CPU or build does not have it", names[isa]);
    atomic_store(&in_use, (int)isa);
    return RP_OK;
}
