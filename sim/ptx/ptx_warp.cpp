// ptx_warp.cpp - exchange between lanes: shfl, vote, match, redux, activemask, bar.warp (sections 9.7.9.6,
// 9.7.13).
//
// The lanes that a mask names must execute the instruction together. A lane of the mask that has not returned
// but is on another path is an error, and so is a shuffle that reads a lane which takes no part.
#include "sim/ptx/ptx_lanes.h"

namespace ptx {
namespace {
// The lanes of the mask, which is the same for all lanes that execute this.
uint32_t members(Warp &w, int32_t mask_slot, uint32_t lanes) {
    const uint32_t *mask = w.at<uint32_t>(mask_slot);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (!(mask[l] >> l & 1)) fail_at(w, l, "the lane is not in its mask 0x%08x", mask[l]);
        const uint32_t absent = mask[l] & w.live & ~lanes;
        if (absent != 0) fail_at(w, l, "mask 0x%08x names lanes 0x%08x, which are on another path", mask[l], absent);
        if (mask[l] & w.exist & ~w.live)
            fail_at(w, l, "mask 0x%08x names lanes 0x%08x, which have returned", mask[l], mask[l] & w.exist & ~w.live);
    }
    return mask[__builtin_ctz(lanes)];
}
// shfl: lane j is the source, p whether it is in the segment (9.7.9.6); c = segment mask << 8 | clamp.
//     up    j = l - b, p = j >= max          down  j = l + b, p = j <= max
//     bfly  j = l ^ b, p = j <= max          idx   j = min_lane | (b & ~segment), p = j <= max
// with max = (l & segment) | (clamp & ~segment), min_lane = l & segment; j = l where p is false.
enum Mode : uint8_t { UP, DOWN, BFLY, IDX, WANTS_P = 4 };
void shfl(Warp &w, const Inst &i, uint32_t lanes) {
    members(w, i.s[3], lanes);
    uint32_t        value[32], p = 0;
    const uint32_t *a = w.at<uint32_t>(i.s[0]), *b = w.at<uint32_t>(i.s[1]), *c = w.at<uint32_t>(i.s[2]);
    for (int l = 0; l < 32; l++) value[l] = a[l];
    uint32_t *d = w.reg<uint32_t>(i.d[0]);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m), segment = (int)(c[l] >> 8 & 31), clamp = (int)(c[l] & 31), n = (int)(b[l] & 31);
        const int max = (l & segment) | (clamp & ~segment), first = l & segment;
        const int mode = i.sub & 3;
        int       j    = mode == UP ? l - n : mode == DOWN ? l + n : mode == BFLY ? l ^ n : first | (n & ~segment);
        const bool in  = mode == UP ? j >= max : j <= max;
        if (!in) j = l;
        if (!(lanes >> j & 1)) fail_at(w, l, "shfl reads lane %d, which takes no part", j);
        p |= (uint32_t)in << l;
        d[l] = value[j];
    }
    if (i.sub & WANTS_P) put_mask(w, i.d[1], lanes, p);
}
Exec *decode_shfl(Decoder &d) {
    d.i.sub  = d.has("up") ? UP : d.has("down") ? DOWN : d.has("bfly") ? BFLY : IDX;
    d.i.d[0] = d.dst(0, 4);
    if (d.s.args[0].pair >= 0) {
        d.i.sub |= WANTS_P;
        d.i.d[1] = d.dst_of(d.s.args[0].pair, 4);
    }
    for (size_t k = 0; k < 4; k++) d.i.s[k] = d.src(k + 1, Type::u32);
    return d.has("sync") && d.has("b32") ? shfl : nullptr;
}
// vote: sub 0 all, 1 any, 2 uni, 3 ballot; 4 added: the predicate is inverted.
void vote(Warp &w, const Inst &i, uint32_t lanes) {
    members(w, i.s[1], lanes);
    uint32_t p = *w.at<uint32_t>(i.s[0]);
    if (i.sub & 4) p = ~p;
    p &= lanes;
    const int kind = i.sub & 3;
    if (kind == 3) {
        each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int) { return p; });
        return;
    }
    const bool r = kind == 0 ? p == lanes : kind == 1 ? p != 0 : p == lanes || p == 0;
    put_mask(w, i.d[0], lanes, r ? lanes : 0);
}
Exec *decode_vote(Decoder &d) {
    d.i.sub  = (uint8_t)((d.has("all")   ? 0
                          : d.has("any") ? 1
                          : d.has("uni") ? 2
                                         : 3) |
                        (d.s.args.at(1).inverted ? 4 : 0));
    d.i.d[0] = d.dst(0, 4);
    d.i.s[0] = d.src(1, Type::pred);
    d.i.s[1] = d.src(2, Type::u32);
    return d.has("sync") ? vote : nullptr;
}
template <class T> void match(Warp &w, const Inst &i, uint32_t lanes) { // sub 0 any, 1 all
    members(w, i.s[1], lanes);
    const T *a = w.at<T>(i.s[0]);
    uint32_t r[32];
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        r[l]        = 0;
        for (uint32_t o = lanes; o; o &= o - 1)
            if (a[__builtin_ctz(o)] == a[l]) r[l] |= o & -o;
        if (i.sub) r[l] = r[l] == lanes ? lanes : 0;
    }
    active_lanes(w.reg<uint32_t>(i.d[0]), lanes, [&](int l) { return r[l]; });
    if (i.sub == 2) put_mask(w, i.d[1], lanes, r[__builtin_ctz(lanes)] != 0 ? lanes : 0);
}
template <class T> void redux(Warp &w, const Inst &i, uint32_t lanes) {
    members(w, i.s[1], lanes);
    const T *a = w.at<T>(i.s[0]);
    T        r = a[__builtin_ctz(lanes)];
    for (uint32_t m = lanes & (lanes - 1); m; m &= m - 1) {
        const T v = a[__builtin_ctz(m)];
        switch (i.sub) {
        case 0:
            r = (T)((uint32_t)r + (uint32_t)v);
            break;
        case 1:
            r = v < r ? v : r;
            break;
        case 2:
            r = v > r ? v : r;
            break;
        case 3:
            r &= v;
            break;
        case 4:
            r |= v;
            break;
        default:
            r ^= v;
        }
    }
    each_lane(w.reg<T>(i.d[0]), lanes, [=](int) { return r; });
}
Exec *decode_reduction(Decoder &d) {
    const Type t = d.type();
    d.i.d[0]     = d.dst(0, 4);
    d.i.s[0]     = d.src(1, t);
    d.i.s[1]     = d.src(2, Type::u32);
    if (d.parts[0] == "match") {
        d.i.sub = d.has("all");
        if (d.s.args[0].pair >= 0) {
            d.i.sub  = 2;
            d.i.d[1] = d.dst_of(d.s.args[0].pair, 4);
        }
        return bytes_of(t) == 8 ? match<uint64_t> : match<uint32_t>;
    }
    d.i.sub = d.has("add") ? 0 : d.has("min") ? 1 : d.has("max") ? 2 : d.has("and") ? 3 : d.has("or") ? 4 : 5;
    if (is_float(t)) return nullptr;
    return is_signed(t) ? redux<int32_t> : redux<uint32_t>;
}
void activemask(Warp &w, const Inst &i, uint32_t lanes) {
    each_lane(w.reg<uint32_t>(i.d[0]), lanes, [=](int) { return lanes; });
}
void warp_barrier(Warp &w, const Inst &i, uint32_t lanes) {
    members(w, i.s[0], lanes);
    w.epoch++;
}
} // namespace

Exec *decode_warp(Decoder &d) {
    const string_view op = d.parts[0];
    if (op == "shfl") return decode_shfl(d);
    if (op == "vote") return decode_vote(d);
    if (op == "match" || op == "redux") return decode_reduction(d);
    if (op == "activemask") {
        d.i.d[0] = d.dst(0, 4);
        return activemask;
    }
    if (op == "bar" && d.has("warp")) {
        d.i.s[0] = d.src(0, Type::u32);
        return warp_barrier;
    }
    return nullptr;
}
} // namespace ptx
