// ptx_race.cpp - accesses that nothing orders: shared memory between barriers, global memory between blocks.
//
// Shared memory. The barriers of a block count its epochs, those of a warp (bar.warp.sync) the warp's. Each word has
// the last write and the last readers of two warps:
//
//     thread 5    writes s[0]   epoch 3      thread 40   reads s[0]   epoch 3      error: no barrier between
//     thread 5    writes s[0]   epoch 3      thread 40   reads s[0]   epoch 4      in order
//
// Two lanes of one warp need a warp barrier between. A word that is also accessed in parts has four such records.
//
// Global memory, within one launch of several blocks. A block may read or overwrite what another block wrote if
//
//     the writer      stored, then executed a fence, then a strong access (an atomic, or a volatile or release store);
//                     each may be in another warp than the one before if a barrier lies between
//     the reader      executed a strong access (an atomic, or a volatile or acquire load), then a fence, both later
//
// Atomics and strong stores are not recorded. Reads are not either, so a write after a read goes unnoticed.
#include "sim/ptx/ptx_race.h"

#include <algorithm>

namespace ptx {
namespace {
struct Me {
    Warp    &w;
    uint32_t epoch, warp_epoch;
    uint16_t thread;
    bool     atomic;
};
bool conflicts(const Touch &t, const Me &me) {
    if (t.epoch != me.epoch || (t.atomic && me.atomic)) return false;
    if (t.thread / 32 != me.thread / 32) return true;
    return t.warp_epoch == me.warp_epoch && (t.thread != me.thread || t.many);
}
void              set(Touch &t, const Me &me) { t = {me.epoch, me.warp_epoch, me.thread, false, me.atomic}; }
[[noreturn]] void race(const Me &me, const char *does, const char *did, unsigned thread, uint64_t at) {
    fail_at(me.w, me.thread % 32, "race: %s shared memory at 0x%llx, which thread %u %s, and no barrier between", does,
            (unsigned long long)at + SHARED_FIRST, thread, did);
}
void read_cell(SharedCell &c, const Me &me, uint64_t at) {
    if (conflicts(c.write, me)) race(me, "reads", "wrote", c.write.thread, at);
    Touch     &first = c.read[0];
    const bool mine  = first.thread / 32 == me.thread / 32;
    Touch     &r     = first.epoch != me.epoch || mine ? first : c.read[1];
    const bool more  = r.epoch == me.epoch && r.thread / 32 == me.thread / 32 && r.warp_epoch == me.warp_epoch &&
                      (r.many || r.thread != me.thread);
    set(r, me);
    r.many = more;
}
void write_cell(SharedCell &c, const Me &me, uint64_t at) {
    if (conflicts(c.write, me)) race(me, "writes", "wrote", c.write.thread, at);
    for (Touch &r : c.read)
        if (conflicts(r, me)) race(me, "writes", "read", r.thread, at);
    set(c.write, me);
    if (!me.atomic) c.read[0].epoch = c.read[1].epoch = 0;
}
void touch(SharedCell &c, const Me &me, Access how, uint64_t at) {
    if (how == Access::read)
        read_cell(c, me, at);
    else
        write_cell(c, me, at);
}
void touch_shared(const Me &me, Access how, size_t at, size_t bytes) {
    SharedShadow &s = me.w.block->shadow;
    for (size_t end = at + bytes; at < end;) {
        SharedCell &word = s.words[at / 4];
        if (at % 4 == 0 && end - at >= 4 && !word.split) {
            touch(word, me, how, at);
            at += 4;
            continue;
        }
        if (!word.split) {
            if (s.bytes.empty()) s.bytes.resize(4 * s.words.size());
            for (size_t k = 0; k < 4; k++) s.bytes[at / 4 * 4 + k] = word;
            word.split = true;
        }
        touch(s.bytes[at], me, how, at);
        at++;
    }
}
} // namespace

void check_shared(Warp &w, const Inst &i, uint32_t lanes, Access how, char *const *host) {
    Block       &b     = *w.block;
    const size_t bytes = (size_t)i.bytes * i.count;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int    l  = __builtin_ctz(m);
        const size_t at = (size_t)(host[l] - b.shared.data());
        if (at >= b.shared.size()) continue; // a generic address of another space
        const Me me = {w, b.shadow.epoch, w.epoch, (uint16_t)(w.id * 32 + (unsigned)l), how == Access::atomic};
        touch_shared(me, how, at, bytes);
    }
}
void start_shadow(Block &b) {
    b.shadow.words.resize((b.shared.size() + 3) / 4);
    b.shadow.epoch++;
}

// ---- global memory ----
GlobalShadow::GlobalShadow(uint32_t n_blocks, uint32_t n_warps)
    : warps(n_warps), fences((size_t)n_blocks * n_warps), published(fences), newest(n_blocks) {}

GlobalShadow::Cell *GlobalShadow::find(uint64_t a) {
    if (last == nullptr || last_page != a / PAGE) {
        auto p = pages.find(a / PAGE);
        if (p == pages.end()) return nullptr;
        last_page = a / PAGE, last = p->second.get();
    }
    return last + a % PAGE;
}
void GlobalShadow::store(uint64_t a, const Cell &c, size_t bytes) {
    for (size_t k = 0; k < bytes; k++) {
        Cell *at = find(a + k);
        if (at == nullptr) {
            pages[(a + k) / PAGE].reset(new Cell[PAGE]());
            at = find(a + k);
        }
        *at = c;
    }
    lo = a < lo ? a : lo;
    hi = a + bytes > hi ? a + bytes : hi;
}
static GlobalShadow &written(Launch &g, const Block &b) {
    if (g.written == nullptr)
        g.written = std::make_shared<GlobalShadow>(g.grid[0] * g.grid[1] * g.grid[2], (uint32_t)b.warps.size());
    return *g.written;
}
static uint32_t number_of(const Block &b) {
    const uint32_t *n = b.launch->grid;
    return (b.z * n[1] + b.y) * n[0] + b.x;
}
static void check_cell(Warp &w, int l, bool write, uint64_t a, const GlobalShadow::Cell &c) {
    GlobalShadow  &s  = *w.block->launch->written;
    const uint32_t me = number_of(*w.block);
    if (c.stamp == 0 || c.block == me) return;
    const bool released =
        s.published[(size_t)c.block * s.warps + c.warp].stamp > c.stamp || s.newest[c.block] > c.epoch;
    const char *does = write ? "overwrites" : "reads";
    if (!released)
        fail_at(w, l, "race: %s global memory at 0x%llx, which block %u wrote without a fence after it", does,
                (unsigned long long)a, c.block);
    if (!w.block->acquired || w.block->fenced < c.stamp)
        fail_at(w, l, "race: %s global memory at 0x%llx, which block %u wrote, without an atomic and a fence before",
                does, (unsigned long long)a, c.block);
}
void check_global(Warp &w, const Inst &i, uint32_t lanes, Access how, char *const *host) {
    Launch       &g     = *w.block->launch;
    const size_t  bytes = (size_t)i.bytes * i.count;
    const bool    write = how == Access::write;
    GlobalShadow &s     = written(g, *w.block);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int      l = __builtin_ctz(m);
        const uint64_t a = (uint64_t)host[l];
        if (a < s.hi && a + bytes > s.lo)
            for (size_t k = 0; k < bytes; k += i.bytes)
                if (const auto *c = s.find(a + k)) check_cell(w, l, write, a + k, *c);
        if (write) s.store(a, {number_of(*w.block), w.block->shadow.epoch, (uint32_t)w.id, n_executed}, bytes);
    }
}
// A fence of the device. It covers what the warp wrote, and what the block wrote before its last barrier.
void fence(Warp &w) {
    Block &b                                        = *w.block;
    b.acquired                                      = b.acquired || b.strong;
    b.fenced                                        = n_executed;
    GlobalShadow &s                                 = written(*b.launch, b);
    s.fences[(size_t)number_of(b) * s.warps + w.id] = {b.shadow.epoch, n_executed};
}
// An atomic or strong store: other blocks may see from it that the fences before it were executed.
void publish(Warp &w) {
    Block &b = *w.block;
    if (b.launch->written == nullptr) return;
    GlobalShadow  &s  = *b.launch->written;
    const uint32_t me = number_of(b);
    for (uint32_t v = 0; v < s.warps; v++) {
        const auto &f = s.fences[(size_t)me * s.warps + v];
        if (f.stamp == 0 || (v != w.id && f.epoch >= b.shadow.epoch)) continue;
        s.published[(size_t)me * s.warps + v] = f;
        s.newest[me]                          = std::max(s.newest[me], f.epoch);
    }
}
// An atomic or strong load: a fence must follow before the block may use what others wrote.
void strong_load(Warp &w) {
    w.block->strong   = true;
    w.block->acquired = false;
}
} // namespace ptx
