// sim_internal.h - data structures and functions that the files of the simulation share; kernels never see it.
//
//     SimLaunch            kernel, grid, block, copied arguments
//       Block              one resident block: barrier state, shared memory
//         Warp             sets of lanes: exist, done, ready, waiting
//           Fiber          one CUDA thread: stack, why it waits, operand and result of its collective
//
//     CUstream_st          queue of SimWork, or the state of a capture
//     CUgraph_st           nodes in the order they were added; CUgraphExec_st holds a copy and a map from the originals
#ifndef SIM_INT_H
#define SIM_INT_H
#include "sim/device/sim_cuda.h"

#include "sim/device/sim.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

struct SimKernelInfo {
    const void         *fn;
    std::string         name;
    SimThunk            thunk;
    std::vector<size_t> sizes;
    int                 allowed_smem = 0;       // dynamic, by cudaFuncSetAttribute
    const void         *ptx          = nullptr; // a ptx::Kernel: of a loaded library, without a host function
    int                 max_threads  = 1024;
};
SimKernelInfo *sim_find_kernel(const void *fn);
void           sim_add_kernel(const SimKernelInfo &k);
void           sim_remove_kernel(const void *fn);

// One kernel launch. The arguments are copied, as the runtime does: args[i] points to data[i]. Copying a launch
// therefore rebuilds args.
struct SimLaunch {
    SimKernelInfo                 *k = nullptr;
    dim3                           grid, block;
    unsigned                       smem = 0;
    bool                           coop = false, pdl = false;
    std::vector<std::vector<char>> data;
    std::vector<void *>            args;
    void                           set_args(void **src) {
                                  data.clear();
                                  args.clear();
                                  for (size_t i = 0; i < k->sizes.size(); i++) {
                                      const char *p = (const char *)src[i];
                                      data.emplace_back(p, p + k->sizes[i]);
        }
                                  for (auto &d : data) args.push_back(d.data());
    }
    SimLaunch() = default;
    SimLaunch(const SimLaunch &o) { *this = o; }
    SimLaunch &operator=(const SimLaunch &o) {
        k     = o.k;
        grid  = o.grid;
        block = o.block;
        smem  = o.smem;
        coop  = o.coop;
        pdl   = o.pdl;
        data  = o.data;
        args.clear();
        for (auto &d : data) args.push_back(d.data());
        return *this;
    }
};
void sim_run_kernel(SimLaunch &l);  // runs the whole grid, synchronously
bool sim_costs(const SimLaunch &l); // takes simulated time instead of running, after sim_cost
bool sim_has_pdl(void);             // devices before 9.0 run a PDL launch after the kernel before it
#ifdef SIM_PTX
bool  sim_ptx_on(void);               // REPRISE_SIM=ptx
bool  sim_run_ptx(SimLaunch &l);      // the same from PTX (sim/ptx); false unless REPRISE_SIM=ptx or of a library
void *sim_ptx_open(const char *text); // a module from a terminated text, to be freed by sim_ptx_close
void  sim_ptx_close(void *module);
bool  sim_ptx_kernel(void *module, const char *name, SimKernelInfo &out); // false if there is no such entry
#else
static inline bool sim_run_ptx(SimLaunch &) { return false; }
static inline bool sim_ptx_on(void) { return false; }
#endif
void sim_waited(const char *kernel); // calls the function of sim_on_wait

struct Block;
struct Warp;
struct CpAsync {
    void       *dst;
    const void *src;
    int         n;
};
// One CUDA thread, as long as its block is resident; then the fiber runs a thread of the next block.
struct Fiber {
    uint3                 tid;
    void                 *sp;
    char                 *stk;
    void                 *fake;
    Warp                 *w;
    Block                *b;
    unsigned              lane, lin;     // in the warp, in the block
    const char           *file;          // where it waits
    int                   line, waiting; // waiting: 0 no 1 warp op 2 block barrier 3 grid barrier 4 spin
    SimOp                 op;            // the collective, its mask, operand, result and parameters
    unsigned              mask;
    uint64_t              val, res;
    int                   arg, width;
    SimFold               fold;
    std::vector<CpAsync> *cp;
    std::vector<size_t>  *cpg; // queued cp.async copies; number of copies at each commit
    uint32_t              clk, seen[32], fence_clk, fence_epoch;
    bool                  pdl_wait;  // has not yet waited for earlier kernels, as a PDL launch must
    struct RaceSeen      *rs, *pend; // race checker, like clk to fence_epoch: see sim_race.cpp
};
// Each lane of `exist` is in exactly one of: running, ready, waiting in a collective, waiting elsewhere
// (Fiber.waiting), done.
struct Warp {
    Fiber   *f[32];
    unsigned exist, done, ready, waiting; // bit l: lane l
};
struct Slot { // a variable in shared memory; key: address of a static object that stands for it
    const void *key;
    void       *p;
    size_t      n;
};
struct Block {
    uint3             bid;
    uint32_t          id, gid, epoch;           // epoch: number of the barrier interval, for the race checker
    unsigned          nthr, nlive, nbar, nwarp; // nlive: threads that have not returned; nbar: at the barrier
    int               barop, bacc, bres;        // kind of barrier, true predicates so far, result
    const char       *bfile;
    int               bline;
    std::vector<Slot> slots;
    void             *dyn; // dynamic shared memory
    std::vector<Warp> w;
    struct RaceSeen  *rs, *rel;
};
extern Fiber        *sim_f;    // the CUDA thread now running
extern __thread bool sim_here; // in the host thread that runs it
extern SimLaunch    *sim_l;    // launch in progress
extern unsigned long sim_switches, sim_threads_run, sim_collectives;
extern int           sim_reports; // diagnostics printed so far

enum { SIM_FWD, SIM_REV, SIM_RANDOM };
void        sim_set_sched(int policy, unsigned seed);
unsigned    sim_rand(void);
extern int  sim_policy;
void        sim_report(bool fatal, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *sim_where(void); // "kernel block (..) thread (..)" of the running thread

// Race checker hooks; no-ops unless built with -DSIM_RACE.
#ifdef SIM_RACE
void               race_launch(void);
void               race_warp_sync(Warp *w, unsigned lanes);
void               race_forget(const void *p, size_t n, bool init);
void               race_atomic(void *p, int n, int order, void *pc);
void               race_fence(void);
void               race_block_start(Block *b);
void               race_bar(Block *b);
void               race_grid(void);
void               race_touch(const void *p, size_t n, bool wr);
void               race_async(void *p, size_t n);
extern const char *sim_stk_lo, *sim_stk_hi;
#else
static inline void race_launch(void) {}
static inline void race_warp_sync(Warp *, unsigned) {}
static inline void race_forget(const void *, size_t, bool) {}
static inline void race_atomic(void *, int, int, void *) {}
static inline void race_fence(void) {}
static inline void race_block_start(Block *) {}
static inline void race_bar(Block *) {}
static inline void race_grid(void) {}
static inline void race_touch(const void *, size_t, bool) {}
static inline void race_async(void *, size_t) {}
#endif
// Allocations of the runtime, for bounds and host-pointer checks.
struct SimAlloc {
    char  *p;
    size_t n;
    int    kind;    // 1 device 2 pinned host
    char  *written; // sim/ptx: for each byte whether it was ever written; null: not known
    bool   whole;   // every byte of written is set
    size_t mapped;  // bytes of a mapping, 0: memory of malloc
};
bool            sim_bits_on(void);
void            sim_bits_kernel(const std::string &name, const std::string &instructions); // the log of SIM_BITS
void            sim_bits_copy(const void *p, size_t n);
void            sim_note_written(const void *p, size_t n);
void            sim_all_written(void);
const SimAlloc *sim_alloc_of(const void *p); // the allocation that contains p, or null
// Order of a graph's nodes, for races between nodes: launch base + i was made by node node_of_launch[i], and
// anc[n][m] says that node m is an ancestor of node n. Two nodes may run at once if neither is the other's ancestor.
struct SimOrder {
    uint32_t                       base = 0;
    std::vector<std::vector<bool>> anc;
    int                            cur = -1;
    std::vector<int>               node_of_launch;
};
extern SimOrder *sim_order;
extern uint32_t  sim_launch_id;

// ---- device: fibers, warps, blocks ----
extern unsigned long        sim_events;                       // progress marks, for deadlock detection
extern std::vector<Block *> sim_resident;                     // blocks of the launch in progress that hold threads
int                         sim_pick(unsigned set);           // one lane of the set, by the schedule
void                        sim_swap_in(Fiber *f);            // scheduler -> fiber
void                        sim_swap_to(Fiber *me, Fiber *f); // fiber -> fiber, or scheduler if f is null
void                        sim_next(Fiber *me);              // yield; the caller has recorded why
Fiber                      *sim_fiber(size_t i);
void                        sim_fiber_host(void); // the calling host thread becomes the scheduler
const char                 *sim_opname(SimOp op);
bool                        sim_warp_try(Warp *w, unsigned mask);
void                        sim_tile_complete(Warp *w);             // an mma or ldmatrix, in which all lanes wait
bool                        sim_is_shared(const void *p, size_t n); // of the running block
void                        sim_bar_try(Block *b);
void                        sim_grid_try(void);
int                         sim_fill(void);

// ---- host side: streams, events, graphs ----
struct SimRecord { // one recording of an event
    bool         done   = false;
    cudaStream_t stream = nullptr;
    double       ms     = 0; // of the host's clock, when it was done
};
struct CUevent_st {
    std::shared_ptr<SimRecord>   last;
    cudaStream_t                 stream     = nullptr;
    bool                         timing     = true;
    bool                         in_capture = false;
    uint64_t                     cap_id     = 0;
    std::vector<cudaGraphNode_t> deps;
};
// A work item of a stream. Runs to its end if `whole`, else one step; returns false while there is more to do: for
// `whole` if a kernel does not end.
typedef std::function<bool(bool whole)> SimWork;
// While a stream captures (cap), it holds the graph and the nodes that the next captured node depends on (deps):
//     launch a, launch b on s:            a -> b, deps(s) = {b}
//     record e on s; wait for e on t:     t joins the capture, deps(t) = {b}
// cap_origin: the capture began here; cap_bad: a forbidden call has invalidated it.
struct CUstream_st {
    std::deque<SimWork>            q;
    bool                           hangs = false; // the first item of q is at a kernel that does not end
    bool                           cap = false, cap_origin = false, cap_bad = false;
    uint64_t                       cap_id      = 0;
    cudaGraph_t                    g           = nullptr;
    bool                           frees_graph = true; // if the capture fails: the graph was made for it
    std::vector<cudaGraphNode_t>   deps;
    cudaStreamCaptureMode          mode;
    std::vector<cudaGraphEdgeData> edge_dummy;
};
// Nodes of all types; the fields after `idx` belong to kernels (k), copies and memsets (dst to esz), host functions,
// child graphs and conditional nodes.
struct CUgraphNode_st {
    cudaGraph_t                  g;
    cudaGraphNodeType            type;
    std::vector<cudaGraphNode_t> deps;
    bool                         enabled = true;
    int                          idx     = 0;
    SimLaunch                    k;
    void                        *dst = nullptr;
    const void                  *src = nullptr;
    size_t                       n   = 0;
    cudaMemcpyKind               kind;
    int                          val = 0, esz = 1;
    cudaHostFn_t                 hfn   = nullptr;
    void                        *harg  = nullptr;
    cudaGraph_t                  child = nullptr;
    cudaConditionalNodeParams    cond{};
    std::vector<cudaGraph_t>     bodies;
};
struct CUgraph_st {
    std::vector<cudaGraphNode_t>            nodes;
    bool                                    is_body  = false;
    bool                                    has_cond = false;
    int                                     execs    = 0;
    cudaGraph_t                             root     = nullptr;
    std::vector<cudaGraphConditionalHandle> handles;
};
// An executable graph: a copy g of src, and the copy of each original node (for updates by node).
struct CUgraphExec_st {
    cudaGraph_t                                src, g;
    std::map<cudaGraphNode_t, cudaGraphNode_t> m;
};
struct CondHandle {
    unsigned val, def;
    bool     assign;
};

// Requirements of an API function: none, a driver and a device, or a device without a sticky error.
enum SimNeeds { SIM_NEEDS_NOTHING, SIM_NEEDS_DRIVER, SIM_NEEDS_DEVICE };
std::recursive_mutex &sim_mutex(void); // held while a host thread is inside an API function
// Every API function has one on its stack. It takes the mutex, counts the call and applies injected failures.
struct SimCall {
    cudaError_t error;
    SimCall(const char *name, SimNeeds needs, cudaStream_t s = nullptr);
    ~SimCall();
    cudaError_t result(cudaError_t e) const; // for functions that do their work even if they fail
};
#define SIM_CALL(...)                                                                                                  \
    SimCall call_(__func__, __VA_ARGS__);                                                                              \
    if (call_.error != cudaSuccess) return call_.error

extern cudaError_t sim_sticky; // the error of a faulted kernel, returned until sim_reset_faults
extern int         sim_n_devices;
cudaError_t        sim_driver_state(void);
cudaError_t        sim_status(void);
bool               sim_kernel_faults(void); // counts down to the injected fault; true: do not run the kernel
bool               sim_kernel_hangs(const SimLaunch &l); // counts down for sim_hang; true: the stream that runs hangs
void               sim_must_end(cudaStream_t s, const char *call); // reports a call that waits for a hanging kernel

enum { SIM_SMS = 132 };
extern SimStats                sim_st;
extern cudaError_t             sim_last_err;
extern std::vector<CondHandle> sim_conds;
extern std::set<cudaStream_t>  sim_streams;
extern CUstream_st             sim_null_stream;

// Records a failure for cudaGetLastError and says why on stderr.
cudaError_t sim_err(cudaError_t e, const char *why = nullptr);
bool        sim_lazy(void);
bool        sim_range_ok(const void *p, size_t n, bool need_dev);
cudaError_t sim_check_copy(void *d, const void *s, size_t n, cudaMemcpyKind k);

static inline cudaStream_t sim_stream(cudaStream_t s) {
    return s == nullptr || s == cudaStreamLegacy ? &sim_null_stream : s;
}
cudaError_t sim_no_capture(
    const char *what,
    cudaError_t with = cudaErrorStreamCaptureUnsupported); // while a stream captures: invalidates the capture and fails
extern cudaStream_t sim_running;                           // whose work runs, or null
bool                sim_advance(cudaStream_t s, bool whole);
void                sim_drain(cudaStream_t s);
cudaError_t         sim_drain_all(void);
void                sim_enqueue(cudaStream_t s, SimWork f);
cudaError_t         sim_check_launch(const SimLaunch &l);
bool                sim_make_launch(SimLaunch &l, const void *f, dim3 g, dim3 b, void **args, size_t smem);
cudaGraphNode_t     sim_add_node(cudaGraph_t g, cudaGraphNodeType t, const std::vector<cudaGraphNode_t> &deps);
cudaGraphNode_t     sim_cap_add(cudaStream_t s, cudaGraphNodeType t);
void                sim_free_graph(cudaGraph_t g);
std::vector<int>    sim_topo(cudaGraph_t g); // any valid order; a random one under SIM_RANDOM
void                sim_do_copy(void *d, const void *s, size_t n, cudaMemcpyKind k);
void                sim_count_copy(const void *d, const void *s, size_t n, cudaMemcpyKind k);
void                sim_do_set(void *d, int v, size_t n);
void                sim_do_kernel(SimLaunch &l);
SimWork             sim_graph_work(cudaGraphExec_t x);
void                sim_free_all(void);
void                sim_memory_info(size_t *free, size_t *total);
#endif
