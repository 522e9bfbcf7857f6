// counts_rows.h - the counts of a step, one row for each distinct launch.
#ifndef TESTS_PTX_COUNTS_ROWS_H
#define TESTS_PTX_COUNTS_ROWS_H
#include "sim/counts/counts.h"
#include "sim/counts/counts_run.h"
#include "sim/ptx/ptx_launch.h"

struct KernelCounts {
    std::string name, node; // node: of the first of the launches
    int         sms  = 0;   // multiprocessors that the grid was planned for; 0: it does not depend on them
    unsigned grid[3] = {}, threads = 0, registers = 0, shared_bytes = 0, blocks_per_sm = 0, launches = 1, sampled = 0;
    uint64_t warp_flight = 0; // bytes in flight of a warp
    ptx::Counts counts;       // of one launch
    // Warp instructions by source file. Those of the toolkit's headers belong to the file in front of them in the PTX.
    std::map<std::string, double> by_file;

    double   blocks() const { return (double)grid[0] * grid[1] * grid[2]; }
    unsigned warps() const { return (threads + 31) / 32; }
    uint64_t flight() const { return warp_flight * warps() * blocks_per_sm; } // of an SM
    double   per_weight_byte() const {
          const double bytes = counts.n[ptx::N_weight_bytes];
          return bytes > 0 ? counts.instructions() / bytes : 0;
    }
};
struct CountsRun {
    unsigned                                  blocks    = 0;
    bool                                      registers = false, specialized = false;
    std::vector<std::unique_ptr<ptx::Module>> specials;
    std::vector<KernelCounts>                 rows;
    std::map<std::string, size_t>             row_of;
    std::map<std::string, ptx::Usage>         usage;
};
#endif
