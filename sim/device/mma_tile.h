// mma_tile.h - the product of one mma instruction, for the simulated device and the interpreter of sim/ptx.
//
// d = a * b + c with a of m x k, b of k x 8, c and d of m x 8 (PTX ISA 9.0, 9.7.14.5). A register holds E = 32 / bits
// elements. For register r of lane l, g = l / 4, t = l % 4, and h = m / 8:
//
//     element e of a[r]    row g + 8*(r % h)      column E*t + e + 4*E*(r / h)
//     element e of b[r]    row E*t + e + 4*E*r    column g
//     c[r], d[r]           row g + 8*(r / 2)      column 2*t + r%2
//
// Sums start with c and add the products in ascending k, in double; the result is rounded once. Sums of s8 are exact
// modulo 2^32. A NaN is 0x7fffffff.
#ifndef TESTS_CUDASIM_MMA_TILE_H
#define TESTS_CUDASIM_MMA_TILE_H
#include <cstdint>
#include <cstring>

namespace mma {
enum Type : uint8_t { F16, BF16, S8 };
struct Tile {
    Type type;
    int  m, k; // 16 or 8, at most 32
    int  elements() const { return type == S8 ? 4 : 2; }
    int  n_a() const { return m * k / 32 / elements(); }
    int  n_b() const { return k / 4 / elements(); }
    int  n_c() const { return m / 4; }
};
struct Lane { // the registers of a lane; d may be c
    const uint32_t *a, *b, *c;
    uint32_t       *d;
};

static inline double f16_value(uint32_t h) {
    const uint64_t sign = (uint64_t)(h >> 15 & 1) << 63, exponent = h >> 10 & 31, fraction = h & 1023;
    uint64_t       u = sign | (exponent == 31 ? 0x7ffull : exponent + 1008) << 52 | fraction << 42;
    double         v;
    if (exponent == 0) {
        v = (double)fraction / 16777216.0; // 2^-24
        return sign ? -v : v;
    }
    memcpy(&v, &u, 8);
    return v;
}
static inline double f32_value(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return (double)f;
}
// Element e of a register.
static inline double value(Type t, uint32_t word, int e) {
    if (t == S8) return (double)(int8_t)(word >> 8 * e);
    const uint32_t h = word >> 16 * e & 0xffff;
    return t == F16 ? f16_value(h) : f32_value(h << 16);
}
static inline uint32_t result(Type t, double sum) {
    if (t == S8) return (uint32_t)(int64_t)sum;
    const float f = (float)sum;
    uint32_t    u;
    memcpy(&u, &f, 4);
    return sum != sum ? 0x7fffffffu : u;
}
static inline void multiply(const Tile &s, const Lane *lanes) { // of 32
    double    a[16][32], b[32][8], sum[16][8];
    const int n = s.elements(), h = s.m / 8;
    for (int l = 0; l < 32; l++) {
        const int   g = l / 4, t = l % 4;
        const Lane &lane = lanes[l];
        for (int r = 0; r < s.n_a(); r++)
            for (int e = 0; e < n; e++) a[g + 8 * (r % h)][n * t + e + 4 * n * (r / h)] = value(s.type, lane.a[r], e);
        for (int r = 0; r < s.n_b(); r++)
            for (int e = 0; e < n; e++) b[n * t + e + 4 * n * r][g] = value(s.type, lane.b[r], e);
        for (int r = 0; r < s.n_c(); r++)
            sum[g + 8 * (r / 2)][2 * t + r % 2] = s.type == S8 ? (double)(int32_t)lane.c[r] : f32_value(lane.c[r]);
    }
    for (int i = 0; i < s.m; i++)
        for (int k = 0; k < s.k; k++)
            for (int j = 0; j < 8; j++) sum[i][j] += a[i][k] * b[k][j];
    for (int l = 0; l < 32; l++)
        for (int r = 0; r < s.n_c(); r++) lanes[l].d[r] = result(s.type, sum[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2]);
}
// ldmatrix: the 32 bits that lane l gets of a matrix with these rows of eight 16-bit elements.
static inline uint32_t pair_of(const char *const *rows, int l, bool transposed) {
    uint16_t  v[2];
    const int g = l / 4, t = l % 4;
    for (int e = 0; e < 2; e++) memcpy(&v[e], transposed ? rows[2 * t + e] + 2 * g : rows[g] + 4 * t + 2 * e, 2);
    return (uint32_t)v[1] << 16 | v[0];
}
} // namespace mma
#endif
