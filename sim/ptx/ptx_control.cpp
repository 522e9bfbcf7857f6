// ptx_control.cpp - branches, barriers, return and what a launch promises (sections 9.7.12, 9.7.13.1, 9.7.14).
//
// Paths of a warp. A branch that only some lanes take puts the others on the stack, and below them an entry
// where both meet, the immediate post-dominator (ptx_flow.cpp):
//
//     running: taken path, to the join      stack: { other lanes, to the join } above { all lanes, from the join on }
//
// The running path ends when its pc is its join; then the entry on top runs. No entry is made for lanes that
// are at the join already, nor a second one for a join that the running path has, so a loop does not grow the
// stack.
#include "sim/ptx/ptx_lanes.h"

#include <cstring>

void cudaGraphSetConditional(unsigned long long handle, unsigned value); // of tests/cudasim

namespace ptx {
void pop_path(Warp &w) {
    while (!w.stack.empty()) {
        const Frame f = w.stack.back();
        w.stack.pop_back();
        if ((f.lanes & w.live) == 0) continue;
        w.pc    = f.pc;
        w.join  = f.join;
        w.lanes = f.lanes & w.live;
        return;
    }
    if (w.live == 0)
        w.state = State::done;
    else
        fail_at(w, __builtin_ctz(w.live), "the paths of the warp have ended and lanes 0x%08x have not returned",
                w.live);
}
void leave(Warp &w, uint32_t lanes) {
    w.live &= ~lanes;
    w.lanes &= ~lanes;
    if (w.lanes == 0) pop_path(w);
}

// The lanes of a frame that neither run nor have a path of their own above it.
static uint32_t waiting_lanes(const Warp &w, size_t frame) {
    uint32_t taken = w.lanes;
    for (size_t k = frame + 1; k < w.stack.size(); k++) taken |= w.stack[k].lanes;
    return w.stack[frame].lanes & w.live & ~taken;
}
// Puts the running path on the stack and runs the one that waits longest, so that lanes which spin for others of their
// warp let them go on. First paths that have not begun or were interrupted; with `split` also lanes that wait at a
// join:
//
//     running: lanes 0-7, spin    stack: { 0-31 at the join } below { 8-15, a path }    lanes 16-31 wait at the join
//     switch         running: 8-15            stack: { 0-31 at the join } { 0-7, spin }
//     split          running: 16-31 from the join on; they meet the others no more before the outer join
bool switch_path(Warp &w, bool split) {
    for (size_t k = 0; k < w.stack.size(); k++) {
        const Frame    f    = w.stack[k];
        const uint32_t wait = waiting_lanes(w, k);
        const bool     path = wait == (f.lanes & w.live);
        if (wait == 0 || path == split) continue;
        if (path)
            w.stack.erase(w.stack.begin() + (long)k);
        else
            w.stack[k].lanes &= ~wait;
        w.stack.push_back({w.pc, w.join, w.lanes});
        w.pc = f.pc, w.join = f.join, w.lanes = wait;
        return true;
    }
    return false;
}
void finish_reduction(Warp &w, uint32_t true_threads, uint32_t threads) {
    const Inst &i = *w.reduction;
    if (i.count == 0)
        each_lane(w.reg<uint32_t>(i.d[0]), w.live, [=](int) { return true_threads; });
    else
        put_mask(w, i.d[0], w.live, (i.count == 1 ? true_threads == threads : true_threads != 0) ? w.live : 0);
}

namespace {
void branch(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t others = w.lanes & ~lanes;
    if (others == 0) {
        w.pc = i.target;
        return;
    }
    if (i.join != w.join) w.stack.push_back({i.join, w.join, w.lanes});
    if (w.pc != i.join) w.stack.push_back({w.pc, i.join, others});
    w.pc    = i.target;
    w.join  = i.join;
    w.lanes = lanes;
}
// The check in front of the comparisons that a brx.idx became (ptx_parse.cpp).
void check_index(Warp &w, const Inst &i, uint32_t lanes) {
    const uint32_t *index = w.at<uint32_t>(i.s[0]), n = *w.at<uint32_t>(i.s[1]);
    for (uint32_t m = lanes; m; m &= m - 1)
        if (index[__builtin_ctz(m)] >= n)
            fail_at(w, __builtin_ctz(m), "index %u of %u targets", index[__builtin_ctz(m)], n);
}
void leave_warp(Warp &w, const Inst &, uint32_t lanes) { leave(w, lanes); }
void trap(Warp &w, const Inst &, uint32_t lanes) { fail_at(w, __builtin_ctz(lanes), "trap"); }

// All lanes of a warp that have not returned must come together. s[0], s[1]: number, threads (0: all); s[2]: the
// predicate of bar.red, count: 0 popc, 1 and, 2 or.
enum : uint8_t { COUNTED = 1, ARRIVES = 2, REDUCES = 4, INVERTED = 8 };
void barrier(Warp &w, const Inst &i, uint32_t lanes) {
    if (lanes != w.live)
        fail_at(w, __builtin_ctz(w.live & ~lanes), "divergent barrier: lanes 0x%08x wait, 0x%08x are on another path",
                lanes, w.live & ~lanes);
    const int l       = __builtin_ctz(lanes);
    w.barrier         = w.at<uint32_t>(i.s[0])[l];
    w.barrier_threads = i.sub & COUNTED ? w.at<uint32_t>(i.s[1])[l] : 0;
    if (i.sub & ARRIVES) { // the warp goes on
        w.block->arrived[w.barrier] += 32;
        return;
    }
    w.reduction = i.sub & REDUCES ? &i : nullptr;
    if (i.sub & REDUCES) w.votes = lanes & (i.sub & INVERTED ? ~*w.at<uint32_t>(i.s[2]) : *w.at<uint32_t>(i.s[2]));
    w.state = State::barrier;
}
void yield(Warp &w, const Inst &, uint32_t) { w.state = State::yields; }
void nothing(Warp &, const Inst &, uint32_t) {}
void grid_wait(Warp &w, const Inst &, uint32_t) {
    Block     &b     = *w.block;
    Launch    &g     = *b.launch;
    const bool first = !b.waited && b.x + b.y + b.z == 0;
    b.waited         = true;
    if (first && g.waited != nullptr) g.waited(g.name);
}

// cudaGraphSetConditional(handle, value); offset and target: where the two arguments are in local memory.
void set_conditional(Warp &w, const Inst &i, uint32_t lanes) {
    for (uint32_t m = lanes; m; m &= m - 1) {
        const size_t       at = (size_t)__builtin_ctz(m) * w.kernel->body.local_bytes;
        unsigned long long handle;
        unsigned           value;
        memcpy(&handle, w.local.data() + at + i.offset, sizeof handle);
        memcpy(&value, w.local.data() + at + i.target, sizeof value);
        cudaGraphSetConditional(handle, value);
    }
}
Exec *decode_call(Decoder &d) {
    const string_view name = d.s.args.at(0).word;
    if (name != "cudaGraphSetConditional" || d.s.args.size() != 3)
        d.bad(("call of " + string(name) + ", which has no body").c_str());
    d.i.offset = (int64_t)d.s.args[1].symbol->at;
    d.i.target = (uint32_t)d.s.args[2].symbol->at;
    return set_conditional;
}
Exec *decode_barrier(Decoder &d) {
    const size_t n = d.s.args.size(), first = d.has("red") ? 1 : 0, last = d.has("red") ? n - 1 : n;
    if (d.has("cluster") || n <= first || (d.has("arrive") && n != 2)) return nullptr;
    d.i.s[0] = d.src(first, Type::u32);
    d.i.sub  = 0;
    if (last - first > 1) d.i.sub = COUNTED, d.i.s[1] = d.src(first + 1, Type::u32);
    if (d.has("arrive")) d.i.sub |= ARRIVES;
    if (!d.has("red")) return barrier;
    d.i.sub |= (uint8_t)(REDUCES | (d.s.args[last].inverted ? INVERTED : 0));
    d.i.count = d.has("popc") ? 0 : d.has("and") ? 1 : 2;
    d.i.d[0]  = d.dst(0, 4);
    d.i.s[2]  = d.src(last, Type::pred);
    return barrier;
}
} // namespace

Exec *decode_flow(Decoder &d) {
    const string_view op = d.parts[0];
    if (op == "bra") {
        d.i.flags = INST_BRANCH;
        return branch;
    }
    if (op == "brx" && d.s.args.size() == 2) {
        d.i.s[0] = d.src(0, Type::u32);
        d.i.s[1] = d.src(1, Type::u32);
        return check_index;
    }
    if (op == "ret" || op == "exit") return leave_warp;
    if (op == "bar" || op == "barrier") return decode_barrier(d);
    if (op == "call") return decode_call(d);
    if (op == "trap") return trap;
    if (op == "nanosleep") return yield;
    if (op == "griddepcontrol") return d.has("wait") ? grid_wait : nothing;
    return nullptr;
}
} // namespace ptx
