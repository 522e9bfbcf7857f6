// test_counts.cpp - tests of each counter on small hand-written PTX kernels.
#include "sim/counts/counts.h"

#include <cmath>
#include <cstdio>
#include <cstring>

using namespace ptx;

static int  n_checks, n_failures;
static void expect(double found, double wanted, const char *what) {
    n_checks++;
    if (std::fabs(found - wanted) < 1e-6) return;
    n_failures++;
    printf("%s: %g, wanted %g\n", what, found, wanted);
}

// 1 MiB of global memory: weights, cache, activations, counters, a quarter each.
alignas(4096) static char memory[1 << 20];
static const uint64_t       base = (uint64_t)memory, quarter = sizeof memory / 4;
static const vector<Region> regions{
    {base,               base + quarter,     Holds::weights    },
    {base + quarter,     base + 2 * quarter, Holds::cache      },
    {base + 2 * quarter, base + 3 * quarter, Holds::activations},
    {base + 3 * quarter, base + 4 * quarter, Holds::counters   }
};
static bool find(uint64_t a, uint64_t *lo, uint64_t *hi) {
    *lo = base, *hi = base + sizeof memory;
    return a >= *lo && a < *hi;
}

// %rd1 = memory, %r1 = number of the lane, %r2 = number of the block, %rd3 = shared memory of 8 KiB.
static string kernel(const string &statements) {
    return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n"
           ".reg .pred %p<4>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<8>;\n.reg .f32 %f<8>;\n"
           ".shared .align 1024 .b8 s[8192];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
           "mov.u32 %r2, %ctaid.x;\nmov.u64 %rd3, s;\n" +
           statements + "\nret;\n}\n";
}
struct Run {
    Module        module;
    const Kernel *k;
    Launch        l;
    Run(const string &statements, unsigned blocks = 1, unsigned threads = 32)
        : module(kernel(statements)), k(module.kernel("t")) {
        memset(memory, 0, sizeof memory);
        l.kernel  = k;
        l.races   = false;
        l.grid[0] = blocks, l.block[0] = threads;
        l.find = find;
        l.params.resize(8);
        memcpy(l.params.data(), &base, 8);
    }
    Counts all() {
        unsigned sampled;
        return count_grid(l, regions, 0, &sampled);
    }
};
static Counts counts(const string &statements, unsigned threads = 32) { return Run(statements, 1, threads).all(); }

// %rd2 = base + stride * lane + offset.
static string address(const char *from, int stride, int offset) {
    return "mul.wide.s32 %rd2, %r1, " + std::to_string(stride) + ";\nadd.s64 %rd2, %rd2, " + from +
           ";\nadd.s64 %rd2, %rd2, " + std::to_string(offset) + ";\n";
}
static void expect_load(const char *what, const char *load, int stride, int offset, int requested, int needed) {
    const Counts c = counts(address("%rd1", stride, offset) + load);
    expect(c.n[N_global_sectors_requested], requested, what);
    expect(c.n[N_global_sectors_needed], needed, what);
    expect(c.n[N_memory_global], 1, what);
}
static void test_sectors() {
    const char *word = "ld.global.u32 %r3, [%rd2];", *four = "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd2];";
    expect_load("coalesced words", word, 4, 0, 4, 4);
    expect_load("words 128 bytes apart", word, 128, 0, 32, 4);
    expect_load("one word for all lanes", word, 0, 0, 1, 1);
    expect_load("words backwards", word, -4, 2048, 5, 4); // 1924 .. 2051
    expect_load("16 bytes a lane", four, 16, 0, 16, 16);
    expect_load("16 bytes a lane from the middle of a sector", four, 16, 16, 17, 16);
    expect_load("every other 16 bytes", four, 32, 0, 32, 16);
    expect_load("a prefetch moves no sectors to registers", "prefetch.global.L2 [%rd2];", 128, 0, 0, 0);
}

static void test_tensor() {
    const string a = "{%r4, %r5, %r6, %r7}", b = "{%r8, %r9}";
    string       set;
    for (int k = 4; k < 10; k++) set += "mov.u32 %r" + std::to_string(k) + ", 0;\n";
    for (int k = 0; k < 4; k++) set += "mov.f32 %f" + std::to_string(k) + ", 0f00000000;\n";
    const string d = "{%f0, %f1, %f2, %f3}", i = "{%r10, %r11, %r12, %r13}";
    const Counts f =
        counts(set + "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " + d + ", " + a + ", " + b + ", " + d + ";");
    expect(f.n[N_tensor_f16_ops], 16 * 8 * 16, "multiply-adds of f16");
    expect(f.n[N_tensor_s8_ops], 0, "none of s8");
    expect(f.n[N_tensor], 1, "an mma");
    const Counts s =
        counts(set + "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r10, %r11}, {%r4}, {%r5}, {%r6, %r7};");
    expect(s.n[N_tensor_s8_ops], 8 * 8 * 16, "multiply-adds of s8");
    const string fill =
        "mov.u32 %r3, s;\n" + address("%rd3", 256, 0) + "st.shared.v4.u32 [%rd2], {%r1, %r1, %r1, %r1};\n";
    const string load      = "ldmatrix.sync.aligned.m8n8.x";
    const auto   conflicts = [&](const string &op, int stride) {
        return counts(fill + address("%rd3", stride, 0) + op).n[N_shared_conflicts] -
               counts(fill).n[N_shared_conflicts];
    };
    expect(conflicts(load + "4.shared.b16 " + i + ", [%rd2];", 0), 0, "the same row for all lanes");
    expect(conflicts(load + "4.shared.b16 " + i + ", [%rd2];", 256), 4 * 7, "eight rows in the same banks");
    expect(conflicts(load + "2.shared.b16 {%r10, %r11}, [%rd2];", 256), 2 * 7, "addresses of upper lanes are not used");
}

static void test_copies() {
    const string copy = "cp.async.cg.shared.global [%rd3], [%rd2], 16;\n", commit = "cp.async.commit_group;\n";
    const Counts c = counts(address("%rd1", 16, 0) + "mul.wide.s32 %rd4, %r1, 16;\nadd.s64 %rd3, %rd3, %rd4;\n" + copy +
                            commit + "cp.async.wait_all;\n");
    expect(c.n[N_weight_bytes], 512, "bytes of an asynchronous copy");
    expect(c.n[N_global_sectors_requested], 16, "sectors of an asynchronous copy");
    expect(c.n[N_written_bytes], 0, "it writes no global memory");
    expect(c.n[N_shared_conflicts], 0, "it fills all banks");
    expect(c.n[N_memory_global], 1, "the copy counts as global, the wait does not");
    const string two  = address("%rd1", 16, 0) + copy + commit + copy + commit;
    const auto   most = [&](const string &text) {
        Run r(text, 1, 1);
        return (double)bytes_in_flight(r.l, regions, 1);
    };
    expect(most(two + "cp.async.wait_group 0;\n"), 32, "two copies in flight");
    expect(most(two + "cp.async.wait_group 1;\n" + copy + commit), 32, "the first has landed before the third begins");
    expect(most(two + "cp.async.wait_group 2;\n" + copy + commit), 48, "three copies in flight");
}

static void test_bytes() {
    const string load = "ld.global.u32 %r3, [%rd2];";
    expect(counts(address("%rd1", 4, 0) + load).n[N_weight_bytes], 128, "bytes of weights");
    expect(counts(address("%rd1", 0, 0) + load).n[N_weight_bytes], 4, "a broadcast is read once");
    expect(counts(address("%rd1", 4, (int)quarter) + load).n[N_cache_bytes], 128, "bytes of the cache");
    expect(counts(address("%rd1", 4, (int)quarter * 2) + load).n[N_activation_bytes], 128, "bytes of activations");
    const Counts c = counts(address("%rd1", 4, 0) + "st.global.u32 [%rd2], %r1;");
    expect(c.n[N_written_bytes], 128, "bytes written");
    expect(c.n[N_weight_bytes], 0, "a store reads nothing");
    expect(counts(address("%rd1", 4, 0) + "ld.u32 %r3, [%rd2];").n[N_weight_bytes], 128, "a generic address");
}

static void test_conflicts() {
    const char *word = "st.shared.u32 [%rd2], %r1;", *two = "st.shared.v2.u32 [%rd2], {%r1, %r1};",
               *four = "st.shared.v4.u32 [%rd2], {%r1, %r1, %r1, %r1};";
    const struct {
        const char *what, *store;
        int         stride, wanted;
    } cases[] = {
        {"consecutive words",                word, 4,   0 },
        {"two lanes a bank",                 word, 8,   1 },
        {"all lanes in one bank",            word, 128, 31},
        {"all lanes the same word",          word, 0,   0 },
        {"an odd stride",                    word, 132, 0 },
        {"8 consecutive bytes",              two,  8,   0 },
        {"8 of 16 bytes, in two halves",     two,  16,  2 },
        {"16 consecutive bytes",             four, 16,  0 },
        {"16 of 32 bytes, in four quarters", four, 32,  4 },
    };
    for (auto &c : cases)
        expect(counts(address("%rd3", c.stride, 0) + c.store).n[N_shared_conflicts], c.wanted, c.what);
    expect(counts(address("%rd3", 128, 0) + "setp.lt.u32 %p1, %r1, 3;\n@%p1 " + word).n[N_shared_conflicts], 2,
           "three lanes in one bank");
}

static void test_atomics() {
    const string add = "atom.global.add.u32 %r3, [%rd2], 1;";
    const Counts one = counts(address("%rd1", 0, 0) + add), all = counts(address("%rd1", 4, 0) + add),
                 shared = counts("st.shared.u32 [%rd3], %r1;\natom.shared.add.u32 %r3, [%rd3], 1;");
    expect(one.n[N_atomics], 1, "an atomic");
    expect(one.n[N_atomic_contention], 31, "all lanes on one address");
    expect(all.n[N_atomic_contention], 0, "each lane on its address");
    expect(shared.n[N_atomics], 1, "an atomic in shared memory");
    expect(shared.n[N_atomic_contention], 31, "contention in shared memory");
}

static void test_lanes() {
    const Counts none = counts(""), few = counts("setp.lt.u32 %p1, %r1, 5;\n@%p1 add.u32 %r3, %r1, 1;"),
                 never = counts("setp.lt.u32 %p1, %r1, 0;\n@%p1 add.u32 %r3, %r1, 1;");
    expect(few.n[N_lane_instructions] - none.n[N_lane_instructions], 32 + 5, "lanes under a guard");
    expect(few.instructions() - none.instructions(), 2, "instructions under a guard");
    expect(never.n[N_lane_instructions] - none.n[N_lane_instructions], 32, "a guard that is false in all lanes");
    expect(never.instructions() - none.instructions(), 2, "an instruction of no lanes is issued");
    const Counts barriers = counts("bar.sync 0;\nbar.sync 0;\nbar.warp.sync -1;", 64);
    expect(barriers.n[N_barriers], 2, "barriers of a block");
    expect(barriers.n[N_barrier], 6, "barrier instructions of two warps");
}

static void test_classes() {
    const struct {
        const char *opcode;
        Count       wanted;
    } cases[] = {
        {"mad.lo.s32",                                      N_int          },
        {"cvt.u64.u32",                                     N_int          },
        {"setp.lt.f32",                                     N_float        },
        {"fma.rn.bf16x2",                                   N_float        },
        {"fma.rn.f64",                                      N_double       },
        {"rcp.rn.f64",                                      N_double       },
        {"dp4a.s32.s32",                                    N_dot          },
        {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", N_tensor       },
        {"cvt.f32.f16",                                     N_convert      },
        {"ex2.approx.ftz.f32",                              N_special      },
        {"div.s32",                                         N_special      },
        {"ld.global.nc.v4.u32",                             N_memory_global},
        {"ld.shared.f32",                                   N_memory_shared},
        {"ld.param.u64",                                    N_other        },
        {"shfl.sync.bfly.b32",                              N_shuffle      },
        {"bar.sync",                                        N_barrier      },
        {"bra.uni",                                         N_branch       },
        {"red.global.add.u32",                              N_atomic       },
        {"mov.u32",                                         N_other        },
    };
    for (auto &c : cases) expect(class_of(c.opcode), c.wanted, c.opcode);
}

// 64 blocks arrive at one counter, or at 4 counters of 16; the last of each executes 100 additions more.
static void test_sampling() {
    const string tail = "mov.u32 %r5, 0;\nL: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 50;\n@%p2 bra L;\nE:";
    for (unsigned arrivals : {64u, 16u}) {
        const string last   = std::to_string(arrivals - 1);
        const string arrive = "shr.u32 %r6, %r2, " + string(arrivals == 64 ? "6" : "4") +
                              ";\nmul.wide.u32 %rd2, %r6, 4;\nadd.s64 %rd2, %rd2, %rd1;\n"
                              "setp.ne.u32 %p3, %r1, 0;\n@%p3 bra E;\natom.global.inc.u32 %r3, [%rd2+" +
                              std::to_string(3 * quarter) + "], " + last + ";\nsetp.ne.u32 %p1, %r3, " + last +
                              ";\n@%p1 bra E;\n";
        Run          r(arrive + tail, 64);
        unsigned     sampled;
        const Counts all = r.all(), some = count_grid(r.l, regions, 5, &sampled);
        expect(sampled, 5, "sampled blocks");
        for (int k = 0; k < N_COUNTS; k++) expect(some.n[k], all.n[k], count_names[k]);
        memory[3 * quarter] = 100; // what a kernel with more arrivals has left
        expect(r.all().n[N_int], all.n[N_int], "a whole grid, whatever the counter was");
        expect(all.n[N_int] > 64 * 3 + 100, 1, "the tails ran");
    }
}

static void test_flight() {
    const string four =
                     "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd2];\nld.global.v4.u32 {%r14, %r15, %r16, %r17}, "
                     "[%rd2+512];\n",
                 word = "ld.global.u32 %r20, [%rd2+1024];\n";
    auto flight       = [](const string &s, int offset) {
        Run r(address("%rd1", 16, offset) + s);
        return (double)bytes_in_flight(r.l, regions, 1);
    };
    expect(flight(four + four, 0), 2048, "four loads before the first use");
    expect(flight(four + "add.u32 %r30, %r10, 1;\n" + four, 0), 3 * 512, "a use waits for its load");
    expect(flight(four + "add.u32 %r30, %r14, 1;\n" + four, 0), 1024, "and for those before it");
    expect(flight(four + "mov.u32 %r30, %r14;\n" + four, 0), 2048, "a move does not wait");
    expect(flight(four + "mov.u32 %r30, %r14;\nadd.u32 %r31, %r30, 1;\n" + four, 0), 1024, "a use of a moved register");
    expect(flight(four, (int)quarter * 2), 1024, "activations, if there is nothing else");
    const string other = "add.s64 %rd4, %rd2, " + std::to_string(2 * quarter) + ";\nld.global.u32 %r21, [%rd4];\n";
    expect(flight(word + other, 0), 128, "weights only, if there are any");
    const string late = "setp.lt.u32 %p1, %r2, 6;\n@%p1 bra E;\n" + four + "E:";
    Run          r(address("%rd1", 16, 0) + late, 9);
    expect((double)bytes_in_flight(r.l, regions, 5), 1024, "of a block that reads weights");
    expect((double)bytes_in_flight(r.l, regions, 2), 1024, "the last block is sampled");
}

static void test_early() {
    const string load = "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd2];\n", wait = "griddepcontrol.wait;\n";
    const auto   early = [](const string &s, int offset = 0) {
        return counts(address("%rd1", 16, offset) + s, 64).n[N_early_bytes];
    };
    expect(early(load + wait), 1024, "weights of two warps");
    expect(early(load + load + wait + load), 1024, "each line once");
    expect(early(wait + load), 0, "loads after the wait");
    expect(early(load), 0, "a kernel that waits for nothing");
    expect(early("prefetch.global.L2 [%rd2];\n" + wait + load), 1024, "lines that are prefetched");
    expect(early(load + wait, (int)quarter * 2), 0, "activations");
}

static void test_occupancy() {
    const unsigned cases[][4] = {
        {256,  128, 272,    2 },
        {256,  189, 272,    1 },
        {128,  232, 4096,   2 },
        {256,  72,  272,    3 },
        {1024, 32,  0,      2 },
        {32,   16,  0,      32},
        {256,  32,  100000, 2 },
        {128,  32,  0,      16}
    };
    for (auto &c : cases) expect(blocks_per_sm(c[0], c[1], c[2]), c[3], "blocks of an SM");
}

int main() {
    test_sectors();
    test_bytes();
    test_tensor();
    test_copies();
    test_conflicts();
    test_atomics();
    test_lanes();
    test_classes();
    test_sampling();
    test_flight();
    test_early();
    test_occupancy();
    printf("%d checks, %d failures\n", n_checks, n_failures);
    return n_failures != 0;
}
