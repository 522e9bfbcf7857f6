// ptx_slots.cpp - places for registers. nvcc gives every value its own virtual register; those whose lives do
// not overlap share a slot, which keeps the registers of a warp in the cache.
//
// Liveness, backwards over the blocks until nothing changes:
//
//     live_in(b)  = reads(b) before a write in b  |  live_out(b) without writes(b)
//     live_out(b) = union of live_in(next)
//
// A write under a guard does not end a life backwards. The life of a register is the interval of statements
// from its first to its last mention, extended over the blocks at whose ends it is live. A register that is
// live at the start of the kernel may be read before it was written: it gets a slot of its own and a mask of
// the lanes that have written it.
#include "sim/ptx/ptx_flow.h"

#include <algorithm>
#include <unordered_set>

namespace ptx {
static void add(const Operand &o, vector<int> &regs) {
    if (o.reg >= 0) regs.push_back(o.reg);
    for (auto &e : o.list) add(e, regs);
}
// The first operand is written, all others are read; these instructions write none.
void definitions(const Statement &s, vector<int> &defs, vector<int> &uses) {
    static const std::unordered_set<string_view> none = {
        "st",        "red",     "bra",           "bar",     "barrier",   "membar", "fence",          "prefetch",
        "prefetchu", "ret",     "exit",          "trap",    "nanosleep", "brkpt",  "griddepcontrol", "cp",
        "call",      "discard", "applypriority", "pmevent", "brx"};
    const bool writes = none.count(s.op.substr(0, s.op.find('.'))) == 0;
    defs.clear();
    uses.clear();
    if (s.guard >= 0) uses.push_back(s.guard);
    for (size_t k = 0; k < s.args.size(); k++) {
        const Operand &o = s.args[k];
        if (k == 0 && (writes || s.op.find(".red.") != string_view::npos) && o.kind != Operand::ADDRESS) {
            add(o, defs);
            if (o.pair >= 0) defs.push_back(o.pair);
        } else
            add(o, uses);
    }
}

namespace {
struct Liveness {
    const Body              &b;
    Flow                     f;
    vector<int>              index; // of registers that cross a block boundary, -1 for the others
    vector<int>              regs;  // and back
    size_t                   words = 0;
    vector<vector<uint64_t>> reads, writes, in;
    vector<int>              first, last;

    void number(int r) {
        if (index[(size_t)r] >= 0) return;
        index[(size_t)r] = (int)regs.size();
        regs.push_back(r);
    }
    explicit Liveness(const Body &body) : b(body), f(flow_of(body)), index(b.regs.size(), -1) {
        vector<int> defs, uses, written(b.regs.size(), -1);
        first.assign(b.regs.size(), INT32_MAX);
        last.assign(b.regs.size(), -1);
        for (int k = 0; k < (int)b.code.size(); k++) {
            const Statement &s = b.code[(size_t)k];
            definitions(s, defs, uses);
            for (int r : uses) {
                if (written[(size_t)r] != f.block_of[(size_t)k]) number(r);
                mention(r, k);
            }
            for (int r : defs) {
                if (s.guard < 0) written[(size_t)r] = f.block_of[(size_t)k];
                mention(r, k);
            }
        }
        words = (regs.size() + 63) / 64;
        local_sets();
        solve();
    }
    void mention(int r, int k) {
        first[(size_t)r] = std::min(first[(size_t)r], k);
        last[(size_t)r]  = std::max(last[(size_t)r], k);
    }
    void local_sets() {
        reads.assign(f.blocks.size(), vector<uint64_t>(words));
        writes = in = reads;
        vector<int> defs, uses;
        for (size_t i = 0; i < f.blocks.size(); i++)
            for (int k = f.blocks[i].first; k < f.blocks[i].end; k++) {
                const Statement &s = b.code[(size_t)k];
                definitions(s, defs, uses);
                for (int r : uses) {
                    const int n = index[(size_t)r];
                    if (n >= 0 && !(writes[i][(size_t)n / 64] >> n % 64 & 1))
                        reads[i][(size_t)n / 64] |= 1ull << n % 64;
                }
                for (int r : defs)
                    if (index[(size_t)r] >= 0 && s.guard < 0)
                        writes[i][(size_t)index[(size_t)r] / 64] |= 1ull << index[(size_t)r] % 64;
            }
    }
    void solve() {
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t i = f.blocks.size(); i-- > 0;)
                for (size_t w = 0; w < words; w++) {
                    uint64_t out = 0;
                    for (int s : f.blocks[i].next)
                        if (s < (int)f.blocks.size()) out |= in[(size_t)s][w];
                    const uint64_t v = reads[i][w] | (out & ~writes[i][w]);
                    changed          = changed || v != in[i][w];
                    in[i][w]         = v;
                }
        }
        for (size_t i = 0; i < f.blocks.size(); i++) {
            live_at(in[i], f.blocks[i].first);
            for (int s : f.blocks[i].next)
                if (s < (int)f.blocks.size()) live_at(in[(size_t)s], f.blocks[i].end - 1);
        }
    }
    // All registers of the set are live at statement k.
    void live_at(const vector<uint64_t> &set, int k) {
        for (size_t w = 0; w < words; w++)
            for (uint64_t rest = set[w]; rest != 0; rest &= rest - 1)
                mention(regs[w * 64 + (size_t)__builtin_ctzll(rest)], k);
    }
    bool live_at_start(int r) const {
        const int n = index[(size_t)r];
        return n >= 0 && (in[0][(size_t)n / 64] >> n % 64 & 1);
    }
};
size_t slot_bytes(Type t) { return t == Type::pred ? 4 : 32 * (size_t)bytes_of(t); }
} // namespace

// Linear scan: registers by the start of their life; a slot is free again after the end of one.
Registers assign_slots(const Body &b) {
    const Liveness l(b);
    Registers      out;
    out.slot.assign(b.regs.size(), 0);
    out.init.assign(b.regs.size(), -1);
    vector<int> order;
    for (int r = 0; r < (int)b.regs.size(); r++)
        if (l.last[(size_t)r] >= 0) order.push_back(r);
    std::sort(order.begin(), order.end(), [&](int x, int y) { return l.first[(size_t)x] < l.first[(size_t)y]; });
    std::map<size_t, vector<int32_t>> unused; // by bytes
    vector<std::pair<int, int>>       active; // heap of (end, register)
    const auto                        later = std::greater<std::pair<int, int>>();
    unsigned                          words = 0;
    for (int r : order) {
        while (!active.empty() && active.front().first < l.first[(size_t)r]) {
            const int old = active.front().second;
            std::pop_heap(active.begin(), active.end(), later);
            active.pop_back();
            words -= (unsigned)slot_bytes(b.regs[(size_t)old]) / 128;
            unused[slot_bytes(b.regs[(size_t)old])].push_back(out.slot[(size_t)old]);
        }
        const size_t n = slot_bytes(b.regs[(size_t)r]);
        words += (unsigned)n / 128;
        out.live_words = std::max(out.live_words, words);
        const bool own = l.live_at_start(r);
        if (!own && !unused[n].empty()) {
            out.slot[(size_t)r] = unused[n].back();
            unused[n].pop_back();
        } else {
            out.bytes           = align_up(out.bytes, n < 32 ? 4 : 32);
            out.slot[(size_t)r] = (int32_t)out.bytes;
            out.bytes += n;
        }
        if (own) {
            out.bytes           = align_up(out.bytes, 4);
            out.init[(size_t)r] = (int32_t)out.bytes;
            out.bytes += 4;
        } else {
            active.push_back({l.last[(size_t)r], r});
            std::push_heap(active.begin(), active.end(), later);
        }
    }
    return out;
}
} // namespace ptx
