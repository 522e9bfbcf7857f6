// counts_sample.cpp - counts of a grid from some of its blocks.
//
// The last block that arrives at a counter (kernels/device/arrive.cuh) does more than the others: it runs the tail.
// Which block that is depends on time alone, so each sampled block runs twice, with the counters set so that it is
//
//     first   every counter 0              counts f: without tails
//     last    every counter at its limit   counts t: with the tail of each counter at which it arrives
//
// A counter with limit L has L + 1 arrivals and one tail, so a block with arrivals at limits L1 .. Lm has on average
// the counts f + (t - f) * mean(1 / (Lk + 1)). The grid has `blocks / sampled` times the sum of that. Every tail of
// a kernel does the same work, and the sampled blocks are evenly spaced: the estimate is exact for a grid whose blocks
// do the same.
#include "sim/counts/counts.h"

#include "base/kernels.h"

#include <algorithm>
#include <cstring>

namespace ptx {
namespace {
void set_counters(const vector<Region> &regions, const vector<Counter::Arrival> &arrivals) {
    zero_counters(regions);
    for (auto &a : arrivals) *(uint32_t *)a.address = a.limit;
}
Counter run_only(Launch &l, const vector<Region> &regions, const vector<uint32_t> *only) {
    Counter c(regions);
    l.observer = &c;
    l.only     = only;
    run(l);
    l.observer = nullptr;
    l.only     = nullptr;
    return c;
}
Counts count_block(Launch &l, const vector<Region> &regions, uint32_t block) {
    const vector<uint32_t> only{block};
    zero_counters(regions);
    const Counter first = run_only(l, regions, &only);
    double        share = 0;
    for (auto &a : first.arrivals) share += 1.0 / (a.limit + 1.0) / (double)first.arrivals.size();
    if (first.arrivals.empty() || share == 1.0) return first.counts;
    set_counters(regions, first.arrivals);
    const Counter last   = run_only(l, regions, &only);
    Counts        counts = first.counts;
    counts.add(first.counts, -share);
    counts.add(last.counts, share);
    return counts;
}
} // namespace

void zero_counters(const vector<Region> &regions) {
    for (auto &r : regions)
        if (r.holds == Holds::counters)
            memset((void *)r.lo, 0, std::min<size_t>(r.hi - r.lo, RP_SCRATCH_ZEROS)); // partial results lie behind them
}

Counts count_grid(Launch &l, const vector<Region> &regions, unsigned most, unsigned *sampled) {
    const uint32_t n = l.grid[0] * l.grid[1] * l.grid[2];
    *sampled         = n;
    zero_counters(regions);
    if (most == 0 || n <= most) return run_only(l, regions, nullptr).counts;
    Counts sum;
    *sampled = most;
    for (uint32_t k = 0; k < most; k++) sum.add(count_block(l, regions, sampled_block(n, most, k)), (double)n / most);
    zero_counters(regions);
    return sum;
}
} // namespace ptx
