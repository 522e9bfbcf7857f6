/* random.h - random numbers of written models: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), and normal deviates
 * from sums of uniform numbers, so that every machine computes the same bits. */
#ifndef MODEL_CONVERT_RANDOM_H
#define MODEL_CONVERT_RANDOM_H

#include <stdint.h>

static inline uint64_t rp_mix64(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t rp_random(uint64_t *state) { return rp_mix64(*state += 0x9e3779b97f4a7c15u); }

/* Sum of four uniform 16-bit numbers, around 0. */
static inline int32_t rp_uniform_sum(uint64_t *state) {
    const uint64_t bits = rp_random(state);
    int32_t        sum  = 0;
    for (int i = 0; i < 4; i++) sum += (int32_t)(bits >> (16 * i) & 0xffff);
    return sum - 2 * 0xffff;
}

/* Approximately normal with deviation 1. The sum deviates by sqrt(4) * 65536 / sqrt(12) = 37837. */
static inline float rp_deviate(uint64_t *state) { return (float)rp_uniform_sum(state) * (1.0f / 37837.0f); }

/* Closer to normal: the sum of twelve, which deviates by 65536. Its excess kurtosis is -0.1. */
static inline float rp_normal(uint64_t *state) {
    int32_t sum = 0;
    for (int i = 0; i < 3; i++) sum += rp_uniform_sum(state);
    return (float)sum * (1.0f / 65536.0f);
}

#endif
