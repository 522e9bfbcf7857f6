/* The functions of sim.h that op tests call, for a real device: its thread order cannot be chosen. */
#include "tests/cudasim/sim.h"

void sim_sched(int policy, unsigned seed) { (void)policy, (void)seed; }
