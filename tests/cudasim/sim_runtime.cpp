// sim_runtime.cpp - the subset of the CUDA runtime API that the project uses, on the CPU.
// Compiled against the real cuda_runtime_api.h, linked INSTEAD of libcudart: a
// function that is missing here is a link error, a changed signature a compile error.
#include "sim_internal.h"
#include "sim.h"
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static SimStats    st;
static cudaError_t last_err;
static int         mode_lazy = -1;
static bool        lazy(void) {
           if (mode_lazy < 0) {
               const char *e = getenv("SIM_ASYNC");
               mode_lazy     = !e || std::string(e) != "eager";
    }
           return mode_lazy;
}
static cudaError_t err(cudaError_t e, const char *why = nullptr) {
    if (e != cudaSuccess) {
        last_err = e;
        if (why && !getenv("SIM_QUIET")) fprintf(stderr, "cudasim: %s: %s\n", cudaGetErrorName(e), why);
    }
    return e;
}
extern "C" {
SimStats sim_stats(void) { return st; }
void sim_stats_reset(void) { /* but for what is allocated */
    const long live = st.live_allocs;
    st              = SimStats{};
    st.live_allocs  = live;
}
void     sim_sched(int policy, unsigned seed) { sim_set_sched(policy, seed); }
void     sim_async(int l) { mode_lazy = l; }
}

// ---- memory ----------------------------------------------------------------
static std::map<char *, SimAlloc> &allocs() {
    static std::map<char *, SimAlloc> m;
    return m;
}
static const SimAlloc *hit; // last answer; dropped on free
const SimAlloc        *sim_alloc_of(const void *p) {
           auto &m = allocs();
           if (hit && (char *)p >= hit->p && (char *)p < hit->p + hit->n) return hit;
    auto i = m.upper_bound((char *)p);
           if (i == m.begin()) return nullptr;
    --i;
           if ((char *)p >= i->second.p + i->second.n) return nullptr;
    return hit = &i->second;
}
static const SimAlloc *alloc_exact(const void *p) {
    auto i = allocs().find((char *)p);
    return i == allocs().end() ? nullptr : &i->second;
}
static bool        capturing_any(void);
static cudaError_t alloc(void **p, size_t n, int kind) {
    if (capturing_any() && kind == 1)
        return err(cudaErrorStreamCaptureUnsupported, "allocation while a stream captures");
    if (!n) {
        *p = nullptr;
        return cudaSuccess;
    }
    if (posix_memalign(p, 256, n)) return err(cudaErrorMemoryAllocation);
    memset(*p, 0xff, n);
    allocs()[(char *)*p] = {(char *)*p, n, kind};
    race_forget(*p, n, kind == 2);
    st.live_allocs++;
    return cudaSuccess;
}
static cudaError_t drain_all(void);
static cudaError_t dealloc(void *p) {
    if (!p) return cudaSuccess;
    if (!alloc_exact(p)) return err(cudaErrorInvalidValue, "free of a pointer that was not allocated");
    drain_all();
    race_forget(p, alloc_exact(p)->n, false);
    allocs().erase((char *)p);
    hit = nullptr;
    free(p);
    st.live_allocs--;
    return cudaSuccess;
}
static bool range_ok(const void *p, size_t n, bool need_dev) {
    const SimAlloc *a = sim_alloc_of(p);
    if (!a) return !need_dev;
    return (char *)p + n <= a->p + a->n && (!need_dev || a->kind == 1);
}

// ---- streams, events, graphs -------------------------------------------------
struct Node;
struct CUevent_st {
    uint64_t                     seq        = 0;
    bool                         recorded   = false;
    bool                         done       = true;
    cudaStream_t                 stream     = nullptr;
    bool                         in_capture = false;
    uint64_t                     cap_id     = 0;
    std::vector<cudaGraphNode_t> deps;
    double                       t = 0;
};
struct CUstream_st {
    std::deque<std::function<void()>> q;
    bool                              cap = false, cap_origin = false, cap_bad = false;
    uint64_t                          cap_id    = 0;
    cudaGraph_t                       g         = nullptr;
    bool                              own_graph = true;
    std::vector<cudaGraphNode_t>      deps;
    cudaStreamCaptureMode             mode;
    std::vector<cudaGraphEdgeData>    edge_dummy;
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
static std::vector<CondHandle> conds;
static std::set<cudaStream_t>  streams;
static CUstream_st             null_stream;
static uint64_t                cap_ids;

static cudaStream_t S(cudaStream_t s) { return s == nullptr || s == cudaStreamLegacy ? &null_stream : s; }
static bool         capturing_any(void) {
            for (auto s : streams)
        if (s->cap && s->mode != cudaStreamCaptureModeRelaxed) return true;
    return false;
}
static void drain(cudaStream_t s) {
    while (!s->q.empty()) {
        auto f = std::move(s->q.front());
        s->q.pop_front();
        f();
    }
}
static cudaError_t drain_all(void) { // streams progress in a seeded random interleaving
    drain(&null_stream);
    for (;;) {
        std::vector<cudaStream_t> v;
        for (auto s : streams)
            if (!s->q.empty()) v.push_back(s);
        if (v.empty()) return cudaSuccess;
        auto s = v[sim_policy == SIM_RANDOM ? sim_rand() % v.size() : 0];
        auto f = std::move(s->q.front());
        s->q.pop_front();
        f();
    }
}
// The legacy null stream orders itself against every other (blocking) stream.
static void enqueue(cudaStream_t s, std::function<void()> f) {
    if (s == &null_stream) {
        drain_all();
        f();
        return;
    }
    if (!null_stream.q.empty()) drain(&null_stream);
    s->q.push_back(std::move(f));
    if (!lazy()) drain(s);
}
static cudaError_t no_capture(const char *what) {
    for (auto s : streams)
        if (s->cap && s->mode != cudaStreamCaptureModeRelaxed) {
            s->cap_bad = true;
            return err(cudaErrorStreamCaptureUnsupported, what);
        }
    return cudaSuccess;
}
static cudaGraphNode_t add(cudaGraph_t g, cudaGraphNodeType t, const std::vector<cudaGraphNode_t> &deps) {
    auto n  = new CUgraphNode_st();
    n->g    = g;
    n->type = t;
    n->deps = deps;
    n->idx  = (int)g->nodes.size();
    g->nodes.push_back(n);
    return n;
}
static cudaGraphNode_t cap_add(cudaStream_t s, cudaGraphNodeType t) {
    auto n = add(s->g, t, s->deps);
    s->deps.assign(1, n);
    return n;
}

static void free_graph(cudaGraph_t g) {
    for (auto n : g->nodes) {
        for (auto b : n->bodies) free_graph(b);
        if (n->child) free_graph(n->child);
        delete n;
    }
    delete g;
}

// ---- executing ---------------------------------------------------------------
static void do_copy(void *d, const void *s, size_t n) {
    sim_launch_id++;
    race_touch(s, n, false);
    race_touch(d, n, true);
    memmove(d, s, n);
    st.memcpys++;
}
static void do_set(void *d, int v, size_t n) {
    sim_launch_id++;
    race_touch(d, n, true);
    memset(d, v, n);
    st.memsets++;
}
static void do_kernel(SimLaunch &l) {
    st.kernels++;
    sim_run_kernel(l);
}
SimOrder               *sim_order;
static std::vector<int> topo(cudaGraph_t g) { // any valid order; a random one under SIM_RANDOM
    size_t                        n = g->nodes.size();
    std::vector<int>              indeg(n), out;
    std::vector<std::vector<int>> succ(n);
    std::vector<int>              rdy;
    for (auto x : g->nodes)
        for (auto d : x->deps) {
            indeg[x->idx]++;
            succ[d->idx].push_back(x->idx);
        }
    for (size_t i = 0; i < n; i++)
        if (!indeg[i]) rdy.push_back((int)i);
    while (!rdy.empty()) {
        size_t j = sim_policy == SIM_RANDOM ? sim_rand() % rdy.size()
                   : sim_policy == SIM_REV  ? rdy.size() - 1
                                            : 0;
        int    i = rdy[j];
        rdy.erase(rdy.begin() + j);
        out.push_back(i);
        for (int k : succ[i])
            if (!--indeg[k]) rdy.push_back(k);
    }
    return out;
}
static void run_graph(cudaGraph_t g) {
    SimOrder ord, *save = sim_order;
    size_t   n = g->nodes.size();
    ord.base   = sim_launch_id + 1;
    ord.anc.assign(n, std::vector<bool>(n));
    auto order = topo(g);
    for (int i : order)
        for (auto d : g->nodes[i]->deps) {
            ord.anc[i][d->idx] = true;
            for (size_t k = 0; k < n; k++)
                if (ord.anc[d->idx][k]) ord.anc[i][k] = true;
        }
    for (int i : order) {
        auto x = g->nodes[i];
        if (!x->enabled) continue;
        st.nodes++;
        ord.cur   = i;
        sim_order = &ord;
        switch (x->type) {
        case cudaGraphNodeTypeKernel:
            ord.node_of_launch.push_back(i);
            do_kernel(x->k);
            break;
        case cudaGraphNodeTypeMemcpy:
            ord.node_of_launch.push_back(i);
            do_copy(x->dst, x->src, x->n);
            break;
        case cudaGraphNodeTypeMemset:
            ord.node_of_launch.push_back(i);
            if (x->esz == 1)
                do_set(x->dst, x->val, x->n);
            else {
                sim_launch_id++;
                race_touch(x->dst, x->n * x->esz, true);
                for (size_t k = 0; k < x->n; k++) memcpy((char *)x->dst + k * x->esz, &x->val, x->esz);
                st.memsets++;
            }
            break;
        case cudaGraphNodeTypeHost:
            x->hfn(x->harg);
            break;
        case cudaGraphNodeTypeGraph:
            sim_order = nullptr;
            run_graph(x->child);
            break;
        case cudaGraphNodeTypeConditional: {
            sim_order          = nullptr;
            auto          h    = (size_t)x->cond.handle - 1;
            unsigned long iter = 0;
            if (x->cond.type == cudaGraphCondTypeWhile)
                while (conds[h].val) {
                    st.while_iters++;
                    run_graph(x->bodies[0]);
                    if (++iter > 1000000) {
                        fprintf(stderr, "cudasim: WHILE node ran 1000000 iterations\n");
                        _Exit(99);
                    }
                }
            else if (x->cond.type == cudaGraphCondTypeIf) {
                if (conds[h].val)
                    run_graph(x->bodies[0]);
                else if (x->cond.size == 2)
                    run_graph(x->bodies[1]);
            } else if (conds[h].val < x->cond.size)
                run_graph(x->bodies[conds[h].val]);
            break;
        }
        default:
            break;
        }
        for (uint32_t k = ord.node_of_launch.size() + ord.base - 1; k < sim_launch_id; k++)
            ord.node_of_launch.push_back(i);
    }
    sim_order = save;
}
void cudaGraphSetConditional(cudaGraphConditionalHandle h, unsigned v) {
    if (h == 0 || h > conds.size()) sim_report(true, "cudaGraphSetConditional: bad handle %llu", h);
    conds[h - 1].val = v;
}

static cudaError_t check_launch(const SimLaunch &l) {
    unsigned long nt = (unsigned long)l.block.x * l.block.y * l.block.z;
    if (!nt || nt > 1024 || l.block.z > 64 || !l.grid.x || !l.grid.y || !l.grid.z || l.grid.y > 65535 ||
        l.grid.z > 65535 || l.grid.x > 0x7fffffff)
        return err(cudaErrorInvalidConfiguration, l.k->name.c_str());
    if ((int)l.smem > l.k->max_dyn_smem)
        return err(
            cudaErrorInvalidValue,
            (l.k->name + ": dynamic shared memory over the limit; cudaFuncSetAttribute needed").c_str());
    if (l.coop) {
        unsigned long per = 2048 / ((nt + 31) / 32 * 32);
        if (l.smem) {
            unsigned long m = (228 * 1024) / (l.smem + 1024);
            if (m < per) per = m;
        }
        if ((unsigned long)l.grid.x * l.grid.y * l.grid.z > 132 * per)
            return err(cudaErrorCooperativeLaunchTooLarge, l.k->name.c_str());
    }
    return cudaSuccess;
}
static cudaError_t launch(cudaStream_t s, SimLaunch l) {
    if (auto e = check_launch(l)) return e;
    s = S(s);
    st.launch_calls++;
    if (s == &null_stream)
        if (auto e = no_capture("launch on the legacy stream while another stream captures")) return e;
    if (s->cap) {
        cap_add(s, cudaGraphNodeTypeKernel)->k = l;
        return cudaSuccess;
    }
    auto p = std::make_shared<SimLaunch>(l);
    enqueue(s, [p] { do_kernel(*p); });
    return cudaSuccess;
}
static bool mk(SimLaunch &l, const void *f, dim3 g, dim3 b, void **args, size_t smem) {
    l.k = sim_find_kernel(f);
    if (!l.k) {
        err(cudaErrorInvalidDeviceFunction, "kernel not registered (use K_FUNC or K_LAUNCH)");
        return false;
    }
    l.grid  = g;
    l.block = b;
    l.smem  = (unsigned)smem;
    l.set_args(args);
    return true;
}

extern "C" {
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **a) {
    SimLaunch l;
    if (!mk(l, f, c->gridDim, c->blockDim, a, c->dynamicSmemBytes)) return last_err;
    for (unsigned i = 0; i < c->numAttrs; i++) switch (c->attrs[i].id) {
        case cudaLaunchAttributeCooperative:
            l.coop = c->attrs[i].val.cooperative;
            break;
        case cudaLaunchAttributeProgrammaticStreamSerialization:
            l.pdl = c->attrs[i].val.programmaticStreamSerializationAllowed;
            break;
        default:
            return err(cudaErrorNotSupported, "launch attribute not simulated");
        }
    return launch(c->stream, l);
}
cudaError_t cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **a, size_t sm, cudaStream_t s) {
    SimLaunch l;
    return mk(l, f, g, b, a, sm) ? launch(s, l) : last_err;
}
cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 g, dim3 b, void **a, size_t sm, cudaStream_t s) {
    SimLaunch l;
    if (!mk(l, f, g, b, a, sm)) return last_err;
    l.coop = true;
    return launch(s, l);
}
cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute a, int v) {
    auto k = sim_find_kernel(f);
    if (!k) return err(cudaErrorInvalidDeviceFunction);
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (v > 227 * 1024) return err(cudaErrorInvalidValue, "more than 227 KiB of shared memory");
        k->max_dyn_smem = v > 48 * 1024 ? v : 48 * 1024;
    }
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n) { return alloc(p, n, 1); }
cudaError_t cudaFree(void *p) {
    if (auto e = no_capture("cudaFree")) return e;
    return dealloc(p);
}
cudaError_t        cudaHostAlloc(void **p, size_t n, unsigned) { return alloc(p, n, 2); }
cudaError_t        cudaMallocHost(void **p, size_t n) { return alloc(p, n, 2); }
cudaError_t        cudaFreeHost(void *p) { return dealloc(p); }
static cudaError_t check_copy(void *d, const void *s, size_t n, cudaMemcpyKind k) {
    bool dd = k == cudaMemcpyHostToDevice || k == cudaMemcpyDeviceToDevice,
         sd = k == cudaMemcpyDeviceToHost || k == cudaMemcpyDeviceToDevice;
    if (!range_ok(d, n, dd) || !range_ok(s, n, sd))
        return err(cudaErrorInvalidValue, "memcpy range or direction");
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKind k, cudaStream_t str) {
    if (auto e = check_copy(d, s, n, k)) return e;
    str = S(str);
    if (str->cap) {
        auto x  = cap_add(str, cudaGraphNodeTypeMemcpy);
        x->dst  = d;
        x->src  = s;
        x->n    = n;
        x->kind = k;
        return cudaSuccess;
    }
    enqueue(str, [=] { do_copy(d, s, n); });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *d, int v, size_t n, cudaStream_t str) {
    if (!range_ok(d, n, true)) return err(cudaErrorInvalidValue, "memset range");
    str = S(str);
    if (str->cap) {
        auto x = cap_add(str, cudaGraphNodeTypeMemset);
        x->dst = d;
        x->val = v;
        x->n   = n;
        return cudaSuccess;
    }
    enqueue(str, [=] { do_set(d, v, n); });
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *d, const void *s, size_t n, cudaMemcpyKind k) {
    if (auto e = no_capture("cudaMemcpy")) return e;
    if (auto e = check_copy(d, s, n, k)) return e;
    drain_all();
    do_copy(d, s, n);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *d, int v, size_t n) {
    if (auto e = no_capture("cudaMemset")) return e;
    if (!range_ok(d, n, true)) return err(cudaErrorInvalidValue, "memset range");
    drain_all();
    do_set(d, v, n);
    return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void *sym, const void *s, size_t n, size_t off, cudaMemcpyKind) {
    drain_all();
    memcpy((char *)sym + off, s, n);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
    *s = new CUstream_st;
    streams.insert(*s);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    drain(s);
    streams.erase(s);
    delete s;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    s = S(s);
    if (s->cap) {
        s->cap_bad = true;
        return err(cudaErrorStreamCaptureUnsupported, "synchronize of a capturing stream");
    }
    if (auto e = no_capture("cudaStreamSynchronize")) return e;
    st.syncs++;
    if (s == &null_stream) return drain_all();
    drain(s);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    if (auto e = no_capture("cudaDeviceSynchronize")) return e;
    st.syncs++;
    return drain_all();
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
    s = S(s);
    if (!s->q.empty()) {
        auto f = std::move(s->q.front());
        s->q.pop_front();
        f();
    }
    return s->q.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
    *e = new CUevent_st;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    s = S(s);
    if (s->cap) {
        e->in_capture = true;
        e->cap_id     = s->cap_id;
        e->deps       = s->deps;
        e->stream     = s;
        return cudaSuccess;
    }
    e->in_capture = false;
    e->recorded   = true;
    e->done       = false;
    e->stream     = s;
    uint64_t q    = ++e->seq;
    enqueue(s, [e, q] {
        if (e->seq == q) e->done = true;
    });
    return cudaSuccess;
}
static void wait_event(cudaEvent_t e) {
    while (e->recorded && !e->done && !e->stream->q.empty()) {
        auto f = std::move(e->stream->q.front());
        e->stream->q.pop_front();
        f();
    }
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    if (e->in_capture) return err(cudaErrorStreamCaptureUnsupported);
    wait_event(e);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
    if (!e->done) cudaStreamQuery(e->stream);
    return e->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) {
    *ms = 0.001f;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    s = S(s);
    if (e->in_capture) {
        if (!s->cap) {
            s->cap        = true;
            s->cap_origin = false;
            s->cap_bad    = false;
            s->cap_id     = e->cap_id;
            s->g          = e->stream->g;
            s->mode       = e->stream->mode;
            s->deps.clear();
        } else if (s->cap_id != e->cap_id)
            return err(cudaErrorStreamCaptureMerge, "event of another capture");
        for (auto d : e->deps) {
            bool have = false;
            for (auto x : s->deps) have |= x == d;
            if (!have) s->deps.push_back(d);
        }
        return cudaSuccess;
    }
    if (s->cap) return err(cudaErrorStreamCaptureIsolation, "captured stream waits for an uncaptured event");
    uint64_t q = e->seq;
    (void)q;
    enqueue(s, [e] { wait_event(e); });
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *a) {
    s = S(s);
    if (s->cap) {
        auto x  = cap_add(s, cudaGraphNodeTypeHost);
        x->hfn  = f;
        x->harg = a;
        return cudaSuccess;
    }
    enqueue(s, [=] { f(a); });
    return cudaSuccess;
}

// ---- capture ------------------------------------------------------------------
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *d,
                                          const cudaGraphEdgeData *, size_t n, cudaStreamCaptureMode m) {
    if (S(s) == &null_stream)
        return err(cudaErrorStreamCaptureUnsupported, "the legacy stream cannot capture");
    if (s->cap) return err(cudaErrorIllegalState, "already capturing");
    s->cap = s->cap_origin = true;
    s->cap_bad             = false;
    s->cap_id              = ++cap_ids;
    s->g                   = g;
    s->own_graph           = false;
    s->mode                = m;
    s->deps.assign(d, d + n);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode m) {
    cudaGraph_t g = new CUgraph_st;
    auto        e = cudaStreamBeginCaptureToGraph(s, g, nullptr, nullptr, 0, m);
    if (e)
        delete g;
    else
        s->own_graph = true;
    return e;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out) {
    if (out) *out = nullptr;
    if (!s->cap || !s->cap_origin)
        return err(cudaErrorIllegalState, "end of a capture that this stream did not begin");
    bool bad = s->cap_bad, unjoined = false;
    for (auto o : streams)
        if (o != s && o->cap && o->cap_id == s->cap_id) {
            bad |= o->cap_bad;
            std::set<cudaGraphNode_t>    anc;
            std::vector<cudaGraphNode_t> w(s->deps);
            while (!w.empty()) {
                auto x = w.back();
                w.pop_back();
                if (anc.insert(x).second)
                    for (auto d : x->deps) w.push_back(d);
            }
            for (auto d : o->deps) unjoined |= !anc.count(d);
            o->cap = false;
            o->deps.clear();
        }
    s->cap = false;
    s->deps.clear();
    if ((bad || unjoined) && s->own_graph) free_graph(s->g);
    if (bad) return err(cudaErrorStreamCaptureInvalidated, "a forbidden call was made during capture");
    if (unjoined) return err(cudaErrorStreamCaptureUnjoined, "a forked stream was not joined");
    if (out) *out = s->g;
    st.captures++;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *o) {
    s  = S(s);
    *o = !s->cap      ? cudaStreamCaptureStatusNone
         : s->cap_bad ? cudaStreamCaptureStatusInvalidated
                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *o, unsigned long long *id,
                                     cudaGraph_t *g, const cudaGraphNode_t **d, const cudaGraphEdgeData **ed,
                                     size_t *n) {
    cudaStreamIsCapturing(s, o);
    s = S(s);
    if (!s->cap) return cudaSuccess;
    if (id) *id = s->cap_id;
    if (g) *g = s->g;
    if (d) *d = s->deps.data();
    s->edge_dummy.assign(s->deps.size(), cudaGraphEdgeData{});
    if (ed) *ed = s->edge_dummy.data();
    if (n) *n = s->deps.size();
    return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t s, cudaGraphNode_t *d, const cudaGraphEdgeData *,
                                                size_t n, unsigned flags) {
    if (!s->cap) return err(cudaErrorIllegalState);
    if (flags == cudaStreamSetCaptureDependencies) s->deps.clear();
    s->deps.insert(s->deps.end(), d, d + n);
    return cudaSuccess;
}

// ---- graphs --------------------------------------------------------------------
cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned) {
    *g = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    free_graph(g);
    return cudaSuccess;
}
static bool mk_node(SimLaunch &l, const cudaKernelNodeParams *p) {
    return mk(l, p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n,
                                   const cudaKernelNodeParams *p) {
    SimLaunch l;
    if (!mk_node(l, p)) return last_err;
    if (auto e = check_launch(l)) return e;
    *o      = add(g, cudaGraphNodeTypeKernel, {d, d + n});
    (*o)->k = l;
    return cudaSuccess;
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n) {
    *o = add(g, cudaGraphNodeTypeEmpty, {d, d + n});
    return cudaSuccess;
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n,
                                     void *dst, const void *src, size_t c, cudaMemcpyKind k) {
    if (auto e = check_copy(dst, src, c, k)) return e;
    *o         = add(g, cudaGraphNodeTypeMemcpy, {d, d + n});
    (*o)->dst  = dst;
    (*o)->src  = src;
    (*o)->n    = c;
    (*o)->kind = k;
    return cudaSuccess;
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *h, cudaGraph_t g, unsigned def,
                                             unsigned flags) {
    conds.push_back({def, def, (flags & cudaGraphCondAssignDefault) != 0});
    *h = conds.size();
    g->handles.push_back(*h);
    return cudaSuccess;
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d,
                             const cudaGraphEdgeData *, size_t n, cudaGraphNodeParams *p) {
    if (p->type == cudaGraphNodeTypeKernel) {
        cudaKernelNodeParams k = {p->kernel.func,           p->kernel.gridDim,      p->kernel.blockDim,
                                  p->kernel.sharedMemBytes, p->kernel.kernelParams, p->kernel.extra};
        return cudaGraphAddKernelNode(o, g, d, n, &k);
    }
    if (p->type == cudaGraphNodeTypeEmpty) return cudaGraphAddEmptyNode(o, g, d, n);
    if (p->type != cudaGraphNodeTypeConditional) return err(cudaErrorNotSupported, "node type not simulated");
    auto &c = p->conditional;
    if (!c.handle || c.handle > conds.size() || !c.size || (c.type == cudaGraphCondTypeWhile && c.size != 1))
        return err(cudaErrorInvalidValue, "conditional node");
    auto x      = add(g, cudaGraphNodeTypeConditional, {d, d + n});
    x->cond     = c;
    g->has_cond = true;
    for (unsigned i = 0; i < c.size; i++) {
        auto b     = new CUgraph_st;
        b->is_body = true;
        x->bodies.push_back(b);
    }
    x->cond.phGraph_out = c.phGraph_out = x->bodies.data();
    *o                                  = x;
    return cudaSuccess;
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n,
                                       cudaGraph_t c);
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *o, size_t *n) {
    if (o)
        for (size_t i = 0; i < *n && i < g->nodes.size(); i++) o[i] = g->nodes[i];
    *n = g->nodes.size();
    return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t n, cudaGraphNodeType *t) {
    *t = n->type;
    return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t n, cudaKernelNodeParams *p) {
    if (n->type != cudaGraphNodeTypeKernel) return err(cudaErrorInvalidValue);
    *p = {(void *)n->k.k->fn, n->k.grid, n->k.block, n->k.smem, n->k.args.data(), nullptr};
    return cudaSuccess;
}
static cudaGraph_t clone_graph(cudaGraph_t g, std::map<cudaGraphNode_t, cudaGraphNode_t> &m) {
    auto r     = new CUgraph_st;
    r->is_body = g->is_body;
    r->handles = g->handles;
    for (auto n : g->nodes) {
        auto x = new CUgraphNode_st(*n);
        x->g   = r;
        m[n]   = x;
        r->nodes.push_back(x);
        for (auto &b : x->bodies) b = clone_graph(b, m);
        if (x->child) x->child = clone_graph(x->child, m);
    }
    for (auto x : r->nodes)
        for (auto &d : x->deps) d = m.at(d);
    return r;
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n,
                                       cudaGraph_t c) {
    if (c->has_cond) return err(cudaErrorInvalidValue, "a graph with conditional nodes cannot be a child");
    std::map<cudaGraphNode_t, cudaGraphNode_t> m;
    *o          = add(g, cudaGraphNodeTypeGraph, {d, d + n});
    (*o)->child = clone_graph(c, m);
    return cudaSuccess;
}
static cudaError_t check_body(cudaGraph_t g, bool body) {
    if (topo(g).size() != g->nodes.size()) return err(cudaErrorInvalidValue, "graph has a cycle");
    for (auto n : g->nodes) {
        if (body && n->type == cudaGraphNodeTypeHost)
            return err(cudaErrorInvalidValue, "host node inside a conditional body");
        if (body && n->type == cudaGraphNodeTypeMemcpy && (!sim_alloc_of(n->dst) || !sim_alloc_of(n->src)))
            return err(cudaErrorInvalidValue, "pageable memcpy inside a conditional body");
        for (auto b : n->bodies)
            if (auto e = check_body(b, true)) return e;
        if (n->child)
            if (auto e = check_body(n->child, body)) return e;
    }
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long) {
    if (g->has_cond && g->execs)
        return err(cudaErrorInvalidValue, "a graph with conditional nodes is instantiated twice");
    if (auto e = check_body(g, false)) return e;
    auto r = new CUgraphExec_st;
    r->src = g;
    r->g   = clone_graph(g, r->m);
    g->execs++;
    *x = r;
    st.instantiates++;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long f) {
    return cudaGraphInstantiate(x, g, f);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
    drain_all();
    free_graph(x->g);
    delete x;
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
    s = S(s);
    st.graph_launches++;
    if (s->cap) {
        std::map<cudaGraphNode_t, cudaGraphNode_t> m;
        s->cap_bad = true;
        return err(cudaErrorStreamCaptureUnsupported, "graph launch into a capturing stream (not simulated)");
    }
    enqueue(s, [x] {
        for (auto h : x->g->handles)
            if (conds[h - 1].assign) conds[h - 1].val = conds[h - 1].def;
        run_graph(x->g);
    });
    return cudaSuccess;
}
static cudaGraphNode_t in_exec(cudaGraphExec_t x, cudaGraphNode_t n, cudaGraphNodeType t) {
    auto i = x->m.find(n);
    return i == x->m.end() || i->second->type != t ? nullptr : i->second;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t x, cudaGraphNode_t n,
                                             const cudaKernelNodeParams *p) {
    auto y = in_exec(x, n, cudaGraphNodeTypeKernel);
    if (!y) return err(cudaErrorInvalidValue, "node not in this executable graph");
    SimLaunch l;
    if (!mk_node(l, p)) return last_err;
    if (auto e = check_launch(l)) return e;
    // Takes effect for launches made after this call; queued ones keep the old parameters.
    drain_all();
    l.coop = y->k.coop;
    l.pdl  = y->k.pdl;
    y->k   = l;
    st.updates++;
    return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t n, const cudaKernelNodeParams *p) {
    SimLaunch l;
    if (!mk_node(l, p)) return last_err;
    n->k = l;
    return cudaSuccess;
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t x, cudaGraphNode_t n, void *d, const void *s,
                                               size_t c, cudaMemcpyKind k) {
    auto y = in_exec(x, n, cudaGraphNodeTypeMemcpy);
    if (!y || k != y->kind) return err(cudaErrorInvalidValue, "memcpy node update");
    if (auto e = check_copy(d, s, c, k)) return e;
    drain_all();
    y->dst = d;
    y->src = s;
    y->n   = c;
    st.updates++;
    return cudaSuccess;
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t x, cudaGraphNode_t n, unsigned on) {
    auto i = x->m.find(n);
    if (i == x->m.end() ||
        (i->second->type != cudaGraphNodeTypeKernel && i->second->type != cudaGraphNodeTypeMemcpy &&
         i->second->type != cudaGraphNodeTypeMemset))
        return err(cudaErrorInvalidValue);
    drain_all();
    i->second->enabled = on;
    return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info) {
    cudaGraphExecUpdateResultInfo ri = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
    auto                         &a = x->g->nodes, &b = g->nodes;
    auto                          fail = [&](cudaGraphExecUpdateResult r, cudaGraphNode_t n) {
        ri.result    = r;
        ri.errorNode = n;
        if (info) *info = ri;
        return err(cudaErrorGraphExecUpdateFailure, "cudaGraphExecUpdate");
    };
    if (a.size() != b.size()) return fail(cudaGraphExecUpdateErrorTopologyChanged, nullptr);
    for (size_t i = 0; i < a.size(); i++) {
        if (a[i]->type != b[i]->type) return fail(cudaGraphExecUpdateErrorNodeTypeChanged, b[i]);
        if (a[i]->deps.size() != b[i]->deps.size())
            return fail(cudaGraphExecUpdateErrorTopologyChanged, b[i]);
        for (size_t k = 0; k < a[i]->deps.size(); k++)
            if (a[i]->deps[k]->idx != b[i]->deps[k]->idx)
                return fail(cudaGraphExecUpdateErrorTopologyChanged, b[i]);
        if (a[i]->type == cudaGraphNodeTypeConditional || a[i]->type == cudaGraphNodeTypeGraph)
            return fail(cudaGraphExecUpdateErrorNotSupported, b[i]);
    }
    drain_all();
    for (size_t i = 0; i < a.size(); i++) {
        a[i]->k    = b[i]->k;
        a[i]->dst  = b[i]->dst;
        a[i]->src  = b[i]->src;
        a[i]->n    = b[i]->n;
        a[i]->val  = b[i]->val;
        a[i]->esz  = b[i]->esz;
        a[i]->hfn  = b[i]->hfn;
        a[i]->harg = b[i]->harg;
    }
    st.updates++;
    if (info) *info = ri;
    return cudaSuccess;
}

// ---- device, errors -------------------------------------------------------------
cudaError_t cudaGetLastError(void) {
    auto e   = last_err;
    last_err = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void) { return last_err; }
const char *cudaGetErrorName(cudaError_t e) {
#define N(x)                                                                                                 \
    case x:                                                                                                  \
        return #x;
    switch (e) {
        N(cudaSuccess)
        N(cudaErrorInvalidValue) N(cudaErrorMemoryAllocation) N(cudaErrorInvalidConfiguration)
            N(cudaErrorInvalidDeviceFunction) N(cudaErrorNotReady) N(cudaErrorNotSupported)
                N(cudaErrorIllegalState) N(cudaErrorStreamCaptureUnsupported)
                    N(cudaErrorStreamCaptureInvalidated) N(cudaErrorStreamCaptureMerge)
                        N(cudaErrorStreamCaptureUnjoined) N(cudaErrorStreamCaptureIsolation)
                            N(cudaErrorCooperativeLaunchTooLarge) N(cudaErrorGraphExecUpdateFailure) default
            : return "cudaError?";
    }
}
const char *cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }
cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int d) { return d ? err(cudaErrorInvalidValue) : cudaSuccess; }
cudaError_t cudaGetDevice(int *d) {
    *d = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int) {
    switch (a) {
    case cudaDevAttrMultiProcessorCount:
        *v = 132;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *v = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *v = 0;
        break;
    case cudaDevAttrCooperativeLaunch:
        *v = 1;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *v = 227 * 1024;
        break;
    case cudaDevAttrWarpSize:
        *v = 32;
        break;
    default:
        return err(cudaErrorInvalidValue, "device attribute not simulated");
    }
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t) {
    *f = *t = (size_t)1 << 34;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *v) {
    *v = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v) {
    *v = CUDART_VERSION;
    return cudaSuccess;
}
}
