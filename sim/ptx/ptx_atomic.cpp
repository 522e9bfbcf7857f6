// ptx_atomic.cpp - atom and red (sections 9.7.13.5 and 9.7.13.7). The lanes of a warp go one after the other,
// in their order. The scope and the memory order are ignored, since memory is sequentially consistent here.
#include "sim/ptx/ptx_lanes.h"
#include "sim/ptx/ptx_race.h"

#include <cmath>
#include <cstring>

namespace ptx {
namespace {
enum : uint32_t { RELEASE = 1, ACQUIRE = 2 };
#define OP(Name, expression)                                                                                           \
    struct Name {                                                                                                      \
        template <class T> static T f(T old, T a, T b) {                                                               \
            (void)old, (void)a, (void)b;                                                                               \
            return (T)(expression);                                                                                    \
        }                                                                                                              \
    };
OP(Add, old + a)
OP(Exch, a)
OP(Cas, old == a ? b : old)
OP(Min, a < old ? a : old)
OP(Max, a > old ? a : old)
OP(Inc, old >= a ? (T)0 : (T)(old + 1))
OP(Dec, old == 0 || old > a ? a : (T)(old - 1))
OP(And, old &a)
OP(Or, old | a)
OP(Xor, old ^ a)

template <class T, class O> void atomic(Warp &w, const Inst &i, uint32_t lanes) { // sub: the result is wanted
    char *host[32];
    resolve(w, i, lanes, false, host);
    check_race(w, i, lanes, Access::atomic, host);
    if (i.target & RELEASE) fence(w);
    if (i.space != Space::shared) { // other blocks do not see those of shared memory
        publish(w);
        strong_load(w);
    }
    if (i.target & ACQUIRE) fence(w);
    const T *a = w.at<T>(i.s[1]), *b = w.at<T>(i.s[2]);
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        T         old;
        memcpy(&old, host[l], sizeof old);
        const T v = O::template f<T>(old, a[l], b[l]);
        memcpy(host[l], &v, sizeof v);
        if (i.sub) w.reg<T>(i.d[0])[l] = old;
    }
    w.state = State::yields;
}
template <class O> Exec *pick_bits(Type t) {
    return bytes_of(t) == 4 ? atomic<uint32_t, O> : bytes_of(t) == 8 ? atomic<uint64_t, O> : atomic<uint16_t, O>;
}
template <class O> Exec *pick_order(Type t) {
    if (is_signed(t)) return bytes_of(t) == 4 ? atomic<int32_t, O> : atomic<int64_t, O>;
    return bytes_of(t) == 4 ? atomic<uint32_t, O> : atomic<uint64_t, O>;
}
Exec *pick(const Decoder &d, Type t) {
    if (d.has("add"))
        return t == Type::f32   ? atomic<float, Add>
               : t == Type::f64 ? atomic<double, Add>
               : is_float(t)    ? nullptr
                                : pick_bits<Add>(t);
    if (is_float(t)) return nullptr;
    if (d.has("exch")) return pick_bits<Exch>(t);
    if (d.has("cas")) return pick_bits<Cas>(t);
    if (d.has("min")) return pick_order<Min>(t);
    if (d.has("max")) return pick_order<Max>(t);
    if (d.has("inc")) return atomic<uint32_t, Inc>;
    if (d.has("dec")) return atomic<uint32_t, Dec>;
    if (d.has("and")) return pick_bits<And>(t);
    if (d.has("or")) return pick_bits<Or>(t);
    return d.has("xor") ? pick_bits<Xor>(t) : nullptr;
}
} // namespace

Exec *decode_atomic(Decoder &d) {
    const bool atom = d.parts[0] == "atom";
    if (!atom && d.parts[0] != "red") return nullptr;
    const Type   t    = d.type();
    const size_t from = atom ? 1 : 0;
    if (d.has("vec_32_bit") || d.has("v2") || d.has("v4")) return nullptr;
    d.address(d.s.args.at(from), d.has("global")                           ? Space::global
                                 : d.has("shared") || d.has("shared::cta") ? Space::shared
                                                                           : Space::generic);
    d.i.s[1]   = d.src(from + 1, t);
    d.i.s[2]   = d.has("cas") ? d.src(from + 2, t) : d.i.s[1];
    d.i.sub    = atom && !(d.s.args[0].kind == Operand::WORD && d.s.args[0].word == "_");
    d.i.bytes  = (uint8_t)bytes_of(t);
    d.i.count  = 1;
    d.i.target = 0;
    if (d.has("release") || d.has("acq_rel")) d.i.target |= RELEASE;
    if (d.has("acquire") || d.has("acq_rel")) d.i.target |= ACQUIRE;
    d.i.flags = INST_MEMORY | INST_STORE;
    if (d.i.sub) d.i.d[0] = d.dst(0, bytes_of(t));
    return pick(d, t);
}
} // namespace ptx
