/* random.h - the block function behind rp_random_uniform. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include <stdint.h>

/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011). */
void rp_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
