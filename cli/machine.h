/* machine.h - what `reprise bench machine` measures. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "reprise/reprise.h"

enum { MACHINE_PASSES = 7, MACHINE_TYPES = 9 };

extern const RpDtype cli_machine_types[MACHINE_TYPES];

/* Ways to read memory: one stream with and without software prefetch, or four streams as wide as rows of weights. */
typedef struct ReadWay {
    const char *name;
    double      gb_s; /* median of MACHINE_PASSES passes over all bytes */
} ReadWay;

enum { READ_WAYS = 5 };

/* All bytes by so many threads, in each way; the ways take turns. RP_E_NOMEM where a thread cannot be started. */
RP_NODISCARD RpStatus cli_read_bandwidth(const char *data, size_t bytes, int threads,
                                         ReadWay ways[READ_WAYS]);
const ReadWay        *cli_best_way(const ReadWay ways[READ_WAYS]);

/* Dependent loads from memory: one chain gives the latency, many at once how many cache misses the core has in flight. */
typedef struct MissLimit {
    double latency_ns, in_flight;
} MissLimit;

RP_NODISCARD RpStatus cli_miss_limit(MissLimit *out);

/* Cycles a second of a core at work, by a chain of additions of one cycle each. */
double cli_clock_ghz(void);

/* The product of a block-quantised matrix with one column, in the CPU's second cache. */
typedef struct ProductSpeed {
    double gb_s;
    double instructions; /* executed a byte of weights; 0 where they cannot be counted (Linux only) */
} ProductSpeed;

RP_NODISCARD RpStatus cli_product_speed(RpDtype dtype, ProductSpeed *out);

/* Opens a graph of 96 MB of weights, so that the prefetch is chosen as for a model. */
RP_NODISCARD RpStatus cli_choose_prefetch(int threads);

#endif
