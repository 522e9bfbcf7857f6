/* gpus.c - data sheets: one row a GPU. docs/gpu-model.md names the sources. */
#include "cli/predict/predict.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
const Gpu cli_gpus[] = {
/*   name         title               SMs warps blocks KB   int float double   GHz    GB/s     ns  L2 ns    f16     s8
 *
 * The last two columns: mma_share, pdl. */
    {"a100",      "A100 SXM 80 GB",   108, 64,  32,   164,  64,   64,   32,  1.410, 2039.0, 330.0, 185.0, 312.0,  624.0, 1.00, false},
    {"h100",      "H100 SXM",         132, 64,  32,   228,  64,  128,   64,  1.980, 3350.0, 273.0, 150.0, 989.4, 1978.9, 0.63, true },
    {"h100-pcie", "H100 PCIe",        114, 64,  32,   228,  64,  128,   64,  1.755, 2039.0, 273.0, 150.0, 756.5, 1513.0, 0.63, true },
    {"h200",      "H200 SXM",         132, 64,  32,   228,  64,  128,   64,  1.980, 4800.0, 273.0, 150.0, 989.4, 1978.9, 0.63, true },
    {"4090",      "GeForce RTX 4090", 128, 48,  24,   100,  64,  128,    2,  2.520, 1008.0, 215.0, 108.0, 165.2,  660.6, 1.00, false},
    {"5090",      "GeForce RTX 5090", 170, 48,  24,   100, 128,  128,    2,  2.407, 1792.0, 335.0, 149.0, 209.5,  838.0, 1.00, true },
};
/* clang-format on */
const int cli_n_gpus = sizeof cli_gpus / sizeof cli_gpus[0];

RpStatus cli_gpu_find(const char *name, const Gpu **out) {
    char   known[128];
    size_t n = 0;
    for (int i = 0; i < cli_n_gpus; i++) {
        if (strcmp(name, cli_gpus[i].name) == 0) {
            *out = &cli_gpus[i];
            return RP_OK;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", cli_gpus[i].name);
    }
    return rp_fail(RP_E_ARG, "no data sheet of GPU '%s'; known are %s", name, known);
}
