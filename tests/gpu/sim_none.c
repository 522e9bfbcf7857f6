/* The functions of sim.h that op tests call, for a real device: its thread order cannot be chosen, and it counts
 * nothing. */
#include "sim/device/sim.h"

void sim_sched(int policy, unsigned seed) { (void)policy, (void)seed; }

void sim_stats_reset(void) {}

SimStats sim_stats(void) { return (SimStats){0}; }
