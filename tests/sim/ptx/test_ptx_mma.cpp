// test_ptx_mma.cpp - mma and ldmatrix against plain matrix products. The reference scatters the elements of matrices to
// the lanes by the tables of the PTX ISA (9.7.14.5: "Matrix Fragments"), each written down for its own shape.
//
// A thread owns 64 bytes at %rd1: registers a (4), b (2), c (4) and d (4), a word each.
#include "tests/sim/ptx/test_ptx.h"

#include <cmath>
#include <cstring>

namespace {
struct Words {
    uint32_t a[4], b[2], c[4], d[4], unused[2];
};
static_assert(sizeof(Words) == 2 * sizeof(Cell), "two cells are one thread's words");
enum Type { F16, BF16, S8 };
struct Position {
    int row, column;
};
// Positions of the elements that a lane holds, with the names of the ISA: groupID = g, threadID_in_group = t.
struct Product {
    const char *name, *types;
    Type        type;
    int         m, k, n_a, n_b, n_c;
    Position (*a)(int g, int t, int i);
    Position (*b)(int g, int t, int i);
};
// i: index of an element among all elements of the lane, as the ISA counts a0, a1, ...
Position      c_of(int g, int t, int i) { return {i < 2 ? g : g + 8, t * 2 + (i & 1)}; }
const Product shapes[] = {
    {"m16n8k16", "f32.f16.f16.f32",   F16,  16, 16, 4, 2, 4,
     [](int g, int t, int i) {
         return Position{(i >= 0 && i < 2) || (i >= 4 && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
     }, [](int g, int t, int i) {
         return Position{t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g};
     }},
    {"m16n8k16", "f32.bf16.bf16.f32", BF16, 16, 16, 4, 2, 4,
     [](int g, int t, int i) {
         return Position{(i >= 0 && i < 2) || (i >= 4 && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
     }, [](int g, int t, int i) {
         return Position{t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g};
     }},
    {"m16n8k8",  "f32.f16.f16.f32",   F16,  16, 8,  2, 1, 4,
     [](int g, int t, int i) {
         return Position{i < 2 ? g : g + 8, t * 2 + (i & 1)};
     }, [](int g, int t, int i) {
         return Position{t * 2 + i, g};
     }},
    {"m16n8k8",  "f32.bf16.bf16.f32", BF16, 16, 8,  2, 1, 4,
     [](int g, int t, int i) {
         return Position{i < 2 ? g : g + 8, t * 2 + (i & 1)};
     }, [](int g, int t, int i) {
         return Position{t * 2 + i, g};
     }},
    {"m16n8k32", "s32.s8.s8.s32",     S8,   16, 32, 4, 2, 4,
     [](int g, int t, int i) {
         return Position{(i >= 0 && i < 4) || (i >= 8 && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
     }, [](int g, int t, int i) {
         return Position{t * 4 + (i & 3) + (i >= 4 ? 16 : 0), g};
     }},
    {"m16n8k16", "s32.s8.s8.s32",     S8,   16, 16, 2, 1, 4,
     [](int g, int t, int i) {
         return Position{i < 4 ? g : g + 8, t * 4 + (i & 3)};
     }, [](int g, int t, int i) {
         return Position{t * 4 + i, g};
     }},
    {"m8n8k16",  "s32.s8.s8.s32",     S8,   8,  16, 1, 1, 2,
     [](int g, int t, int i) {
         return Position{g, t * 4 + i};
     }, [](int g, int t, int i) {
         return Position{t * 4 + i, g};
     }},
};

uint64_t state = 7;
uint32_t rnd() { return state = state * 6364136223846793005ull + 1442695040888963407ull, (uint32_t)(state >> 33); }

// Bits and value of an element: floats of any sign, 7 bits of fraction, exponents from -14 (f16: the least) to 3, or 0.
uint32_t element(Type type, double *v) {
    const uint32_t r = rnd(), sign = r & 1, fraction = r >> 1 & 127;
    const int      exponent = (int)(r >> 8 & 255) % 18 - 14;
    if (type == S8) return *v = (double)(int8_t)(r & 255), r & 255;
    if ((r >> 20 & 15) == 0) return *v = sign ? -0.0 : 0.0, sign << 15;
    *v = std::ldexp(1 + fraction / 128.0, exponent) * (sign ? -1 : 1);
    if (type == BF16) return sign << 15 | (uint32_t)(exponent + 127) << 7 | fraction;
    return sign << 15 | (uint32_t)(exponent + 15) << 10 | fraction << 3;
}
std::string list(const char *name, int from, int n) {
    std::string s = "{";
    for (int k = 0; k < n; k++) s += (k ? ", " : "") + std::string(name) + std::to_string(from + k);
    return s + "}";
}
// Loads a to %x0.., b to %x4.., c to %x6.., executes the statements and stores %x10.. as d.
std::string text_of(const std::string &statements) {
    std::string s = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n"
                    ".reg .b32 %x<16>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n"
                    ".shared .align 16 .b8 s[512];\n"
                    "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 64;\n"
                    "add.s64 %rd1, %rd1, %rd2;\n";
    for (int k = 0; k < 10; k++)
        s += "ld.global.u32 %x" + std::to_string(k) + ", [%rd1+" + std::to_string(4 * k) + "];\n";
    for (int k = 10; k < 14; k++) s += "mov.u32 %x" + std::to_string(k) + ", 0;\n";
    s += statements;
    for (int k = 10; k < 14; k++)
        s += "st.global.u32 [%rd1+" + std::to_string(4 * k) + "], %x" + std::to_string(k) + ";\n";
    return s + "ret;\n}\n";
}
std::vector<Words> ran(const std::string &statements, const std::vector<Words> &words, Shape shape = {}) {
    std::vector<Cell> cells(2 * words.size());
    memcpy((void *)cells.data(), words.data(), words.size() * sizeof(Words));
    execute(text_of(statements), cells, shape);
    std::vector<Words> r(words.size());
    memcpy((void *)r.data(), cells.data(), r.size() * sizeof(Words));
    return r;
}
std::string product_of(const Product &s) {
    const std::string c = list("%x", 6, s.n_c);
    return "mma.sync.aligned." + std::string(s.name) + ".row.col." + s.types + " " + list("%x", 10, s.n_c) + ", " +
           list("%x", 0, s.n_a) + ", " + list("%x", 4, s.n_b) + ", " + c + ";\n";
}
void check_product(const Product &s) {
    const int          per = s.type == S8 ? 4 : 2;
    double             a[16][32], b[32][8], c[16][8];
    std::vector<Words> words(32);
    memset(words.data(), 0, 32 * sizeof(Words));
    for (int l = 0; l < 32; l++) {
        Words    &w = words[(size_t)l];
        const int g = l >> 2, t = l % 4;
        for (int i = 0; i < per * s.n_a; i++) {
            const Position p = s.a(g, t, i);
            w.a[i / per] |= element(s.type, &a[p.row][p.column]) << 32 / per * (i % per);
        }
        for (int i = 0; i < per * s.n_b; i++) {
            const Position p = s.b(g, t, i);
            w.b[i / per] |= element(s.type, &b[p.row][p.column]) << 32 / per * (i % per);
        }
        for (int i = 0; i < s.n_c; i++) {
            const Position p = c_of(g, t, i);
            const int32_t  n = (int32_t)rnd();
            const float    f = (float)n * 0x1p-28f;
            memcpy(&w.c[i], s.type == S8 ? (const void *)&n : (const void *)&f, 4);
            c[p.row][p.column] = s.type == S8 ? (double)n : (double)f;
        }
    }
    const std::vector<Words> got = ran(product_of(s), words);
    int                      bad = 0;
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < s.n_c; i++) {
            const Position p   = c_of(l >> 2, l % 4, i);
            double         sum = 0;
            for (int k = s.k - 1; k >= 0; k--) sum += a[p.row][k] * b[k][p.column]; // another order: exact here
            sum += c[p.row][p.column];
            uint32_t    want = (uint32_t)(int64_t)sum;
            const float f    = (float)sum;
            if (s.type != S8) memcpy(&want, &f, 4);
            bad += got[(size_t)l].d[i] != want;
        }
    expect(bad == 0, "%s.%s: %d of %d elements", s.name, s.types, bad, 8 * s.m);
}
// Matrix j has row r at byte 128 * j + 16 * r of s; element [r][c] is 1000 * j + 100 * r + c.
void check_load(int n, bool transposed) {
    std::vector<Words> words(32);
    memset(words.data(), 0, 32 * sizeof(Words));
    for (int l = 0; l < 32; l++)
        for (int k = 0; k < 4; k++) {
            const uint32_t e      = (uint32_t)(1000 * (l / 8) + 100 * (l % 8) + 2 * k);
            words[(size_t)l].a[k] = (e + 1) << 16 | e;
        }
    const std::string op = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(n) + (transposed ? ".trans" : "") +
                           ".shared.b16 " + list("%x", 10, n) + ", [%r5];\n";
    const std::vector<Words> got = ran("mov.u32 %r2, s;\nshl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\n"
                                       "st.shared.v4.u32 [%r4], {%x0, %x1, %x2, %x3};\nbar.sync 0;\n"
                                       "and.b32 %r3, %r3, " +
                                           std::to_string(128 * n - 1) + ";\nadd.s32 %r5, %r2, %r3;\n" + op,
                                       words);
    int                      bad = 0;
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < n; j++)
            for (int e = 0; e < 2; e++) {
                const int r = transposed ? 2 * (l % 4) + e : l / 4, c = transposed ? l / 4 : 2 * (l % 4) + e;
                bad += (got[(size_t)l].d[j] >> 16 * e & 0xffff) != (uint32_t)(1000 * j + 100 * r + c);
            }
    expect(bad == 0, "ldmatrix x%d%s: %d elements", n, transposed ? " trans" : "", bad);
}
void check_special_values() {
    std::vector<Words> words(32);
    memset(words.data(), 0, 32 * sizeof(Words));
    for (auto &w : words) // row g of a: infinity, 1, ...; every b 0: infinity * 0
        w.a[0] = 0x7c00, w.c[2] = 0x80000000u, w.c[3] = 0x3f800000;
    const std::vector<Words> got = ran(product_of(shapes[0]), words);
    expect(got[0].d[0] == 0x7fffffff, "infinity times zero is %08x", got[0].d[0]);
    expect(got[0].d[3] == 0x3f800000, "zeros plus 1 are %08x", got[0].d[3]);
    for (auto &w : words) w.a[0] = 1, w.b[0] = 0x3c00; // the least subnormal times 1, four lanes along the row
    const std::vector<Words> small = ran(product_of(shapes[0]), words);
    float                    f;
    memcpy(&f, &small[0].d[0], 4);
    expect(f == 4 * 0x1p-24f, "a sum of subnormal f16 is %g", (double)f);
}
} // namespace

void test_mma() {
    for (auto &s : shapes)
        for (int k = 0; k < 8; k++) check_product(s);
    for (int n : {1, 2, 4})
        for (bool transposed : {false, true}) check_load(n, transposed);
    check_special_values();
    const std::string address = "mov.u32 %r2, s;\nshl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\n";
    const std::string store   = "st.shared.v4.u32 [%r4], {%x0, %x1, %x2, %x3};\n";
    const std::string load    = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 " + list("%x", 10, 4) + ", ";
    const struct {
        const char *name;
        std::string statements;
        const char *text;
        unsigned    threads;
    } errors[] = {
        {"a lane is missing in mma",      "setp.ne.u32 %p1, %r1, 5;\n@%p1 " + product_of(shapes[0]),
         "needs all 32 lanes of the warp, but lanes 0x00000020 do not",                                                                                                           32},
        {"a warp of 31 lanes",            product_of(shapes[4]),                                                   "needs all 32 lanes of the warp, but lanes 0x80000000 do not",
         31                                                                                                                                                                         },
        {"a lane is missing in ldmatrix", address + store + "setp.ne.u32 %p1, %r1, 0;\n@%p1 " + load + "[%r4];\n",
         "needs all 32 lanes of the warp, but lanes 0x00000001 do not",                                                                                                           32},
        {"a misaligned row",              address + store + "bar.sync 0;\n" + load + "[%r4+8];\n",
         "16 bytes at the misaligned address 0x408",                                                                                                                              32},
        {"a row outside shared memory",   address + store + "bar.sync 0;\n" + load + "[%r4+16];\n",
         "reads 16 bytes outside shared memory",                                                                                                                                  32},
        {"a row that nobody wrote",
         address + "setp.ne.u32 %p1, %r1, 9;\n@%p1 " + store + "bar.sync 0;\n" + load + "[%r4];\n",
         "reads 16 bytes of shared memory at 0x490 that were not written",                                                                                                        32},
        {"no barrier before ldmatrix",    address + store + "xor.b32 %r4, %r4, 16;\n" + load + "[%r4];\n",
         "race: reads shared memory",                                                                                                                                             32},
        {"an unknown shape",
         "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%x10, %x11, %x12, %x13}, {%x0}, {%x4}, {%x6, "
         "%x7, %x8, %x9};\n",                                                                                      "unknown instruction",                                         32},
        {"a fragment of another size",
         "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%x10, %x11, %x12, %x13}, {%x0}, {%x4}, {%x6, "
         "%x7, %x8, %x9};\n",                                                                                      "an operand of another size",                                  32},
    };
    for (auto &e : errors)
        expect(dies(
                   [&]() {
                       Shape shape;
                       shape.threads = e.threads;
                       std::vector<Words> words(32);
                       memset(words.data(), 0, 32 * sizeof(Words));
                       ran(e.statements, words, shape);
                   },
                   e.text),
               "%s", e.name);
}
