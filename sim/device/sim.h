/* sim.h - a simulated CUDA device and runtime: what tests control and observe (C and C++).
 *
 * The .cu files are compiled as host C++ (sim_cuda.h) and linked with this runtime instead of libcudart. A
 * kernel is a plain function, and every CUDA thread is a fiber that calls it.
 *
 *     API call ---- counted; injected failures end here        sim_faults.cpp, sim_errors.cpp
 *        |
 *        +-- the stream captures: a node of a graph            sim_capture.cpp, sim_graph.cpp
 *        +-- else: a work item in the queue of the stream      sim_stream.cpp, sim_memory.cpp, sim_launch.cpp
 *                     |
 *             query, synchronise: the queue runs               sim_exec.cpp
 *                     |
 *             grid -> blocks -> warps -> fibers                sim_device.cpp, sim_fiber.cpp
 *                     |
 *             barriers, shuffles, shared memory, atomics       sim_warp.cpp, sim_shared.cpp
 *             every access, in a build with RP_RACE            sim_race.cpp
 *             the same grid from nvcc's PTX                    sim/ptx, with REPRISE_SIM=ptx
 *             kernels of libraries, always from PTX            sim_library.cpp, sim/ptx
 *
 * Diagnostics go to stderr; a fatal one ends the process with status 99. Environment variables, for debugging:
 *     SIM_ASYNC=eager   a stream runs its work at once
 *     SIM_STACK_KB=N    stack of a fiber, 64 (256 under the address sanitizer)
 *     SIM_FILL=N        byte that uninitialised shared memory holds, 255 (a NaN in f32)
 *     SIM_CONTINUE      go on after a diagnostic that is not fatal
 *     SIM_LAX_EXIT      a collective may name lanes that have returned
 *     SIM_QUIET         API errors are not printed
 *     REPRISE_SIM=ptx   kernels are interpreted from their PTX instead of called
 *     REPRISE_PTX=DIR   folder of that PTX, the one of this build
 *     SIM_CAPABILITY=N  compute capability that the device reports at first, 90
 *     SIM_NAME=TEXT     name that the device reports, "simulated device"
 *     SIM_L2_KB=N       L2 cache that the device reports at first, 51200
 *     SIM_COST_US=N     kernels are not executed: each takes so much simulated time (sim_cost)
 *     SIM_BUG=N         the planted bug that is active in a race build (tests/planted_bugs/kernels.sh)
 *     SIM_HANG=N[:NAME] as sim_hang(NAME, N) at the start of the process
 */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* Any host thread may call the runtime; a mutex lets in one at a time.
 *
 * Work waits in its stream until a call needs its result, so a missing synchronisation shows. cudaStreamQuery
 * executes one step: the first work item of the queue. A graph launch with a WHILE node is one step per
 * iteration, so a host that polls sees what the loop has written so far.
 *
 * Copies, kernels and nodes are counted when they are executed, in graphs too. `api_calls` counts calls from
 * outside only; calls that the runtime makes to itself do not count. */
typedef struct {
    unsigned long launch_calls, kernels, graph_launches, nodes, memcpys, memsets, syncs, captures, instantiates,
        updates, while_iters;
    long          live_allocs, live_libraries, live_streams;
    unsigned long allocs; /* device and pinned host memory */
    unsigned long api_calls;
    unsigned long pdl_launches; /* launches with the attribute of programmatic dependent launch (PDL) */
    unsigned long h2d_copies, d2h_copies, d2d_copies, h2d_bytes, d2h_bytes, d2d_bytes;
    unsigned long prefetched_bytes; /* of prefetches that have a length; 0 for kernels that run from their PTX */
    unsigned long barriers;         /* of whole blocks, each counted once; 0 for kernels that run from their PTX */
} SimStats;

#ifdef __cplusplus
extern "C" {
#endif
SimStats sim_stats(void);
void     sim_stats_reset(void); /* all but the live ones */

/* A sanitizer makes the simulation ten times slower. Tests then run the last thread order only, and one model
 * or type of every SIM_EACH. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SIM_FIRST_ORDER = 2, SIM_EACH = 3 };
#else
enum { SIM_FIRST_ORDER = 0, SIM_EACH = 1 };
#endif

/* Order in which ready threads, warps, blocks and graph nodes run: 0 forward, 1 reverse, 2 random. A random
 * order depends on the seed alone. Results that differ between orders reveal a race. */
void sim_sched(int policy, unsigned seed);
void sim_async(int lazy); /* 1 (default): work waits in its stream; 0: it runs at once */

/* Total device memory in bytes, 16 GiB at first; 0: no limit. */
void sim_device_memory(size_t bytes);

/* The driver version that cudaDriverGetVersion returns (0: no driver), and the number of devices. */
void sim_driver(int version, int n_devices);

/* There is no code of the kernels for the device: cudaFuncGetAttributes and launches fail. */
void sim_no_code(int none);

/* Launches with the attribute of programmatic dependent launch fail. */
void sim_refuse_pdl(int refuse);

/* The L2 cache that the device reports, 50 MB at first. */
void sim_l2(size_t bytes);

/* The memory bus that the device reports in bits, 0 at first, as simulated devices have none. */
void sim_memory_bus(int bits);

/* Simulated time: kernels are not executed any more. Each takes the microseconds that `us` returns for it, and the
 * times of events are their sum. NULL: kernels run, and events have the time of the host. */
typedef struct {
    const char *kernel; /* as in a dump, with template arguments */
    unsigned    blocks;
    int         pdl;
    const void *argument; /* the first argument of the kernel */
    size_t      bytes;    /* its size */
} SimKernelRun;
typedef double SimCost(const SimKernelRun *run, void *user);
void           sim_cost(SimCost *us, void *user);

/* The compute capability that the device reports; 0: that of SIM_CAPABILITY in the environment, the value at first, or
 * 9.0. */
void sim_capability(int major, int minor);

/* The versions that cudaFuncGetAttributes reports for kernels whose name contains `name` (NULL: all kernels): of their
 * PTX and of their machine code, 10 * major + minor. 90 and 90 at first. */
void sim_kernel_code(const char *name, int ptx, int binary);

/* `f` is called when the first thread of a PDL launch has waited for the earlier kernels; NULL: none. It may
 * write what an earlier kernel could have written last. */
void sim_on_wait(void (*f)(const char *kernel, void *user), void *user);

/* The nth call of the named function (1: the next) fails with that error and does nothing. Exceptions: a
 * function that releases something releases it and fails all the same, and cudaStreamEndCapture ends its
 * capture. A failure on a stream that captures invalidates the capture. */
void     sim_fail(const char *call, unsigned nth, cudaError_t with);
unsigned sim_fails_left(void); /* requested failures that have not happened yet */

/* The nth kernel from now faults. Neither it nor anything after it is executed, and every call that needs the device
 * returns the error: it is sticky, as on a real device. */
void sim_fault(unsigned nth_kernel, cudaError_t with);

/* The nth run from now of a kernel whose name contains `kernel` (NULL: any) does not end until sim_release. Nothing
 * after it in its stream is executed, and queries answer cudaErrorNotReady. Calls that would wait for ever on a real
 * device (synchronising, freeing memory) end the process with status 99; other calls return at once, as on a device. */
void     sim_hang(const char *kernel, unsigned nth);
unsigned sim_hanging(void); /* streams with a kernel that does not end */
void     sim_release(void); /* these kernels run now, when their streams go on; a hang to come is cancelled */

/* Cancels pending failures, faults and hangs, clears the sticky error and drops queued work. Memory stays allocated. */
void sim_reset_faults(void);
#ifdef __cplusplus
}
#endif
#endif
