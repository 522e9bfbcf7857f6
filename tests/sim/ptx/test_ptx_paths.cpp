// test_ptx_paths.cpp - divergence, loops, calls, barriers, exchange between lanes, shared and local memory,
// waits between blocks; and the diagnostics, each with the text it must contain.
#include "tests/sim/ptx/test_ptx.h"

#include <algorithm>

static std::vector<Cell> ran(const std::string &text, size_t n, const Shape &shape = {}) {
    std::vector<Cell> cells(n);
    for (size_t k = 0; k < n; k++) cells[k] = {k, 3 * k, 0, 0};
    execute(text, cells, shape);
    return cells;
}
template <class F> static void check(const char *name, const std::vector<Cell> &cells, F want) {
    for (size_t k = 0; k < cells.size(); k++)
        if (cells[k].result != (uint64_t)want(k)) {
            expect(false, "%s: thread %zu has %llu, expected %llu", name, k, (unsigned long long)cells[k].result,
                   (unsigned long long)want(k));
            return;
        }
    expect(true, "%s", name);
}
static const char *const shared_64 = "mov.u32 %r5, s;\nshl.b32 %r6, %r10, 2;\nadd.s32 %r7, %r5, %r6;\n"
                                     "st.shared.u32 [%r7], %r1;\n";

static void test_barriers() {
    const std::string less = "setp.lt.u32 %p1, %r10, 37;\n";
    const auto        run  = [](const std::string &text) { return ran(wrap(text, "%r4"), 64, {1, 64}); };
    check("a barrier counts", run(less + "bar.red.popc.u32 %r4, 0, %p1;\n"), [](size_t) { return 37; });
    check("a barrier counts the opposite", run(less + "barrier.sync.aligned 1;\nbar.red.popc.u32 %r4, 2, 64, !%p1;\n"),
          [](size_t) { return 27; });
    check("all of a barrier", run(less + "bar.red.and.pred %p2, 0, %p1;\nselp.u32 %r4, 1, 2, %p2;\n"),
          [](size_t) { return 2; });
    check("any of a barrier", run(less + "bar.red.or.pred %p2, 0, %p1;\nselp.u32 %r4, 1, 2, %p2;\n"),
          [](size_t) { return 1; });
    for (int policy = 0; policy < 3; policy++)
        check("the last warp arrives, the others wait for what it wrote",
              ran(wrap(".shared .align 4 .b8 s[4];\nmov.u32 %r4, 5;\nsetp.ge.u32 %p1, %r10, 64;\n@%p1 bra L1;\n"
                       "bar.sync 1, 96;\nld.shared.u32 %r4, [s];\nbra.uni L2;\n"
                       "L1: setp.eq.u32 %p2, %r10, 64;\n@%p2 st.shared.u32 [s], %r10;\nbar.arrive 1, 96;\nL2:\n",
                       "%r4"),
                  96, {1, 96, 0, policy}),
              [](size_t k) { return k < 64 ? 64 : 5; });
}
// Lanes that spin for others of their warp, as is legal from sm_70 on.
static void test_progress() {
    const std::string flag = "sub.s64 %rd4, %rd1, %rd2;\nmov.u32 %r7, 7;\n";
    const std::string spin = "L1: ld.volatile.global.u32 %r4, [%rd4+16];\nsetp.eq.s32 %p2, %r4, 0;\n@%p2 bra L1;\n";
    const std::string set  = "st.volatile.global.u32 [%rd4+16], %r7;\n";
    check("lanes spin for one on the other side of a branch",
          ran(wrap(flag + "setp.ne.u32 %p1, %r10, 0;\n@!%p1 bra L3;\n" + spin + "bra.uni L2;\nL3: mov.u32 %r4, 7;\n" +
                       set + "L2:\n",
                   "%r4"),
              32),
          [](size_t) { return 7; });
    check("lanes spin for one that runs second",
          ran(wrap(flag + "setp.ne.u32 %p1, %r10, 0;\n@%p1 bra L1;\nmov.u32 %r4, 7;\n" + set + "bra.uni L2;\n" + spin +
                       "L2:\n",
                   "%r4"),
              32),
          [](size_t) { return 7; });
    check("lanes spin for one that waits at the join behind them",
          ran(wrap(flag + "setp.eq.u32 %p1, %r10, 9;\n@%p1 bra L2;\n" + spin + "L2: @!%p1 bra L3;\nmov.u32 %r4, 7;\n" +
                       set + "L3:\n",
                   "%r4"),
              32),
          [](size_t) { return 7; });
    check("a lock that the lanes of a warp take one after the other",
          ran(wrap(flag + "L1: atom.global.cas.b32 %r5, [%rd4+16], 0, 1;\nsetp.ne.s32 %p2, %r5, 0;\n@%p2 bra L1;\n"
                          "ld.volatile.global.u32 %r4, [%rd4+20];\nadd.s32 %r6, %r4, 1;\nst.volatile.global.u32 "
                          "[%rd4+20], %r6;\n"
                          "membar.gl;\nmov.u32 %r8, 0;\nst.volatile.global.u32 [%rd4+16], %r8;\nmov.u32 %r4, 3;\n",
                   "%r4"),
              32),
          [](size_t) { return 3; });
}

void test_paths() {
    check("each lane loops its own number of times",
          ran(wrap("mov.u32 %r4, 0;\nmov.u32 %r5, 0;\nL1: setp.gt.u32 %p1, %r5, %r1;\n@%p1 bra L2;\n"
                   "add.s32 %r4, %r4, %r5;\nadd.s32 %r5, %r5, 1;\nbra.uni L1;\nL2:\n",
                   "%r4"),
              64, {2, 32}),
          [](size_t k) { return k * (k + 1) / 2; });
    check("lanes meet again behind a branch",
          ran(wrap("and.b32 %r4, %r1, 1;\nsetp.eq.s32 %p1, %r4, 0;\n@%p1 bra L1;\nadd.s32 %r4, %r4, "
                   "4;\nbra.uni L2;\n"
                   "L1: add.s32 %r4, %r4, 8;\nL2: activemask.b32 %r5;\npopc.b32 %r5, %r5;\nadd.s32 %r4, %r4, "
                   "%r5;\n",
                   "%r4"),
              32),
          [](size_t k) { return (k & 1 ? 5 : 8) + 32; });
    check("some lanes return early",
          ran(wrap("setp.gt.u32 %p1, %r1, 20;\n@%p1 exit;\nvote.sync.ballot.b32 %r4, 1, 0x1fffff;\n", "%r4"), 32),
          [](size_t k) { return k > 20 ? 0 : 0x1fffffull; });
    check("a called function",
          ran(wrap("{\n.param .b32 q0;\nst.param.b32 [q0+0], %r1;\n.param .b32 r0;\ncall.uni (r0), twice, "
                   "(q0);\n"
                   "ld.param.b32 %r4, [r0+0];\n}\n",
                   "%r4",
                   ".func (.param .b32 out) twice(.param .b32 in)\n{\n.reg .b32 %r<3>;\n.reg .pred %p<2>;\n"
                   "ld.param.u32 %r1, [in];\nst.param.b32 [out+0], %r1;\nsetp.gt.u32 %p1, %r1, 9;\n@%p1 ret;\n"
                   "add.s32 %r2, %r1, %r1;\nst.param.b32 [out+0], %r2;\nret;\n}"),
              32),
          [](size_t k) { return k > 9 ? k : 2 * k; });
    for (int policy = 0; policy < 3; policy++)
        check("two warps exchange through shared memory",
              ran(wrap(std::string(".shared .align 4 .b8 s[256];\n") + shared_64 +
                           "bar.sync 0;\nxor.b32 %r6, %r6, 252;\nadd.s32 %r7, %r5, %r6;\nld.shared.u32 %r4, "
                           "[%r7];\n",
                       "%r4"),
                  64, {1, 64, 0, policy}),
              [](size_t k) { return 63 - k; });
    check("a butterfly of shuffles",
          ran(wrap("mov.u32 %r4, %r1;\nshfl.sync.bfly.b32 %r5|%p1, %r4, 16, 31, -1;\nadd.s32 %r4, %r4, %r5;\n"
                   "shfl.sync.down.b32 %r6|%p2, %r4, 1, 31, -1;\nselp.b32 %r4, %r6, 99, %p2;\n",
                   "%r4"),
              32),
          [](size_t k) { return k == 31 ? 99 : (k + 1) % 16 * 2 + 16; });
    check("an array in local memory",
          ran(wrap(".local .align 8 .b8 depot[64];\nmov.u64 %rd4, depot;\ncvta.local.u64 %rd5, "
                   "%rd4;\nand.b32 %r5, %r1, 7;\n"
                   "mul.wide.u32 %rd6, %r5, 8;\nadd.s64 %rd7, %rd5, %rd6;\nst.u32 [%rd7], %r2;\nadd.s64 "
                   "%rd4, %rd4, %rd6;\n"
                   "ld.local.u32 %r4, [%rd4];\n",
                   "%r4"),
              32),
          [](size_t k) { return 3 * k; });
    check("atomics", ran(wrap("sub.s64 %rd4, %rd1, %rd2;\natom.global.inc.u32 %r4, [%rd4+16], 100;\n", "%r4"), 32),
          [](size_t k) { return k; });
    for (int policy = 0; policy < 3; policy++)
        check("a block waits for a later one in a cooperative launch",
              ran(wrap("mov.u32 %r4, %ctaid.x;\nsub.s64 %rd4, %rd1, %rd2;\nsetp.eq.s32 %p1, %r4, 1;\n@%p1 "
                       "bra L3;\n"
                       "L1: ld.acquire.gpu.global.u32 %r5, [%rd4+16];\nsetp.eq.s32 %p2, %r5, 0;\n@%p2 bra "
                       "L1;\nbra.uni L2;\n"
                       "L3: mov.u32 %r5, 7;\nst.release.gpu.global.u32 [%rd4+16], %r5;\nL2:\n",
                       "%r5"),
                  64, {2, 32, 0, policy, true}),
              [](size_t) { return 7; });
    check("a block reads what another wrote",
          ran(wrap("sub.s64 %rd4, %rd1, %rd2;\nst.global.u32 [%rd1+8], "
                   "%r1;\nmembar.gl;\natom.global.add.u32 %r4, "
                   "[%rd4+16], 1;\nmembar.gl;\nld.global.u32 %r5, [%rd4+8];\n",
                   "%r1"),
              32, {2, 16}),
          [](size_t k) { return k; });
    check("a thread reads what it wrote where nothing was",
          ran(wrap("st.global.v2.u32 [%rd1+24], {%r1, %r2};\nld.global.u32 %r4, [%rd1+28];\n", "%r4"), 32,
              {1, 32, 0, 0, false, false, 8}),
          [](size_t k) { return 3 * k << 32 | 3 * k; });
    check("lanes write parts of a word",
          ran(wrap(".shared .align 4 .b8 s[64];\nmov.u32 %r5, s;\nadd.s32 %r6, %r5, %r10;\nst.shared.u8 "
                   "[%r6], %rs1;\n"
                   "ld.shared.u8 %rs4, [%r6];\nbar.sync 0;\nld.shared.u32 %r4, [s];\n",
                   "%r4"),
              64, {1, 64}),
          [](size_t) { return 0x03020100; });
    test_barriers();
    test_progress();
    check("a branch by index",
          ran(wrap("targets: .branchtargets L1, L2, L3;\nand.b32 %r5, %r1, 3;\nmin.u32 %r5, %r5, 2;\nmov.u32 "
                   "%r4, 0;\n"
                   "brx.idx %r5, targets;\nL1: add.s32 %r4, %r4, 100;\nL2: add.s32 %r4, %r4, 10;\nbra.uni L4;\n"
                   "L3: add.s32 %r4, %r4, 1;\nL4: activemask.b32 %r6;\npopc.b32 %r6, %r6;\nmad.lo.s32 %r4, "
                   "%r6, 1000, %r4;\n",
                   "%r4"),
              32),
          [](size_t k) {
              return 32000 + (k % 4 == 0 ? 110 : k % 4 == 1 ? 10 : 1);
          });
    check("asynchronous copies",
          ran(wrap(".shared .align 16 .b8 s[512];\nmov.u32 %r5, s;\nshl.b32 %r6, %r10, 4;\nadd.s32 %r7, %r5, "
                   "%r6;\n"
                   "cp.async.ca.shared.global [%r7], [%rd1], "
                   "16;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
                   "ld.shared.u32 %r4, [%r7+8];\n",
                   "%r4"),
              32),
          [](size_t k) { return 3 * k; });
}

void test_errors() {
    // clang-format off
    const struct {
        const char *name, *statements, *text;
        Shape       shape;
    } rows[] = {
        {"misaligned", "ld.global.u32 %r4, [%rd1+2];",
         "ld.global.u32) block (0,0,0) thread (0,0,0): 4 bytes at the misaligned", {}},
        {"outside global memory", "add.s64 %rd4, %rd1, 4096;\n.loc 1 17 3\nld.global.u32 %r4, [%rd4];",
         "(k.cu:17, ld.global.u32) block (0,0,0) thread (0,0,0): reads 4 bytes outside global memory", {}},
        {"a write behind the last byte", "st.global.v2.u64 [%rd1+32], {%rd1, %rd1};",
         "thread (31,0,0): writes 16 bytes outside global memory", {}},
        {"a prefetch behind the last byte", "cp.async.bulk.prefetch.L2.global [%rd1], 48;",
         "thread (31,0,0): a prefetch of 48 bytes at", {}},
        {"a prefetch of half of 16 bytes", "mov.u32 %r5, 8;\ncp.async.bulk.prefetch.L2.global [%rd1], %r5;",
         "thread (0,0,0): a prefetch of 8 bytes at", {}},
        {"global memory never written", "ld.global.u32 %r4, [%rd1+24];",
         "thread (31,0,0): reads 4 bytes of global memory at", {1, 32, 0, 0, false, false, 6}},
        {"a byte of global memory never written", "ld.u8 %rs4, [%rd1+27];",
         "thread (31,0,0): reads 1 bytes of global memory at", {1, 32, 0, 0, false, false, 5}},
        {"outside shared memory",
         ".shared .align 4 .b8 s[64];\nmov.u32 %r5, s;\nst.shared.u32 [%r5+64], %r1;",
          "writes 4 bytes outside shared memory", {}},
        {"shared memory never written",
         ".shared .align 4 .b8 s[64];\nmov.u32 %r5, s;\nld.shared.u32 %r4, [%r5];",
          "reads 4 bytes of shared memory at 0x400 that were not written", {}},
        {"a register never written", "setp.lt.u32 %p1, %r1, 9;\n@%p1 mov.u32 %r4, 1;\nadd.s32 %r5, %r4, 1;",
         "thread (9,0,0): reads a register that it has not written", {}},
        {"an unknown instruction", "frobnicate.u32 %r4, %r1;", "frobnicate.u32: unknown instruction", {}},
        {"an unknown form", "add.sat.s32 %r4, %r1, %r2;", "add.sat.s32: unknown instruction", {}},
        {"a function without a body", "call.uni vprintf, ();", "call of vprintf, which has no body", {}},
        {"a divergent barrier", "setp.lt.u32 %p1, %r1, 9;\n@%p1 bra L1;\nbar.sync 0;\nL1:",
         "divergent barrier", {}},
        {"threads that do not come", "bar.sync 1, 96;", "deadlock", {}},
        {"a shuffle from a lane on another path",
         "setp.lt.u32 %p1, %r1, 9;\n@%p1 shfl.sync.idx.b32 %r4, %r1, 20, 31, -1;",
          "which are on another path", {}},
        {"a shuffle from a lane outside the mask",
         "setp.lt.u32 %p1, %r1, 8;\n@%p1 shfl.sync.idx.b32 %r4, %r1, 20, 31, 255;",
          "shfl reads lane 20, which takes no part", {}},
        {"no wait for earlier kernels", "add.s32 %r4, %r1, 1;", "never waited for the earlier kernels", {1,
         32, 0, 0, false, true}},
        {"a copy that nobody waits for",
         ".shared .align 16 .b8 s[16];\nmov.u32 %r5, s;\ncp.async.ca.shared.global [%r5], [%rd1], 16;\nld.shared.u32 %r4, [%r5];", "that were not written", {1, 1}},
        {"a trap", "trap;", "trap", {}},
        {"an endless loop", "L1: bra.uni L1;", "an endless loop", {}},
        {"a lane that spins for what no other lane writes",
         "sub.s64 %rd4, %rd1, %rd2;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 bra L2;\nL1: ld.volatile.global.u32 %r4, "
         "[%rd4+16];\nsetp.eq.s32 %p2, %r4, 0;\n@%p2 bra L1;\nbra.uni L3;\nL2: st.volatile.global.u32 [%rd4+16], %r10;\nL3:",
          "deadlock: spins", {}},
        {"an index of no branch target",
         "targets: .branchtargets L1, L2;\nbrx.idx %r1, targets;\nL1:\nL2:", "thread (2,0,0): index 2 of 2 targets", {}},
        {"a warp that counts at a barrier, another that does not",
         "setp.lt.u32 %p1, %r10, 32;\n@%p1 bra L1;\nbar.sync 0;\nbra.uni L2;\nL1: bar.red.popc.u32 %r4, 0, %p1;\nL2:",
          "bar.red, and bar.sync of another warp, at barrier 0", {1, 64}},
        {"an arrival too few", "setp.lt.u32 %p1, %r10, 32;\n@%p1 bra L1;\nbar.arrive 1, 96;\nbra.uni L2;\nL1: bar.sync 1, 96;\nL2:",
          "deadlock: waits for threads that do not come (barrier 1)", {1, 64}},
        {"no barrier between a write and a read of another warp",
         ".shared .align 4 .b8 s[256];\nmov.u32 %r5, s;\nshl.b32 %r6, %r10, 2;\nadd.s32 %r7, %r5, %r6;\n"
         "st.shared.u32 [%r7], %r1;\nbar.sync 0;\nsetp.lt.u32 %p1, %r10, 32;\n@%p1 st.shared.u32 [%r7], %r2;\nxor.b32 %r6, %r6, 128;\nadd.s32 %r7, "
         "%r5, %r6;\nld.shared.u32 %r4, [%r7];",
          "race: reads shared memory at 0x400, which thread 0 wrote, and no barrier between", {1, 64}},
        {"a write over what another warp has read",
         ".shared .align 4 .b8 s[4];\nmov.u32 %r5, s;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 st.shared.u32 [%r5], %r1;\n"
         "bar.sync 0;\nld.shared.u32 %r4, [%r5];\nsetp.eq.u32 %p1, %r10, 40;\n@%p1 st.shared.u32 [%r5], %r1;",
          "race: writes shared memory at 0x400, which thread 31 read, and no barrier between", {1, 64}},
        {"no barrier between two lanes of a warp",
         ".shared .align 4 .b8 s[4];\nmov.u32 %r5, s;\nsetp.eq.u32 %p1, %r10, 3;\n@%p1 st.shared.u32 [%r5], %r1;\n"
         "ld.shared.u32 %r4, [%r5];",
          "race: reads shared memory at 0x400, which thread 3 wrote, and no barrier between", {}},
        {"a block reads what another wrote, without a fence",
         "sub.s64 %rd4, %rd1, %rd2;\nst.global.u32 [%rd1+8], %r1;\natom.global.add.u32 %r4, [%rd4], 1;\nmembar.gl;\n"
         "ld.global.u32 %r5, [%rd4+8];",
          "race: reads global memory at", {2, 16}},
    };
    // clang-format on
    for (auto &r : rows)
        expect(dies(
                   [&]() {
                       ran(wrap(r.statements, "%r1", ".file 1 \"/some/k.cu\""), std::max(32u, r.shape.threads),
                           r.shape);
                   },
                   r.text),
               "%s", r.name);
}
