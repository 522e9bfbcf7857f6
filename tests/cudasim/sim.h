/* sim.h - what tests may ask of the simulation (C and C++). */
#ifndef SIM_TEST_H
#define SIM_TEST_H
typedef struct {
    unsigned long launch_calls, kernels, graph_launches, nodes, memcpys, memsets, syncs, captures,
        instantiates, updates, while_iters;
    long live_allocs;
} SimStats;
#ifdef __cplusplus
extern "C" {
#endif
SimStats sim_stats(void);
void     sim_stats_reset(void);
void     sim_sched(int policy /* 0 forward 1 reverse 2 random */, unsigned seed);
void     sim_async(int lazy);
#ifdef __cplusplus
}
#endif
#endif
