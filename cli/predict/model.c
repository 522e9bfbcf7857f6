/* model.c - the time model. Each function is one formula of docs/gpu-model.md, in microseconds. */
#include "cli/predict/predict.h"

#include <math.h>

/* Assumptions of the model. None was measured for this project; docs/gpu-model.md says where each comes from. */
static const double BANDWIDTH     = 0.92; /* share of the data sheet's bandwidth that a kernel of pure reads reaches */
static const double ISSUE         = 2.8;  /* PTX instructions of warps a clock and SM (4 schedulers); fitted */
static const int    DOT_LANES     = 64;   /* int8 dot products of an SM per clock: they use a pipe of the floats */
static const double LOADED        = 1.5;  /* latency under load / idle latency */
static const double BARRIER       = 40.0; /* clocks of a barrier */
static const double GAP_US        = 1.0;  /* between two kernels of a graph */
static const double GAP_PDL_US    = 0.5;
static const int    ARRIVAL       = 3; /* latencies of L2 for a last block: fence, counter, partial results */
static const int    REGISTERS     = 65536;
static const int    REGISTER_UNIT = 256, SHARED_UNIT = 128, SHARED_SYSTEM = 1024;

const char *const cli_bound_names[N_BOUNDS] = {
#define X(name) #name,
    BOUNDS(X)
#undef X
};

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

/* Blocks that an SM holds at a time. A warp takes registers in units of 256; four schedulers share the warps. */
static double resident_blocks(const Gpu *g, const KernelCounts *k) {
    const int warps        = (k->threads + 31) / 32;
    const int registers    = (32 * k->registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    const int shared       = (k->shared_bytes + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT + SHARED_SYSTEM;
    const int by_registers = REGISTERS / registers / 4 * 4 / warps, by_shared = g->shared_kb * 1024 / shared;
    double    blocks = least(g->max_blocks, g->max_warps / warps);
    blocks           = least(blocks, least(by_registers, by_shared));
    return most(blocks, 1.0);
}

/* Blocks of the SM that gets the most of them. A grid that was sized by the number of SMs (k->sms) gives each SM the
 * same number of blocks on every GPU. */
static double blocks_of_an_sm(const Gpu *g, const KernelCounts *k) {
    return ceil(k->blocks / (k->sms > 0.0 ? k->sms : g->sms));
}

/* The share of all work that the blocks of this SM have. */
static double share_of_an_sm(const Gpu *g, const KernelCounts *k) {
    const double blocks = k->sms > 0.0 ? k->blocks * g->sms / k->sms : k->blocks;
    return blocks_of_an_sm(g, k) / blocks;
}

/* The time of the last stores of a kernel. A last-arriving block, which finishes the work of all, works alone then. */
static double end_us(const Gpu *g, const KernelCounts *k) {
    return (g->latency_ns + (k->atomics > 0.0 ? ARRIVAL * g->l2_ns : 0.0)) * LOADED * 1e-3;
}

/* The time until the first data arrive. A kernel with early bytes has prefetched weights, and its column is in L2,
 * where the kernel before has left it. */
static double begin_us(const Gpu *g, const KernelCounts *k) {
    return (g->pdl && k->early_bytes > 0.0 ? g->l2_ns : g->latency_ns) * LOADED * 1e-3;
}

/* Time that reading the early bytes takes while the kernel before ends and in the gap, when memory is idle. */
static double hidden_us(const Gpu *g, const KernelCounts *k, const KernelCounts *before) {
    const double bytes = least(k->early_bytes, k->dram_bytes);
    if (!g->pdl || before == NULL) return 0.0;
    return least(bytes / (BANDWIDTH * g->gb_s * 1e3), end_us(g, before) + GAP_PDL_US);
}

static double memory_us(const Gpu *g, const KernelCounts *k) { return k->dram_bytes / (BANDWIDTH * g->gb_s * 1e3); }

/* The busiest SM: its schedulers, or the slowest of its arithmetic pipes (32 lanes an instruction). */
static double issue_us(const Gpu *g, const KernelCounts *k) {
    const double share  = share_of_an_sm(g, k);
    double       clocks = k->instructions / ISSUE;
    clocks              = most(clocks, k->ints * 32.0 / g->int_lanes);
    clocks              = most(clocks, k->dots * 32.0 / DOT_LANES);
    clocks              = most(clocks, (k->floats + k->dots) * 32.0 / g->float_lanes);
    clocks              = most(clocks, k->doubles * 32.0 / g->double_lanes);
    return share * clocks / (g->clock_ghz * 1e3);
}

/* The tensor cores of the busiest SM; the data sheet counts those of all SMs. */
static double tensor_us(const Gpu *g, const KernelCounts *k) {
    const double share = share_of_an_sm(g, k) * g->sms;
    const double us    = 2.0 * k->tensor_f16 / (g->tensor_f16 * 1e6) + 2.0 * k->tensor_s8 / (g->tensor_s8 * 1e6);
    return share * us / g->mma_share;
}

/* Little's law for the busiest SM: bytes = bandwidth * latency. For a kernel without weights and cache it is applied to
 * the activations. */
static double flight_us(const Gpu *g, const KernelCounts *k) {
    const double bytes     = k->dram_bytes > 0.0 ? k->dram_bytes : k->activation_bytes;
    const double blocks    = blocks_of_an_sm(g, k);
    const double in_flight = k->warp_flight * ((k->threads + 31) / 32) * least(resident_blocks(g, k), blocks);
    if (bytes <= 0.0 || in_flight <= 0.0) return 0.0;
    return bytes * share_of_an_sm(g, k) / in_flight * g->latency_ns * LOADED * 1e-3;
}

/* An upper bound: as if all atomics went to one address, which executes one per clock. */
static double atomics_us(const Gpu *g, const KernelCounts *k) { return k->atomics / (g->clock_ghz * 1e3); }

static double serial_us(const Gpu *g, const KernelCounts *k) {
    return begin_us(g, k) + end_us(g, k) + k->barriers / k->blocks * BARRIER / (g->clock_ghz * 1e3);
}

KernelTime cli_kernel_time(const Gpu *g, const StepCounts *c, int i) {
    const KernelCounts *k      = &c->kernels[i];
    const double        hidden = hidden_us(g, k, i > 0 ? k - 1 : NULL);
    KernelTime          t      = {
                      .limit  = {[BOUND_memory]  = memory_us(g, k) - hidden,
                                 [BOUND_issue]   = issue_us(g, k),
                                 [BOUND_tensor]  = tensor_us(g, k),
                                 [BOUND_flight]  = flight_us(g, k),
                                 [BOUND_atomics] = atomics_us(g, k)},
                      .serial = serial_us(g, k),
                      .hidden = hidden
    };
    for (int b = 1; b < N_BOUNDS; b++)
        if (t.limit[b] > t.limit[t.bound]) t.bound = (Bound)b;
    t.total = t.limit[t.bound] + t.serial;
    return t;
}

TokenTime cli_token_time(const Gpu *g, const StepCounts *c) {
    TokenTime t       = {0};
    Gpu       without = *g;
    without.pdl       = false;
    for (int i = 0; i < c->n_kernels; i++) {
        const KernelCounts *k  = &c->kernels[i];
        const double        us = cli_kernel_time(g, c, i).total;
        t.us += k->launches * (us + (g->pdl ? GAP_PDL_US : GAP_US));
        t.without_pdl_us += k->launches * (cli_kernel_time(&without, c, i).total + GAP_US);
        t.bytes += k->launches * k->dram_bytes;
    }
    return t;
}
