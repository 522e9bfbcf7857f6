/* philox.h - the counter-based random numbers of the samplers: Philox 4x32-10, Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011. Number i is a function of (seed, i) alone, the same on the host and on a device.
 *
 *   float u = rp_philox_uniform(seed, i);      // in [0, 1)
 */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

/* A function for host and device code. */
#ifdef __CUDACC__
#define RP_ANYWHERE __host__ __device__ static inline
#else
#define RP_ANYWHERE static inline
#endif

enum { RP_PHILOX_ROUNDS = 10 };

/* Ten rounds over the 128-bit counter with a 64-bit key: four random words. */
RP_ANYWHERE void rp_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < RP_PHILOX_ROUNDS; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * c0, b = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += UINT32_C(0x9E3779B9); /* golden ratio */
        k1 += UINT32_C(0xBB67AE85); /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Random number `counter` of `seed`, uniform in [0, 1). It uses 24 bits, which a float holds exactly: it is never 1. */
RP_ANYWHERE float rp_philox_uniform(uint64_t seed, uint64_t counter) {
    const uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    const uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t       out[4];
    rp_philox4x32(c, k, out);
    return (float)(out[0] >> 8) * (1.0f / 16777216.0f);
}

#endif
