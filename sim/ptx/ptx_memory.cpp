// ptx_memory.cpp - loads, stores, cp.async, prefetch and fences (section 9.7.9, 9.7.13). Every address is
// checked for alignment, bounds, and for being written before it is read.
//
// The lanes run in step and one warp at a time, so memory is sequentially consistent: .volatile, .relaxed,
// .acquire, .release and fences have no effect on the values; ptx_race.cpp demands them. A volatile, relaxed or acquire
// load ends the turn of its warp, so that a loop which waits for another warp or block makes progress.
#include "sim/ptx/ptx_lanes.h"
#include "sim/ptx/ptx_race.h"

#include <algorithm>
#include <cstring>

namespace ptx {
// The allocation or variable that contains [lo, hi), null if there is none.
static const Ranges *in_allocation(Launch &g, uint64_t lo, uint64_t hi) {
    for (auto &r : g.recent)
        if (lo >= r.lo && hi <= r.hi) return &r;
    for (auto &r : g.kernel->variables)
        if (lo >= r.lo && hi <= r.hi) return &r;
    Ranges r;
    if (g.find == nullptr || !g.find(lo, &r.lo, &r.hi) || hi > r.hi) return nullptr;
    if (g.marks != nullptr) r.written = g.marks(lo);
    return &(g.recent[g.next_recent++ % 4] = r);
}
static const char *space_name(Space s) {
    static const char *const names[] = {"generic", "global", "shared", "local", "parameter", "constant"};
    return names[(int)s];
}
// The bytes and the marks of one lane's access in a space that belongs to the block, warp or launch.
static char *window(Warp &w, Space space, int l, uint64_t a, size_t bytes, char **init) {
    vector<char> &shared = w.block->shared;
    const size_t  each   = w.kernel->body.local_bytes;
    *init                = nullptr;
    if (space == Space::shared) {
        const uint64_t at = a - SHARED_FIRST;
        if (a < SHARED_FIRST || at + bytes > shared.size()) return nullptr;
        *init = w.block->shared_init.data() + at;
        return shared.data() + at;
    }
    if (space == Space::local) {
        const uint64_t at = a - LOCAL_FIRST;
        if (a < LOCAL_FIRST || at + bytes > each) return nullptr;
        *init = w.local_init.data() + (size_t)l * each + at;
        return w.local.data() + (size_t)l * each + at;
    }
    if (a + bytes > w.block->launch->params.size()) return nullptr;
    return w.block->launch->params.data() + a;
}
static void check_init(Warp &w, Space space, int l, uint64_t a, char *init, size_t bytes, bool write) {
    if (write)
        memset(init, 1, bytes);
    else if (memchr(init, 0, bytes) != nullptr)
        fail_at(w, l, "reads %zu bytes of %s memory at 0x%llx that were not written", bytes, space_name(space),
                (unsigned long long)a);
}
// Whether all lanes are aligned and inside [lo, end): for such an address a, neither a - lo nor end - bytes - a is
// negative.
static bool all_inside(const uint64_t *a, uint32_t lanes, uint64_t lo, uint64_t end, uint64_t bytes) {
    const uint64_t last = end - bytes, sign = 1ull << 63;
    uint64_t       bad = 0;
    for (int l = 0; l < 32; l++) {
        const uint64_t on = 0 - (uint64_t)(lanes >> l & 1);
        bad |= on & ((((a[l] - lo) | (last - a[l])) & sign) | (a[l] & (bytes - 1)));
    }
    return bad == 0;
}
// The marks of memory that begins at address 0, one byte each, looked at in units of a byte or of four. False if a lane
// reads what nobody wrote.
template <class Unit> bool unit_marks(Warp &w, char *init, uint32_t lanes, size_t bytes, bool write) {
    const Unit written = (Unit)0x01010101;
    Unit       all     = written;
    for (uint32_t m = lanes; m; m &= m - 1)
        for (size_t k = 0; k < bytes; k += sizeof(Unit)) {
            char *p = init + w.address[__builtin_ctz(m)] + k;
            if (write)
                memcpy(p, &written, sizeof written);
            else {
                Unit v;
                memcpy(&v, p, sizeof v);
                all &= v;
            }
        }
    return all == written;
}
static bool marks(Warp &w, char *init, uint32_t lanes, size_t bytes, bool write) {
    return bytes < 4 ? unit_marks<uint8_t>(w, init, lanes, bytes, write)
                     : unit_marks<uint32_t>(w, init, lanes, bytes, write);
}
// The common cases: global memory in an allocation seen before, shared memory in words. False: look at each lane.
static bool resolve_at_once(Warp &w, const Inst &i, uint32_t lanes, bool write, char **host) {
    const size_t    bytes = (size_t)i.bytes * i.count;
    const uint64_t *a     = w.address;
    uint64_t        base  = 0;
    if (i.space == Space::shared) {
        vector<char> &shared = w.block->shared;
        if (bytes < 4 || !all_inside(a, lanes, SHARED_FIRST, SHARED_FIRST + shared.size(), bytes)) return false;
        if (!marks(w, w.block->shared_init.data() - SHARED_FIRST, lanes, bytes, write)) return false;
        base = (uint64_t)shared.data() - SHARED_FIRST;
    } else {
        const Ranges *found = nullptr;
        if (i.space == Space::global || i.space == Space::generic)
            for (auto &r : w.block->launch->recent)
                if (found == nullptr && all_inside(a, lanes, r.lo, r.hi, bytes)) found = &r;
        if (found == nullptr) return false;
        if (found->written != nullptr && !marks(w, found->written - found->lo, lanes, bytes, write)) return false;
    }
    for (int l = 0; l < 32; l++) host[l] = reinterpret_cast<char *>(base + a[l]);
    return true;
}
void resolve(Warp &w, const Inst &i, uint32_t lanes, bool write, char **host) {
    uint64_t    *a     = w.address;
    const size_t bytes = (size_t)i.bytes * i.count;
    if (i.wide == 1) {
        const uint64_t *base = w.at<uint64_t>(i.s[0]);
        for (int l = 0; l < 32; l++) a[l] = base[l] + (uint64_t)i.offset;
    } else if (i.wide == 0) {
        const uint32_t *base = w.at<uint32_t>(i.s[0]);
        for (int l = 0; l < 32; l++) a[l] = (uint32_t)(base[l] + (uint32_t)i.offset);
    } else
        for (int l = 0; l < 32; l++) a[l] = (uint64_t)i.offset;
    if (resolve_at_once(w, i, lanes, write, host)) return;
    uint64_t lo = ~0ull, hi = 0, low_bits = 0;
    for (int l = 0; l < 32; l++) {
        const bool on = lanes >> l & 1;
        lo            = on && a[l] < lo ? a[l] : lo;
        hi            = on && a[l] > hi ? a[l] : hi;
        low_bits |= on ? a[l] : 0;
    }
    if (low_bits & (bytes - 1))
        for (uint32_t m = lanes; m; m &= m - 1)
            if (a[__builtin_ctz(m)] & (bytes - 1))
                fail_at(w, __builtin_ctz(m), "%zu bytes at the misaligned address 0x%llx", bytes,
                        (unsigned long long)a[__builtin_ctz(m)]);
    const bool    plain = (i.space == Space::global || i.space == Space::generic) && hi < WINDOW;
    const Ranges *one   = plain ? in_allocation(*w.block->launch, lo, hi + bytes) : nullptr;
    if (one != nullptr && (one->written == nullptr || marks(w, one->written - one->lo, lanes, bytes, write))) {
        for (int l = 0; l < 32; l++) host[l] = reinterpret_cast<char *>(a[l]);
        return;
    }
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int   l        = __builtin_ctz(m);
        Space       space    = i.space;
        uint64_t    at       = a[l];
        char       *init     = nullptr;
        const Space by_top[] = {Space::global, Space::shared, Space::local, Space::param};
        if (space == Space::generic && at >> 56 < 4) space = by_top[at >> 56], at &= WINDOW - 1;
        if (space == Space::global || space == Space::generic) {
            space           = Space::global;
            const Ranges *r = in_allocation(*w.block->launch, at, at + bytes);
            host[l]         = r != nullptr ? reinterpret_cast<char *>(at) : nullptr;
            init            = r != nullptr && r->written != nullptr ? r->written + (at - r->lo) : nullptr;
        } else
            host[l] = window(w, space, l, at, bytes, &init);
        if (host[l] == nullptr)
            fail_at(w, l, "%s %zu bytes outside %s memory, at 0x%llx", write ? "writes" : "reads", bytes,
                    space_name(space), (unsigned long long)at);
        if (write && space == Space::param) fail_at(w, l, "writes a kernel parameter");
        if (init != nullptr) check_init(w, space, l, at, init, bytes, write);
    }
}

namespace {
enum Strength : uint8_t { WEAK, STRONG, ACQUIRE, RELEASE };
// M: an element in memory, R: in a register.
template <class M, class R> void load(Warp &w, const Inst &i, uint32_t lanes) {
    char *host[32];
    resolve(w, i, lanes, false, host);
    if (i.sub == 0)
        check_race(w, i, lanes, Access::read, host);
    else
        strong_load(w);
    for (int k = 0; k < i.count; k++) {
        R *d = w.reg<R>(i.d[k]);
        for (uint32_t m = lanes; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            M         v;
            memcpy(&v, host[l] + (size_t)k * sizeof v, sizeof v);
            d[l] = (R)v;
        }
    }
    if (i.sub != 0) w.state = State::yields;
    if (i.sub == ACQUIRE) fence(w);
}
template <class M, class R> void store(Warp &w, const Inst &i, uint32_t lanes) { // values in d
    char *host[32];
    resolve(w, i, lanes, true, host);
    if (i.sub == 0) check_race(w, i, lanes, Access::write, host);
    if (i.sub == RELEASE) fence(w);
    if (i.sub != WEAK) publish(w);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        for (int k = 0; k < i.count; k++) {
            const M v = (M)w.at<R>(i.d[k])[l];
            memcpy(host[l] + (size_t)k * sizeof v, &v, sizeof v);
        }
    }
}
template <class M, bool STORE> Exec *pick_register(int bytes) {
    if (bytes < (int)sizeof(M)) return nullptr;
    if (STORE) return bytes == 2 ? store<M, uint16_t> : bytes == 4 ? store<M, uint32_t> : store<M, uint64_t>;
    return bytes == 2 ? load<M, uint16_t> : bytes == 4 ? load<M, uint32_t> : load<M, uint64_t>;
}
template <bool STORE> Exec *pick_memory(Type t, int bytes) {
    switch (t) {
    case Type::b8:
    case Type::u8:
        return pick_register<uint8_t, STORE>(bytes);
    case Type::s8:
        return pick_register<int8_t, STORE>(bytes);
    case Type::b16:
    case Type::u16:
    case Type::f16:
    case Type::bf16:
        return pick_register<uint16_t, STORE>(bytes);
    case Type::s16:
        return pick_register<int16_t, STORE>(bytes);
    case Type::b32:
    case Type::u32:
    case Type::f32:
        return pick_register<uint32_t, STORE>(bytes);
    case Type::s32:
        return pick_register<int32_t, STORE>(bytes);
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
        return pick_register<uint64_t, STORE>(bytes);
    default:
        return nullptr;
    }
}
Space space_of(const Decoder &d) {
    if (d.has("global")) return Space::global;
    if (d.has("shared") || d.has("shared::cta")) return Space::shared;
    if (d.has("local")) return Space::local;
    if (d.has("param") || d.has("param::entry") || d.has("param::func")) return Space::param;
    return d.has("const") ? Space::constant : Space::generic;
}
Exec *decode_load_store(Decoder &d, bool st) {
    const Type     t = d.type();
    const Operand &v = d.s.args.at(st ? 1 : 0);
    d.address(d.s.args.at(st ? 0 : 1), space_of(d));
    const bool   is_vector = v.kind == Operand::VECTOR;
    const size_t n         = is_vector ? v.list.size() : 1;
    if (n > 4 || n != (d.has("v2") ? 2u : d.has("v4") ? 4u : 1u)) return nullptr;
    int bytes = bytes_of(t);
    for (size_t k = 0; k < n; k++) {
        const Operand &e = is_vector ? v.list[k] : v;
        if (e.kind == Operand::REG) bytes = bytes_of(d.k.body.regs[(size_t)e.reg]);
        if (st && e.kind == Operand::NUMBER && bytes < 2) bytes = 2;
        d.i.d[k] = st ? d.src_of(e, bytes) : d.dst_of(e.reg, bytes);
    }
    d.i.bytes = (uint8_t)bytes_of(t);
    d.i.count = (uint8_t)n;
    d.i.flags = (uint8_t)(INST_MEMORY | (st ? INST_STORE : 0));
    d.i.sub   = d.has("acquire")                        ? ACQUIRE
                : d.has("release")                      ? RELEASE
                : d.has("volatile") || d.has("relaxed") ? STRONG
                                                        : WEAK;
    return st ? pick_memory<true>(t, bytes) : pick_memory<false>(t, bytes);
}

void nothing(Warp &, const Inst &, uint32_t) {}
void device_fence(Warp &w, const Inst &, uint32_t) { fence(w); }
// A prefetch of an address outside memory is allowed. Only the addresses are noted.
void prefetch(Warp &w, const Inst &i, uint32_t) {
    const uint64_t *base = w.at<uint64_t>(i.s[0]);
    for (int l = 0; l < 32; l++) w.address[l] = base[l] + (uint64_t)i.offset;
}

// cp.async.bulk.prefetch.L2: like a load, none may reach beyond its memory, which a device would not report. Both
// numbers are multiples of 16 (9.7.9.25.5).
void prefetch_bytes(Warp &w, const Inst &i, uint32_t lanes) {
    const uint64_t *base  = w.at<uint64_t>(i.s[0]);
    const uint32_t *bytes = w.at<uint32_t>(i.s[1]);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int      l = __builtin_ctz(m);
        const uint64_t p = base[l] + (uint64_t)i.offset;
        if (p % 16 != 0 || bytes[l] % 16 != 0)
            fail_at(w, l, "a prefetch of %u bytes at 0x%llx: both must be multiples of 16", bytes[l],
                    (unsigned long long)p);
        if (in_allocation(*w.block->launch, p, p + bytes[l]) == nullptr)
            fail_at(w, l, "a prefetch of %u bytes at 0x%llx is not within memory", bytes[l], (unsigned long long)p);
    }
    for (int l = 0; l < 32; l++) w.address[l] = base[l] + (uint64_t)i.offset;
}

// cp.async: the bytes land at the wait that covers the copy, and the target counts as not written until then,
// so a missing wait shows (9.7.9.25).
void copy_async(Warp &w, const Inst &i, uint32_t lanes) {
    char *from[32], *to[32];
    Inst  source = i;
    source.space = Space::global, source.s[0] = i.s[1], source.wide = 1, source.offset = (int64_t)(int32_t)i.target;
    resolve(w, i, lanes, true, to);
    check_race(w, i, lanes, Access::write, to);
    memcpy(w.target, w.address, sizeof w.target);
    resolve(w, source, lanes, false, from);
    check_race(w, source, lanes, Access::read, from);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l    = __builtin_ctz(m);
        const int read = i.sub ? (int)std::min(w.at<uint32_t>(i.s[2])[l], (uint32_t)i.bytes) : i.bytes;
        memset(w.block->shared_init.data() + (to[l] - w.block->shared.data()), 0, i.bytes);
        w.copies.push_back({to[l], from[l], read, i.bytes - read});
    }
}
void commit(Warp &w, const Inst &, uint32_t) { w.groups.push_back(w.copies.size()); }
void wait_copies(Warp &w, const Inst &i, uint32_t) { // all groups but the last `target`; all copies if sub
    size_t upto = w.copies.size();
    if (!i.sub) upto = w.groups.size() <= i.target ? 0 : w.groups[w.groups.size() - i.target - 1];
    for (size_t k = 0; k < upto; k++) {
        auto &c = w.copies[k];
        memcpy(c.dst, c.src, (size_t)c.bytes);
        memset(c.dst + c.bytes, 0, (size_t)c.zero);
        memset(w.block->shared_init.data() + (c.dst - w.block->shared.data()), 1, (size_t)(c.bytes + c.zero));
    }
    w.copies.erase(w.copies.begin(), w.copies.begin() + (long)upto);
    while (!w.groups.empty() && w.groups.front() <= upto) w.groups.erase(w.groups.begin());
    for (auto &g : w.groups) g -= upto;
}
Exec *decode_async(Decoder &d) {
    if (d.has("commit_group")) return commit;
    if (d.has("wait_all") || d.has("wait_group")) {
        d.i.sub    = d.has("wait_all");
        d.i.target = d.i.sub ? 0 : (uint32_t)d.s.args.at(0).number;
        return wait_copies;
    }
    if (d.has("bulk") && d.has("prefetch") && d.has("L2") && d.s.args.size() == 2) {
        d.i.s[1] = d.src(1, Type::u32);
        d.address(d.s.args[0], Space::global);
        if (d.i.wide != 1) return nullptr;
        d.i.bytes = d.i.count = 1;
        d.i.flags             = INST_MEMORY;
        return prefetch_bytes;
    }
    if (d.s.args.size() < 3 || d.has("bulk")) return nullptr;
    d.address(d.s.args[1], Space::global);
    if (d.i.wide != 1) return nullptr;
    d.i.s[1]   = d.i.s[0];
    d.i.target = (uint32_t)d.i.offset;
    d.address(d.s.args[0], Space::shared);
    d.i.bytes = (uint8_t)d.s.args[2].number;
    d.i.count = 1;
    d.i.flags = INST_MEMORY;
    d.i.sub   = d.s.args.size() > 3;
    if (d.i.sub) d.i.s[2] = d.src(3, Type::u32);
    return copy_async;
}
} // namespace

Exec *decode_memory(Decoder &d) {
    const string_view op = d.parts[0];
    if (op == "ld" || op == "ldu") return decode_load_store(d, false);
    if (op == "st") return decode_load_store(d, true);
    if (op == "membar" || op == "fence") return d.has("cta") ? nothing : device_fence;
    if (op == "cp" && d.has("async")) return decode_async(d);
    if (op != "prefetch") return nullptr;
    d.address(d.s.args.at(0), Space::global);
    if (d.i.wide != 1) return nullptr;
    d.i.bytes = d.i.count = 1;
    d.i.flags             = INST_MEMORY;
    return prefetch;
}
} // namespace ptx
