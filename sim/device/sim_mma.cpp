// sim_mma.cpp - mma and ldmatrix, collectives of a whole warp. The lane that arrives last computes the results of all
// lanes (sim_warp.cpp); mma_tile.h says which elements a lane holds.
#include "sim/device/mma_tile.h"
#include "sim/device/sim_internal.h"

namespace {
// Arguments of a lane; a pointer to them is the operand of the collective.
struct LoadArgs {
    uint32_t *r;
    char      row[16];
};
void multiply(Warp *w, int kind) {
    mma::Lane lanes[32];
    for (int l = 0; l < 32; l++) lanes[l] = *(mma::Lane *)w->f[l]->val;
    mma::multiply({(mma::Type)kind, 16, kind == SIM_MMA_S8 ? 32 : 16}, lanes);
}
void load(Warp *w, int n, bool transposed) {
    const char *rows[32];
    for (int l = 0; l < 32; l++) rows[l] = ((LoadArgs *)w->f[l]->val)->row;
    for (int l = 0; l < 32; l++)
        for (int k = 0; k < n; k++) ((LoadArgs *)w->f[l]->val)->r[k] = mma::pair_of(rows + 8 * k, l, transposed);
}
} // namespace

void sim_tile_complete(Warp *w) {
    const Fiber *f0 = w->f[0];
    for (int l = 1; l < 32; l++)
        if (w->f[l]->arg != f0->arg)
            sim_report(true, "lanes 0 and %d execute different forms of %s, at %s:%d", l, sim_opname(f0->op), f0->file,
                       f0->line);
    if (f0->op == SIM_MMA)
        multiply(w, f0->arg);
    else
        load(w, f0->arg / 2, f0->arg % 2);
}
void sim_mma(SimMma kind, void *d, const uint32_t *a, const uint32_t *b, const char *file, int line) {
    mma::Lane m = {a, b, (const uint32_t *)d, (uint32_t *)d};
    sim_warp(SIM_MMA, 0xffffffffu, (uint64_t)&m, kind, 32, file, line);
}
// n matrices; the rows of the first 8 * n lanes are read.
void sim_ldmatrix(uint32_t *r, int n, bool transposed, const void *row, const char *file, int line) {
    if ((uintptr_t)row % 16) sim_report(true, "misaligned ldmatrix at %s:%d", file, line);
    if (!sim_is_shared(row, 16)) sim_report(true, "ldmatrix reads what is not shared memory, at %s:%d", file, line);
    LoadArgs m = {r, {}};
    if ((int)sim_f->lane < 8 * n) race_touch(row, 16, false);
    memcpy(m.row, row, 16);
    sim_warp(SIM_LDMATRIX, 0xffffffffu, (uint64_t)&m, 2 * n + transposed, 32, file, line);
}
