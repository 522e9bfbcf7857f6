// ptx_race.h - the records of ptx_race.cpp: who touched shared memory last, and who wrote global memory.
#ifndef TESTS_PTX_PTX_RACE_H
#define TESTS_PTX_PTX_RACE_H
#include "sim/ptx/ptx.h"

namespace ptx {
enum class Access : uint8_t { read, write, atomic };
// The lanes access host[l], memory of the block's shared space or global memory.
void check_shared(Warp &w, const Inst &i, uint32_t lanes, Access how, char *const *host);
void check_global(Warp &w, const Inst &i, uint32_t lanes, Access how, char *const *host);
void start_shadow(Block &b); // the block begins, or its threads have met at a barrier
void fence(Warp &w);
void publish(Warp &w);
void strong_load(Warp &w);

static inline void check_race(Warp &w, const Inst &i, uint32_t lanes, Access how, char *const *host) {
    const uint32_t *grid = w.block->launch->grid;
    if (!w.block->launch->races) return;
    if (i.space == Space::shared || (i.space == Space::generic && w.address[__builtin_ctz(lanes)] >= WINDOW))
        check_shared(w, i, lanes, how, host);
    else if (i.space != Space::local && i.space != Space::param && how != Access::atomic &&
             grid[0] * grid[1] * grid[2] > 1 && (how == Access::write || w.block->launch->written != nullptr))
        check_global(w, i, lanes, how, host);
}
} // namespace ptx
#endif
