// ptx_run.cpp - runs a grid: blocks one after the other (all at once in a cooperative launch), the warps of
// the resident blocks in turn. A warp runs until it waits at a barrier, returns, or executes an instruction
// that other warps may have to answer (volatile, relaxed and acquire loads, atomics, nanosleep); under the
// random policy also after a random number of instructions.
#include "sim/ptx/ptx_race.h"

#include <algorithm>
#include <cstring>

namespace ptx {
uint64_t n_executed;

namespace {
enum : uint32_t { MOST_STEPS = 1u << 26 }; // of a warp in a block: far more than a kernel of the tests needs
struct Runner {
    Launch        &g;
    const Kernel  &k;
    vector<Block>  blocks; // resident
    vector<Warp *> warps;
    uint64_t       state;

    explicit Runner(Launch &l) : g(l), k(*l.kernel), state(l.seed * 0x9e3779b97f4a7c15ull | 1) {}
    uint32_t random() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return (uint32_t)(state >> 11);
    }
    void                          make(Block &b);
    void                          start(Block &b, uint32_t number);
    void                          run_blocks();
    bool                          release();
    void                          stuck();
    void                          switch_paths(uint64_t idle);
    template <bool OBSERVED> void turn(Warp &w, uint32_t budget);
};

void Runner::make(Block &b) {
    const uint32_t n = g.block[0] * g.block[1] * g.block[2];
    b.launch         = &g;
    b.shared.resize(align_up(k.body.shared_bytes, 16) + g.dynamic_shared);
    b.shared_init.resize(b.shared.size());
    b.warps = vector<Warp>((n + 31) / 32);
    for (size_t i = 0; i < b.warps.size(); i++) {
        Warp &w     = b.warps[i];
        w.id        = (unsigned)i;
        w.kernel    = &k;
        w.block     = &b;
        w.exist     = n - i * 32 >= 32 ? ALL_LANES : (1u << (n - i * 32)) - 1;
        w.constants = k.constants.data();
        w.reg_store.resize(k.reg_bytes + 64);
        w.regs = (char *)align_up((size_t)w.reg_store.data(), 64);
        w.local.resize(k.body.local_bytes * 32);
        w.local_init.resize(k.body.local_bytes * 32);
    }
}
// Shared memory, local memory and registers hold nothing yet. 0xff is a NaN as a float.
void Runner::start(Block &b, uint32_t number) {
    b.x      = number % g.grid[0];
    b.y      = number / g.grid[0] % g.grid[1];
    b.z      = number / g.grid[0] / g.grid[1];
    b.waited = !g.dependent;
    b.strong = b.acquired = false, b.fenced = 0;
    b.arrived.clear();
    start_shadow(b);
    std::fill(b.shared.begin(), b.shared.end(), (char)0xff);
    std::fill(b.shared_init.begin(), b.shared_init.end(), 0);
    for (Warp &w : b.warps) {
        w.pc = 0, w.join = NOWHERE, w.carry = 0, w.stack.clear();
        w.lanes = w.live = w.exist;
        w.state          = State::ready;
        w.votes = 0, w.reduction = nullptr;
        std::fill(w.local_init.begin(), w.local_init.end(), 0);
        for (int32_t slot : k.init_slots) memset(w.regs + slot, 0, 4);
        w.copies.clear(), w.groups.clear();
        w.steps = 0;
    }
}
template <bool OBSERVED> void Runner::turn(Warp &w, uint32_t budget) {
    const Inst *code = k.code.data();
    w.state          = State::ready;
    uint32_t n       = 0;
    while (n < budget) {
        if (w.pc == w.join) {
            pop_path(w);
            if (w.state == State::done) break;
            continue;
        }
        const Inst &i     = code[w.pc++];
        uint32_t    lanes = w.lanes;
        if (i.guard >= 0) {
            const uint32_t p = *w.at<uint32_t>(i.guard);
            lanes &= i.guard_not ? ~p : p;
            if (lanes == 0) {
                if (OBSERVED && !(i.flags & INST_PSEUDO)) g.observer->instruction(w, i, 0, nullptr);
                n++;
                continue;
            }
        }
        n++;
        n_executed++;
        i.run(w, i, lanes);
        if (OBSERVED && !(i.flags & INST_PSEUDO))
            g.observer->instruction(w, i, lanes, i.flags & INST_MEMORY ? w.address : nullptr);
        if (w.state != State::ready) break;
    }
    w.steps += n;
    if (w.state == State::ready && w.steps >= MOST_STEPS) fail_at(w, __builtin_ctz(w.lanes), "an endless loop");
}
// Lets the warps go on that wait at a complete barrier. True if there was one.
bool Runner::release() {
    bool any = false;
    for (Block &b : blocks)
        for (Warp &first : b.warps) {
            if (first.state != State::barrier) continue;
            const uint32_t number  = first.barrier;
            uint32_t       waiting = b.arrived[number], alive = 0, votes = 0, threads = 0;
            for (Warp &w : b.warps) {
                if (w.state != State::done) alive += 32;
                if (w.state != State::barrier || w.barrier != number) continue;
                if ((w.reduction == nullptr) != (first.reduction == nullptr))
                    fail_at(w, __builtin_ctz(w.lanes), "bar.red, and bar.sync of another warp, at barrier %u", number);
                waiting += 32;
                threads += (uint32_t)__builtin_popcount(w.live);
                votes += (uint32_t)__builtin_popcount(w.votes);
            }
            if (first.barrier_threads != 0 ? waiting < first.barrier_threads : waiting < alive) continue;
            b.arrived[number] = 0;
            for (Warp &w : b.warps) {
                if (w.state != State::barrier || w.barrier != number) continue;
                w.state = State::ready;
                if (w.reduction != nullptr) finish_reduction(w, votes, threads);
            }
            start_shadow(b);
            any = true;
        }
    return any;
}
void Runner::stuck() {
    for (Warp *w : warps)
        if (w->state == State::yields)
            fail_at(*w, __builtin_ctz(w->lanes),
                    "deadlock: spins, and neither another warp nor another lane of this warp goes on meanwhile");
        else if (w->state != State::done)
            fail_at(*w, __builtin_ctz(w->live), "deadlock: waits for threads that do not come (barrier %u)",
                    w->barrier);
}
// Warps that only spin switch to other paths of theirs every so often: the lanes of a warp make progress independently
// from sm_70 on. Lanes that wait at a join leave it only if no other path helps.
void Runner::switch_paths(uint64_t idle) {
    const uint64_t every = 1024, patience = 32;
    if (idle % every != 0) return;
    for (Warp *w : warps)
        if (w->state == State::yields) switch_path(*w, false) || (idle >= every * patience && switch_path(*w, true));
}
// A round gives each warp that can run a turn. Turns end early at yields, so a spin over many rounds without
// any other warp ready is a deadlock.
void Runner::run_blocks() {
    const uint64_t most_idle = 1000000;
    uint64_t       idle      = 0;
    for (;;) {
        bool ran = false, done = true, only_spins = true;
        for (size_t n = 0; n < warps.size(); n++) {
            Warp &w = *warps[g.policy == 0 ? n : g.policy == 1 ? warps.size() - 1 - n : random() % warps.size()];
            if (w.state == State::done || w.state == State::barrier) continue;
            const uint32_t budget = g.policy == 2 ? 1 + random() % 500 : MOST_STEPS;
            ran                   = true;
            g.observer != nullptr ? turn<true>(w, budget) : turn<false>(w, budget);
            only_spins = only_spins && w.state == State::yields;
        }
        for (Warp *w : warps) done = done && w->state == State::done;
        if (done) return;
        if (release())
            idle = 0;
        else if (!ran && g.policy != 2)
            stuck();
        idle = only_spins ? idle + 1 : 0;
        if (idle > 0) switch_paths(idle);
        if (idle > most_idle) stuck();
    }
}
} // namespace

void run(Launch &l) {
    Runner         r(l);
    const uint32_t threads = l.block[0] * l.block[1] * l.block[2];
    const uint32_t n       = l.only != nullptr ? (uint32_t)l.only->size() : l.grid[0] * l.grid[1] * l.grid[2];
    if (r.k.body.max_threads != 0 && threads > r.k.body.max_threads)
        fail("%s: a block of %u threads, compiled for %u", r.k.body.name.c_str(), threads, r.k.body.max_threads);
    r.blocks = vector<Block>(l.cooperative ? n : 1);
    vector<uint32_t> order(n);
    for (uint32_t i = 0; i < n; i++) order[i] = l.policy == 1 ? n - 1 - i : i;
    if (l.only != nullptr) order = *l.only;
    if (l.policy == 2)
        for (uint32_t i = n; i > 1; i--) std::swap(order[i - 1], order[r.random() % i]);
    for (Block &b : r.blocks) {
        r.make(b);
        for (Warp &w : b.warps) r.warps.push_back(&w);
    }
    for (uint32_t at = 0; at < n; at += (uint32_t)r.blocks.size()) {
        for (size_t i = 0; i < r.blocks.size(); i++) r.start(r.blocks[i], order[at + i]);
        r.run_blocks();
        for (Block &b : r.blocks)
            if (!b.waited)
                fail("%s block (%u,%u,%u): a PDL launch that never waited for the earlier kernels",
                     r.k.body.name.c_str(), b.x, b.y, b.z);
    }
}
} // namespace ptx
