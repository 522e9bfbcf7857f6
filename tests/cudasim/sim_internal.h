// sim_internal.h - shared between the parts of the simulation; kernels never see it.
#ifndef SIM_INT_H
#define SIM_INT_H
#include "sim_cuda.h"

#include "sim.h"

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
    int                 max_dyn_smem = 48 * 1024;
};
SimKernelInfo *sim_find_kernel(const void *fn);

struct SimLaunch { // one kernel launch, arguments copied
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
void sim_run_kernel(SimLaunch &l); // runs the whole grid, synchronously

struct Block;
struct Warp;
struct CpAsync {
    void       *dst;
    const void *src;
    int         n;
};
struct Fiber {
    uint3                 tid;
    void                 *sp;
    char                 *stk;
    void                 *fake;
    Warp                 *w;
    Block                *b;
    unsigned              lane, lin;
    const char           *file;
    int                   line, waiting; // waiting: 0 no 1 warp op 2 block barrier 3 grid barrier 4 spin
    SimOp                 op;
    unsigned              mask;
    uint64_t              val, res;
    int                   arg, width;
    std::vector<CpAsync> *cp;
    std::vector<size_t>  *cpg; // queued async copies; commit points
    uint32_t              clk, seen[32], fence_clk, fence_epoch;
    bool                  pdl_wait;
    struct RaceSeen      *rs, *pend; // race checker
};
struct Warp {
    Fiber   *f[32];
    unsigned exist, done, ready, waiting;
};
struct Slot {
    const void *key;
    void       *p;
    size_t      n;
};
struct Block {
    uint3             bid;
    uint32_t          id, gid, epoch;
    unsigned          nthr, nlive, nbar, nwarp;
    int               barop, bacc, bres;
    const char       *bfile;
    int               bline;
    std::vector<Slot> slots;
    void             *dyn;
    std::vector<Warp> w;
    struct RaceSeen  *rs, *rel;
};
extern Fiber        *sim_f;    // the CUDA thread now running
extern __thread bool sim_here; // in the host thread that runs it
extern SimLaunch    *sim_l;    // launch in progress
extern unsigned long sim_switches, sim_threads_run, sim_collectives, sim_barriers;
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
// Device allocations, for bounds and host-pointer checks.
struct SimAlloc {
    char  *p;
    size_t n;
    int    kind;
}; // kind 1 device 2 pinned host
const SimAlloc *sim_alloc_of(const void *p);
// Graph order, for the cross-node race check: may node of launch a run concurrently with b?
struct SimOrder {
    uint32_t                       base = 0;
    std::vector<std::vector<bool>> anc;
    int                            cur = -1;
    std::vector<int>               node_of_launch;
};
extern SimOrder *sim_order;
extern uint32_t  sim_launch_id;

// ---- between the parts of the device ----
extern unsigned long        sim_events;   // progress marks, for deadlock detection
extern std::vector<Block *> sim_resident; // blocks of the launch in progress that hold threads
int                         sim_pick(unsigned set);
void                        sim_swap_in(Fiber *f);
void                        sim_swap_to(Fiber *me, Fiber *f);
void                        sim_next(Fiber *me);
Fiber                      *sim_fiber(size_t i);
void                        sim_fiber_host(void); // the fibers to come return to this host thread
const char                 *sim_opname(SimOp op);
bool                        sim_warp_try(Warp *w, unsigned mask);
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
// Queued work: runs to its end if `whole`, else one step of it; false while there is more to do.
typedef std::function<bool(bool whole)> SimWork;
struct CUstream_st {
    std::deque<SimWork>            q;
    bool                           cap = false, cap_origin = false, cap_bad = false;
    uint64_t                       cap_id    = 0;
    cudaGraph_t                    g         = nullptr;
    bool                           own_graph = true;
    std::vector<cudaGraphNode_t>   deps;
    cudaStreamCaptureMode          mode;
    std::vector<cudaGraphEdgeData> edge_dummy;
};
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
struct CUgraphExec_st {
    cudaGraph_t                                src, g;
    std::map<cudaGraphNode_t, cudaGraphNode_t> m;
};
struct CondHandle {
    unsigned val, def;
    bool     assign;
};

// What a function needs before it can do anything.
enum SimNeeds { SIM_NEEDS_NOTHING, SIM_NEEDS_DRIVER, SIM_NEEDS_DEVICE };
std::recursive_mutex &sim_mutex(void); // held by the API function that some host thread is in
struct SimCall {                       // on the stack of every API function
    cudaError_t error;
    SimCall(const char *name, SimNeeds needs, cudaStream_t s = nullptr);
    ~SimCall();
    cudaError_t result(cudaError_t e) const; // of a function that works all the same
};
#define SIM_CALL(...)                                                                                        \
    SimCall call_(__func__, __VA_ARGS__);                                                                    \
    if (call_.error != cudaSuccess) return call_.error

extern cudaError_t sim_sticky; // what a kernel's fault left behind
extern int         sim_n_devices;
cudaError_t        sim_driver_state(void);
cudaError_t        sim_status(void);
bool               sim_kernel_faults(void); // counts a kernel down

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
    cudaError_t with =
        cudaErrorStreamCaptureUnsupported); // refuses, and spoils the capture, while a stream captures
bool             sim_advance(cudaStream_t s, bool whole);
void             sim_drain(cudaStream_t s);
cudaError_t      sim_drain_all(void);
void             sim_enqueue(cudaStream_t s, SimWork f);
cudaError_t      sim_check_launch(const SimLaunch &l);
bool             sim_make_launch(SimLaunch &l, const void *f, dim3 g, dim3 b, void **args, size_t smem);
cudaGraphNode_t  sim_add_node(cudaGraph_t g, cudaGraphNodeType t, const std::vector<cudaGraphNode_t> &deps);
cudaGraphNode_t  sim_cap_add(cudaStream_t s, cudaGraphNodeType t);
void             sim_free_graph(cudaGraph_t g);
std::vector<int> sim_topo(cudaGraph_t g); // any valid order; a random one under SIM_RANDOM
void             sim_do_copy(void *d, const void *s, size_t n, cudaMemcpyKind k);
void             sim_count_copy(const void *d, const void *s, size_t n, cudaMemcpyKind k);
void             sim_do_set(void *d, int v, size_t n);
void             sim_do_kernel(SimLaunch &l);
SimWork          sim_graph_work(cudaGraphExec_t x);
void             sim_free_all(void);
void             sim_memory_info(size_t *free, size_t *total);
#endif
