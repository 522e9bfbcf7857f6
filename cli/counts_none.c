/* counts_none.c - `reprise-sim bench counts` in a program without the interpreter of kernels. */
#include "cli/counts.h"

RpStatus cli_counts_available(void) {
    return rp_fail(RP_E_NOT_AVAILABLE,
                   "this program cannot count instructions: it has no interpreter of PTX. Where nvcc is installed, "
                   "`cmake -B build -DRP_SIM=ON && cmake --build build --target reprise_sim` makes a program that "
                   "has it, build/reprise-sim");
}

RpStatus cli_counts_run(const RpModel *m, const CountsArgs *args) {
    (void)m;
    (void)args;
    return cli_counts_available();
}
