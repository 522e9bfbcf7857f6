// counts.h - counters of the interpreted kernels: what a launch executes and moves, without a GPU.
//
//     interpreter --Observer--> Counter: Counts of the blocks that ran            counts.cpp, counts_classes.cpp
//     launch ------sample-----> Counts of the whole grid                          counts_sample.cpp
//     PTX ---------ptxas------> registers, shared memory, blocks an SM            counts_usage.cpp
//     plan --------walk-------> one KernelCounts for each distinct launch         counts_plan.c, counts_run.cpp
//
// docs/gpu-model.md defines each counter.
#ifndef TESTS_PTX_COUNTS_H
#define TESTS_PTX_COUNTS_H
#include "sim/ptx/ptx.h"

#include <set>

namespace ptx {
// Classes of warp instructions first, then the other counters.
#define PTX_CLASSES(X)                                                                                                 \
    X(int)                                                                                                             \
    X(float)                                                                                                           \
    X(double)                                                                                                          \
    X(dot)                                                                                                             \
    X(tensor) X(convert) X(special) X(memory_global) X(memory_shared) X(shuffle) X(barrier) X(branch) X(atomic) X(other)
#define PTX_TRAFFIC(X)                                                                                                 \
    X(lane_instructions)                                                                                               \
    X(global_sectors_requested)                                                                                        \
    X(global_sectors_needed)                                                                                           \
    X(weight_bytes)                                                                                                    \
    X(cache_bytes)                                                                                                     \
    X(activation_bytes)                                                                                                \
    X(written_bytes)                                                                                                   \
    X(shared_conflicts) X(atomics) X(atomic_contention) X(barriers) X(tensor_f16_ops) X(tensor_s8_ops) X(early_bytes)
enum Count : uint8_t {
#define X(name) N_##name,
    PTX_CLASSES(X) N_CLASSES,
    N_BEFORE_TRAFFIC = N_CLASSES - 1,
    PTX_TRAFFIC(X) N_COUNTS
#undef X
};
extern const char *const count_names[N_COUNTS];
Count                    class_of(string_view opcode);

// Doubles, because the counts of a sampled grid are estimates; those of a whole grid are exact integers.
struct Counts {
    double         n[N_COUNTS] = {};
    vector<double> executed; // warp instructions by statement of the body
    void           add(const Counts &o, double factor);
    double         instructions() const; // of all classes
};

// Ranges of the simulated global memory.
enum class Holds : uint8_t { weights, cache, activations, counters };
struct Region {
    uint64_t lo, hi;
    Holds    holds;
};

// Counts every instruction that it sees, of any number of blocks.
class Counter : public Observer {
  public:
    explicit Counter(const vector<Region> &memory) : regions(memory) {}
    void instruction(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *address) override;

    Counts counts;
    // atom.inc of arrival counters: the address and the limit, at which the counter wraps to zero.
    struct Arrival {
        uint64_t address;
        uint32_t limit;
    };
    vector<Arrival> arrivals;

  private:
    const vector<Region> &regions;
    const Kernel         *kernel = nullptr; // whose classes these are
    vector<Count>         classes;
    bool                  waits = false; // the kernel has a griddepcontrol.wait
    vector<bool>          waited;        // by warp of the block that runs
    std::set<uint64_t>    early;         // lines of weights that were asked for before
    void                  before_wait(const Warp &w, const Inst &i, Count c, uint32_t lanes, const uint64_t *a);
    void                  global(const Inst &i, uint32_t lanes, const uint64_t *a);
    void                  shared(const Inst &i, uint32_t lanes, const uint64_t *a);
    void                  matrices(const Inst &i, const uint64_t *a);
    void                  atomic(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *a);
};

// The most bytes of weights and cache, or of all global memory if there are none, that warp 0 has asked for and not
// used yet. Loads are taken in the order of the PTX. An instruction waits for the loads of its operands and for all
// before them.
class InFlight : public Observer {
  public:
    explicit InFlight(const vector<Region> &memory) : regions(memory) {}
    void     instruction(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *address) override;
    bool     reads_dram() const { return most[0] > 0; }
    uint64_t bytes() const { return reads_dram() ? most[0] : most[1]; }

  private:
    struct Load {
        uint64_t bytes[2]; // of weights and cache; of all
    };
    struct Registers {
        vector<int> written, read;
        bool        moves, loads, commits;
        int         waits; // cp.async.wait_group: groups that may be left, else -1
    };
    const vector<Region> &regions;
    const Kernel         *kernel = nullptr;
    vector<Registers>     of;         // by statement
    vector<uint64_t>      pending;    // by register: number of the load that fills it, from 1
    vector<Load>          loads;      // that were not waited for
    vector<uint64_t>      groups;     // of cp.async: number of loads at each commit
    uint64_t              done   = 0; // loads that were
    uint64_t              out[2] = {}, most[2] = {};
    void                  prepare(const Kernel &k);
};

const Region *region_of(const vector<Region> &regions, uint64_t address);
unsigned      distinct_bytes(const Inst &i, uint32_t lanes, const uint64_t *a);

// The arrival counters, as they are between launches. A block that runs alone leaves them otherwise.
void zero_counters(const vector<Region> &regions);
// Counts of all blocks of the grid. `most` > 0: only `most` blocks run, evenly spaced from the first to the last, and
// counts_sample.cpp says how the others follow from them. *sampled: how many ran.
Counts count_grid(Launch &l, const vector<Region> &regions, unsigned most, unsigned *sampled);
// Number k of `most` blocks that are evenly spaced from the first of n blocks to the last.
inline uint32_t sampled_block(uint32_t n, uint32_t most, uint32_t k) {
    return most <= 1 ? 0 : (uint32_t)((uint64_t)k * (n - 1) / (most - 1));
}
// Bytes in flight of a warp of one block: the first of `most` sampled blocks that reads weights or cache, because in
// attention with a window the first blocks of the grid read nothing. If no sampled block reads any, it is the first
// block of the grid. The function runs blocks once more.
uint64_t bytes_in_flight(Launch &l, const vector<Region> &regions, unsigned most);

struct Usage { // of a kernel compiled by ptxas
    unsigned registers = 0, shared_bytes = 0;
};
Usage    usage_of(const string &ptx_file, const string &entry, unsigned architecture); // zeros without ptxas
unsigned blocks_per_sm(unsigned threads, unsigned registers, unsigned shared_bytes);
} // namespace ptx
#endif
