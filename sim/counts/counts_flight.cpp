// counts_flight.cpp - bytes that a warp has in flight. Loads return in their order, so an instruction that needs load k
// waits for loads 1 .. k. A move is no use: ptxas renames the register.
//
//     ld a; ld b; ld c;      3 loads in flight
//     add x, b, 1;           waits for a and b: 1 is left
//
// cp.async is a load too; cp.async.wait_group N waits for those before the last N commits.
#include "sim/counts/counts.h"

#include <algorithm>

namespace ptx {
void InFlight::prepare(const Kernel &k) {
    kernel = &k;
    of.clear();
    for (auto &s : k.body.code) {
        Registers r;
        definitions(s, r.written, r.read);
        r.moves   = s.op.substr(0, 4) == "mov.";
        r.loads   = (s.op.substr(0, 3) == "ld." || s.op.substr(0, 3) == "cp.") && class_of(s.op) == N_memory_global;
        r.commits = s.op == "cp.async.commit_group";
        r.waits   = s.op == "cp.async.wait_all" ? 0 : s.op == "cp.async.wait_group" ? (int)s.args.at(0).number : -1;
        of.push_back(r);
    }
    pending.assign(k.body.regs.size(), 0);
    loads.clear();
    groups.clear();
    done = out[0] = out[1] = 0;
}

void InFlight::instruction(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *a) {
    if (w.id != 0) return;
    if (w.kernel != kernel) prepare(*w.kernel);
    const Registers &r      = of[i.statement];
    uint64_t         newest = 0;
    for (int reg : r.read) newest = std::max(newest, pending[(size_t)reg]);
    if (r.commits) groups.push_back(loads.size());
    if (r.waits >= 0 && groups.size() > (size_t)r.waits)
        newest = std::max(newest, groups[groups.size() - 1 - (size_t)r.waits]);
    if (!r.moves)
        for (; done < newest; done++)
            for (int k = 0; k < 2; k++) out[k] -= loads[done].bytes[k];
    if (r.loads && a != nullptr && lanes != 0) {
        const Region  *where = region_of(regions, a[__builtin_ctz(lanes)]);
        const uint64_t bytes = distinct_bytes(i, lanes, a);
        const bool     dram  = where != nullptr && (where->holds == Holds::weights || where->holds == Holds::cache);
        loads.push_back({
            {dram ? bytes : 0, bytes}
        });
        for (int k = 0; k < 2; k++) {
            out[k] += loads.back().bytes[k];
            most[k] = std::max(most[k], out[k]);
        }
        newest = loads.size();
    } else if (!r.moves)
        newest = 0;
    for (int reg : r.written) pending[(size_t)reg] = newest;
}

uint64_t bytes_in_flight(Launch &l, const vector<Region> &regions, unsigned most) {
    const uint32_t n   = l.grid[0] * l.grid[1] * l.grid[2];
    uint64_t       all = 0;
    for (uint32_t k = 0; k < most; k++) {
        const vector<uint32_t> only{sampled_block(n, most, k)};
        InFlight               o(regions);
        l.observer = &o;
        l.only     = &only;
        run(l);
        l.observer = nullptr;
        l.only     = nullptr;
        if (o.reads_dram()) return o.bytes();
        if (k == 0) all = o.bytes();
    }
    return all;
}
} // namespace ptx
