/* The functions of sim.h that tests call, for a real device: its thread order cannot be chosen, it counts nothing, and
 * its kernels hang by themselves. */
#include "sim/device/sim.h"

void sim_sched(int policy, unsigned seed) { (void)policy, (void)seed; }

void sim_stats_reset(void) {}

void sim_hang(const char *kernel, unsigned nth) { (void)kernel, (void)nth; }

void sim_release(void) {}

SimStats sim_stats(void) { return (SimStats){0}; }
