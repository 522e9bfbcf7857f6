/* sim.h - what tests may ask of the simulated CUDA runtime (C and C++). */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* Any host thread may call the runtime; one is in it at a time.
 *
 * Work waits in its stream until something asks for it. cudaStreamQuery does one step: what is first in the
 * queue, or of a graph with a WHILE node one iteration, so that a host that polls sees what the loop writes.
 *
 * Copies are counted when they are executed, in graphs too; `api_calls` once a call from outside, whatever it
 * calls inside. */
typedef struct {
    unsigned long launch_calls, kernels, graph_launches, nodes, memcpys, memsets, syncs, captures,
        instantiates, updates, while_iters;
    long          live_allocs;
    unsigned long allocs; /* device and pinned host memory */
    unsigned long api_calls;
    unsigned long overlaps; /* launches with the attribute of programmatic dependent launch */
    unsigned long h2d_copies, d2h_copies, d2d_copies, h2d_bytes, d2h_bytes, d2d_bytes;
} SimStats;

#ifdef __cplusplus
extern "C" {
#endif
SimStats sim_stats(void);
void     sim_stats_reset(void);

/* A sanitizer makes the simulation ten times slower: one order of the threads, and one model or type of so many,
 * must do then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SIM_FIRST_ORDER = 2, SIM_EACH = 3 };
#else
enum { SIM_FIRST_ORDER = 0, SIM_EACH = 1 };
#endif

void     sim_sched(int policy /* 0 forward 1 reverse 2 random */, unsigned seed);
void     sim_async(int lazy);

/* The device's memory in all, 16 GiB at first; 0: without a limit. */
void sim_device_memory(size_t bytes);

/* The driver's version as cudaDriverGetVersion gives it, 0 for no driver, and the number of devices. */
void sim_driver(int version, int n_devices);

/* Launches with the attribute of programmatic dependent launch fail. */
void sim_refuse_overlap(int refuse);

/* The compute capability that the device says it has, 9.0 at first. */
void sim_capability(int major, int minor);

/* The nth call from now, 1 for the next, of the function of that name fails with that error and does nothing.
 * Functions that release something do so and fail nevertheless, and so does cudaStreamEndCapture. A failure
 * on a stream that captures invalidates the capture. */
void     sim_fail(const char *call, unsigned nth, cudaError_t with);
unsigned sim_fails_left(void); /* of those asked for, how many have not happened */

/* The nth kernel from now faults: neither it nor anything after it is executed, and every call that needs the
 * device returns the error. */
void sim_fault(unsigned nth_kernel, cudaError_t with);

/* Forgets what sim_fail and sim_fault asked for and have done; what was queued is dropped. Memory stays
 * allocated. */
void sim_reset_faults(void);
#ifdef __cplusplus
}
#endif
#endif
