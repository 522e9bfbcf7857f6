// counts.cpp - counters of one stream of warp instructions: sectors, bank conflicts, atomics, bytes.
#include "sim/counts/counts.h"

#include <algorithm>

namespace ptx {
static const char *const WAIT = "griddepcontrol.wait";
enum { LINE = 128, SECTOR = 32, BANKS = 32, BANK_BYTES = 4, PASS_BYTES = 128 };

const Region *region_of(const vector<Region> &regions, uint64_t address) {
    for (auto &r : regions)
        if (address >= r.lo && address < r.hi) return &r;
    return nullptr;
}

namespace {
struct Lanes { // addresses of the active lanes, ascending, each once
    uint64_t a[32];
    unsigned n = 0;
    Lanes(uint32_t lanes, const uint64_t *address) {
        bool ascending = true;
        for (uint32_t m = lanes; m; m &= m - 1) {
            const uint64_t v = address[__builtin_ctz(m)];
            if (n > 0 && v == a[n - 1]) continue;
            ascending = ascending && (n == 0 || v > a[n - 1]);
            a[n++]    = v;
        }
        if (ascending) return;
        std::sort(a, a + n);
        n = (unsigned)(std::unique(a, a + n) - a);
    }
    // The number of units of `unit` bytes that are touched if each lane accesses `bytes` bytes.
    unsigned units(unsigned unit, unsigned bytes) const {
        unsigned count = 0;
        uint64_t next  = 0; // first unit that was not counted
        for (unsigned k = 0; k < n; k++) {
            const uint64_t first = std::max(a[k] / unit, next), end = (a[k] + bytes - 1) / unit + 1;
            if (end > first) count += (unsigned)(end - first);
            next = std::max(next, end);
        }
        return count;
    }
};
// Passes over the banks that a group of lanes takes: the most distinct words in one bank.
unsigned passes(const Lanes &l, unsigned bytes) {
    unsigned words[BANKS] = {}, most = 0;
    uint64_t next = 0;
    for (unsigned k = 0; k < l.n; k++) {
        const uint64_t end = (l.a[k] + bytes - 1) / BANK_BYTES + 1;
        for (uint64_t w = std::max(l.a[k] / BANK_BYTES, next); w < end; w++) most = std::max(most, ++words[w % BANKS]);
        next = std::max(next, end);
    }
    return most;
}
} // namespace

unsigned distinct_bytes(const Inst &i, uint32_t lanes, const uint64_t *a) {
    return Lanes(lanes, a).units(1, (unsigned)i.bytes * i.count);
}

void Counter::global(const Inst &i, uint32_t lanes, const uint64_t *a) {
    const unsigned bytes = (unsigned)i.bytes * i.count;
    const Lanes    l(lanes, a);
    const unsigned distinct = l.units(1, bytes);
    counts.n[N_global_sectors_requested] += l.units(SECTOR, bytes);
    counts.n[N_global_sectors_needed] += (distinct + SECTOR - 1) / SECTOR;
    if (i.flags & INST_STORE) {
        counts.n[N_written_bytes] += distinct;
        return;
    }
    const Region *r = region_of(regions, l.a[0]);
    counts.n[r == nullptr                 ? N_activation_bytes
             : r->holds == Holds::weights ? N_weight_bytes
             : r->holds == Holds::cache   ? N_cache_bytes
                                          : N_activation_bytes] += distinct;
}

// Lanes with 8 bytes go in two halves of the warp, with 16 bytes in four quarters, as 128 bytes are moved at a time.
void Counter::shared(const Inst &i, uint32_t lanes, const uint64_t *a) {
    const unsigned bytes = (unsigned)i.bytes * i.count;
    const unsigned group = bytes <= BANK_BYTES ? 32 : PASS_BYTES / bytes;
    for (unsigned from = 0; from < 32; from += group) {
        const uint32_t of = lanes & (uint32_t)(((1ull << group) - 1) << from);
        if (of != 0) counts.n[N_shared_conflicts] += passes(Lanes(of, a), bytes) - 1;
    }
}

// ldmatrix reads the 8 rows of a matrix at a time; the addresses of the other lanes are not used.
void Counter::matrices(const Inst &i, const uint64_t *a) {
    Inst row  = i;
    row.count = 1;
    shared(row, i.target, a);
}

void Counter::atomic(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *a) {
    counts.n[N_atomics]++;
    counts.n[N_atomic_contention] += (unsigned)__builtin_popcount(lanes) - Lanes(lanes, a).n;
    const string_view op = w.kernel->body.code[i.statement].op;
    if (op.find(".inc.") == string_view::npos) return;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int     l = __builtin_ctz(m);
        const Region *r = region_of(regions, a[l]);
        if (r != nullptr && r->holds == Holds::counters) arrivals.push_back({a[l], w.at<uint32_t>(i.s[1])[l]});
    }
}

// Loads and prefetches of weights before griddepcontrol.wait, in lines of 128 bytes, each line once.
void Counter::before_wait(const Warp &w, const Inst &i, Count c, uint32_t lanes, const uint64_t *a) {
    if (!waits) return;
    if (waited.size() <= w.id) waited.resize(w.id + 1);
    if (i.statement == 0) waited[w.id] = false;
    if (w.kernel->body.code[i.statement].op == WAIT) waited[w.id] = true;
    if (waited[w.id] || c != N_memory_global || (i.flags & INST_STORE) || a == nullptr) return;
    const unsigned bytes = std::max(1u, (unsigned)i.bytes * i.count);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint64_t at = a[__builtin_ctz(m)];
        const Region  *r  = region_of(regions, at);
        if (r == nullptr || r->holds != Holds::weights) continue;
        for (uint64_t line = at / LINE; line <= (at + bytes - 1) / LINE; line++)
            if (early.insert(line).second) counts.n[N_early_bytes] += LINE;
    }
}

void Counter::instruction(const Warp &w, const Inst &i, uint32_t lanes, const uint64_t *a) {
    if (w.kernel != kernel) {
        kernel = w.kernel;
        classes.clear();
        waits = false;
        for (auto &s : kernel->body.code) {
            classes.push_back(class_of(s.op));
            waits = waits || s.op == WAIT;
        }
        counts.executed.assign(classes.size(), 0);
    }
    Count c = classes[i.statement];
    if (c == N_memory_global && a != nullptr && lanes != 0 && i.space == Space::generic) {
        const uint64_t top = a[__builtin_ctz(lanes)] >> 56; // which window of the generic addresses
        if (top != 0) c = top == 1 ? N_memory_shared : N_other;
    }
    counts.n[c]++;
    counts.executed[i.statement]++;
    counts.n[N_lane_instructions] += (unsigned)__builtin_popcount(lanes);
    if (c == N_barrier && w.id == 0 && w.kernel->body.code[i.statement].op.find("warp") == string_view::npos)
        counts.n[N_barriers]++;
    before_wait(w, i, c, lanes, a);
    const string_view op = w.kernel->body.code[i.statement].op;
    if (c == N_tensor)
        counts.n[op.find("s8") != string_view::npos ? N_tensor_s8_ops : N_tensor_f16_ops] +=
            multiply_adds(*w.kernel, i);
    if (a == nullptr || lanes == 0) return;
    if (c == N_atomic) return atomic(w, i, lanes, a);
    if (op.substr(0, 8) == "ldmatrix") return matrices(i, a);
    if (c == N_memory_shared) return shared(i, lanes, a);
    if (op.substr(0, 3) == "cp.") shared(i, lanes, w.target);
    if (c == N_memory_global && op.substr(0, 2) != "pr") global(i, lanes, a);
}
} // namespace ptx
