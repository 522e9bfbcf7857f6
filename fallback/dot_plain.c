#include "fallback/dot.h"

#include <math.h>

void rp_dot_plain(const uint8_t *q, const float *scale, const float *min, int64_t n, const DotColumn *cols,
                  int n_cols, DotSums *sums) {
    for (int c = 0; c < n_cols; c++)
        for (int64_t i = 0; i < n; i += 4) {
            const int64_t group = i / RP_GROUP;
            const int     lane  = (int)(i % RP_SPAN) / 4;
            int32_t       dot   = 0;
            for (int k = 0; k < 4; k++) dot += (int32_t)q[i + k] * cols[c].q[i + k];
            sums[c].acc[lane] = fmaf(scale[group] * cols[c].scale[i / 32], (float)dot, sums[c].acc[lane]);
            if (i % RP_GROUP != 0) continue;
            float *low = &sums[c].low[group % RP_SPAN_GROUPS];
            *low       = fmaf(min[group], cols[c].sum[group], *low);
        }
}

static float tree(float *v, int n) {
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) v[i] += v[i + n / 2];
    return v[0];
}

void rp_dot_results_plain(const DotSums *sums, int n_cols, float *y) {
    for (int c = 0; c < n_cols; c++) {
        DotSums copy = sums[c];
        y[c]         = tree(copy.acc, RP_LANES) + tree(copy.low, RP_SPAN_GROUPS);
    }
}

DotResults *rp_dot_results_function(void) {
#if defined(__x86_64__)
    if (rp_cpu_isa() != RP_ISA_PLAIN) return rp_dot_results_avx2;
#endif
    return rp_dot_results_plain;
}

DotFunction *rp_dot_function(void) {
#if defined(__x86_64__)
    const CpuIsa isa = rp_cpu_isa();
    if (isa == RP_ISA_AVX512_VNNI) return rp_dot_avx512;
    if (isa == RP_ISA_AVX2) return rp_dot_avx2;
#endif
    return rp_dot_plain;
}

GemvFunction *rp_gemv_function(RpDtype dtype) {
    (void)dtype;
#if defined(__x86_64__)
    if (rp_cpu_isa() == RP_ISA_AVX512_VNNI) return rp_gemv_avx512(dtype);
#endif
    return NULL;
}
