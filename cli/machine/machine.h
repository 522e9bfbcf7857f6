/* machine.h - measurements of `reprise bench machine`: what limits decode on this CPU. */
#ifndef CLI_MACHINE_MACHINE_H
#define CLI_MACHINE_MACHINE_H

#include "reprise/reprise.h"

enum { MACHINE_PASSES = 7, MACHINE_TYPES = RP_DTYPE_COUNT - RP_Q4_0 - 1 /* without q8_act */ };

/* The quantised weight types: number i of MACHINE_TYPES. */
static inline RpDtype cli_machine_type(int i) {
    const int type = RP_Q4_0 + i;
    return (RpDtype)(type < RP_Q8_ACT ? type : type + 1);
}

/* A pattern of reading memory: one stream with and without software prefetch, or four streams at once, as a
 * GEMV reads four rows of weights. */
typedef struct ReadPattern {
    const char *name;
    double      gb_s; /* median of MACHINE_PASSES passes */
} ReadPattern;

enum { READ_PATTERNS = 5 };

/* Bandwidth of `threads` threads that read all bytes, for each pattern. The patterns take turns, so that a
 * slow phase of the machine affects them alike. RP_E_NOMEM if a thread cannot be started. */
RP_NODISCARD RpStatus cli_read_bandwidth(const char *data, size_t bytes, int threads,
                                         ReadPattern patterns[READ_PATTERNS]);
const ReadPattern    *cli_best_pattern(const ReadPattern patterns[READ_PATTERNS]);

/* Limits of random reads. One chain of dependent loads gives the latency; many chains at once give how many
 * cache misses one core keeps in flight: latency / shortest time per load. */
typedef struct MissLimit {
    double latency_ns, in_flight;
} MissLimit;

RP_NODISCARD RpStatus cli_miss_limit(MissLimit *out);

/* Clock of a busy core, from a chain of dependent additions that take one cycle each. */
double cli_clock_ghz(void);

/* GEMV of a block-quantised matrix that lies in the L2 cache, with one thread. */
typedef struct ProductSpeed {
    double gb_s;
    double instructions; /* executed per byte of weights; 0: not counted (Linux only) */
} ProductSpeed;

RP_NODISCARD RpStatus cli_product_speed(RpDtype dtype, ProductSpeed *out);

/* Opens an executor with 96 MB of weights, so that the library chooses its software prefetch as for a model. */
RP_NODISCARD RpStatus cli_choose_prefetch(int threads);

#endif
