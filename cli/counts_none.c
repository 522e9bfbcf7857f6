/* counts_none.c - `reprise bench counts` in a program without the interpreter of kernels. */
#include "cli/counts.h"

RpStatus cli_counts_available(void) {
    return rp_fail(RP_E_NOT_AVAILABLE,
                   "this program cannot count instructions: build/tests/cudasim_reprise can, which a build "
                   "with tests and "
                   "the CUDA toolkit (nvcc) makes: cmake --build build --target cudasim_reprise");
}

RpStatus cli_counts_run(const RpModel *m, const CountsArgs *args) {
    (void)m;
    (void)args;
    return cli_counts_available();
}
