// sim_graph.cpp - graphs: building, instantiating, updating. sim_exec.cpp runs them.
//
//     cudaGraph_t               nodes with dependencies; a conditional node owns its bodies, which are graphs
//        | cudaGraphInstantiate: a deep copy, and a map from the original nodes to the copies
//     cudaGraphExec_t           ExecKernelNodeSetParams and the like address a copy by its original
//
// An update first runs all queued work: launches made before it keep the old parameters, as in CUDA.
#include "sim/device/sim_internal.h"

std::vector<CondHandle> sim_conds;

cudaGraphNode_t sim_add_node(cudaGraph_t g, cudaGraphNodeType t, const std::vector<cudaGraphNode_t> &deps) {
    auto n  = new CUgraphNode_st();
    n->g    = g;
    n->type = t;
    n->deps = deps;
    n->idx  = (int)g->nodes.size();
    g->nodes.push_back(n);
    return n;
}
void sim_free_graph(cudaGraph_t g) {
    for (auto n : g->nodes) {
        for (auto b : n->bodies) sim_free_graph(b);
        if (n->child) sim_free_graph(n->child);
        delete n;
    }
    delete g;
}

// Copies entries into the caller's array of n; the rest of it is cleared, as CUDA does. n_copied: the count to
// return, all of them if there is no array.
template <class T> static void copy_out(const std::vector<T> &v, T *out, size_t n) {
    for (size_t i = 0; out != nullptr && i < n; i++) out[i] = i < v.size() ? v[i] : T{};
}
static size_t n_copied(const void *out, size_t room, size_t n) { return out != nullptr && room < n ? room : n; }

extern "C" {
cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    *g = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    sim_free_graph(g);
    return call.result(cudaSuccess);
}
static bool mk_node(SimLaunch &l, const cudaKernelNodeParams *p) {
    return sim_make_launch(l, p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n,
                                   const cudaKernelNodeParams *p) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    SimLaunch l;
    if (!mk_node(l, p)) return sim_last_err;
    if (auto e = sim_check_launch(l)) return e;
    *o      = sim_add_node(g, cudaGraphNodeTypeKernel, {d, d + n});
    (*o)->k = l;
    return cudaSuccess;
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    *o = sim_add_node(g, cudaGraphNodeTypeEmpty, {d, d + n});
    return cudaSuccess;
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, size_t n, void *dst,
                                     const void *src, size_t c, cudaMemcpyKind k) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = sim_check_copy(dst, src, c, k)) return e;
    *o         = sim_add_node(g, cudaGraphNodeTypeMemcpy, {d, d + n});
    (*o)->dst  = dst;
    (*o)->src  = src;
    (*o)->n    = c;
    (*o)->kind = k;
    return cudaSuccess;
}
// A handle is an index + 1 into sim_conds. Its value is set to the default at each launch, if the flags ask for that.
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *h, cudaGraph_t g, unsigned def,
                                             unsigned flags) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    sim_conds.push_back({def, def, (flags & cudaGraphCondAssignDefault) != 0});
    *h = sim_conds.size();
    g->handles.push_back(*h);
    return cudaSuccess;
}
// Only kernels, empty nodes and conditional nodes. A conditional node gets empty bodies, which the caller fills.
cudaError_t cudaGraphAddNode(cudaGraphNode_t *o, cudaGraph_t g, const cudaGraphNode_t *d, const cudaGraphEdgeData *,
                             size_t n, cudaGraphNodeParams *p) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (p->type == cudaGraphNodeTypeKernel) {
        cudaKernelNodeParams k = {p->kernel.func,           p->kernel.gridDim,      p->kernel.blockDim,
                                  p->kernel.sharedMemBytes, p->kernel.kernelParams, p->kernel.extra};
        return cudaGraphAddKernelNode(o, g, d, n, &k);
    }
    if (p->type == cudaGraphNodeTypeEmpty) return cudaGraphAddEmptyNode(o, g, d, n);
    if (p->type != cudaGraphNodeTypeConditional) return sim_err(cudaErrorNotSupported, "node type not simulated");
    auto &c = p->conditional;
    if (!c.handle || c.handle > sim_conds.size() || !c.size || (c.type == cudaGraphCondTypeWhile && c.size != 1))
        return sim_err(cudaErrorInvalidValue, "conditional node");
    auto x      = sim_add_node(g, cudaGraphNodeTypeConditional, {d, d + n});
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
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *o, size_t *n) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    copy_out(g->nodes, o, *n);
    *n = n_copied(o, *n, g->nodes.size());
    return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t n, cudaGraphNodeType *t) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    *t = n->type;
    return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t n, cudaKernelNodeParams *p) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (n->type != cudaGraphNodeTypeKernel) return sim_err(cudaErrorInvalidValue);
    *p = {(void *)n->k.k->fn, n->k.grid, n->k.block, n->k.smem, n->k.args.data(), nullptr};
    return cudaSuccess;
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t n, cudaMemcpy3DParms *p) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (n->type != cudaGraphNodeTypeMemcpy) return sim_err(cudaErrorInvalidValue);
    *p        = cudaMemcpy3DParms{};
    p->srcPtr = {const_cast<void *>(n->src), n->n, n->n, 1};
    p->dstPtr = {n->dst, n->n, n->n, 1};
    p->extent = {n->n, 1, 1};
    p->kind   = n->kind;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t n, cudaGraphNode_t *out, cudaGraphEdgeData *edges,
                                         size_t *count) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    copy_out(n->deps, out, *count);
    copy_out(std::vector<cudaGraphEdgeData>(n->deps.size()), edges, *count);
    *count = n_copied(out, *count, n->deps.size());
    return cudaSuccess;
}
cudaError_t cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edges,
                              size_t *count) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    std::vector<cudaGraphNode_t> a, b;
    for (auto n : g->nodes)
        for (auto d : n->deps) {
            a.push_back(d);
            b.push_back(n);
        }
    copy_out(a, from, *count);
    copy_out(b, to, *count);
    copy_out(std::vector<cudaGraphEdgeData>(a.size()), edges, *count);
    *count = n_copied(from, *count, a.size());
    return cudaSuccess;
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char *, unsigned) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return sim_err(cudaErrorNotSupported, "cudaGraphDebugDotPrint");
}
// Deep copy, with the bodies of conditional nodes and child graphs; m maps every original node to its copy.
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
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (c->has_cond) return sim_err(cudaErrorInvalidValue, "a graph with conditional nodes cannot be a child");
    std::map<cudaGraphNode_t, cudaGraphNode_t> m;
    *o          = sim_add_node(g, cudaGraphNodeTypeGraph, {d, d + n});
    (*o)->child = clone_graph(c, m);
    return cudaSuccess;
}
// Refuses cycles, and in the bodies of conditional nodes what CUDA does not allow there.
static cudaError_t check_body(cudaGraph_t g, bool body) {
    if (sim_topo(g).size() != g->nodes.size()) return sim_err(cudaErrorInvalidValue, "graph has a cycle");
    for (auto n : g->nodes) {
        if (body && n->type == cudaGraphNodeTypeHost)
            return sim_err(cudaErrorInvalidValue, "host node inside a conditional body");
        if (body && n->type == cudaGraphNodeTypeMemcpy && (!sim_alloc_of(n->dst) || !sim_alloc_of(n->src)))
            return sim_err(cudaErrorInvalidValue, "pageable memcpy inside a conditional body");
        for (auto b : n->bodies)
            if (auto e = check_body(b, true)) return e;
        if (n->child)
            if (auto e = check_body(n->child, body)) return e;
    }
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (g->has_cond && g->execs)
        return sim_err(cudaErrorInvalidValue, "a graph with conditional nodes is instantiated twice");
    if (auto e = check_body(g, false)) return e;
    auto r = new CUgraphExec_st;
    r->src = g;
    r->g   = clone_graph(g, r->m);
    g->execs++;
    *x = r;
    sim_st.instantiates++;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long f) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return cudaGraphInstantiate(x, g, f);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
    static std::vector<cudaGraphExec_t> destroyed; // those whose launch may be under way stay until nothing hangs
    SimCall                             call(__func__, SIM_NEEDS_DEVICE);
    sim_drain_all();
    destroyed.push_back(x);
    if (sim_hanging() > 0) return call.result(sim_status());
    for (cudaGraphExec_t d : destroyed) {
        sim_free_graph(d->g);
        delete d;
    }
    destroyed.clear();
    return call.result(sim_status());
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s = sim_stream(s);
    if (s->cap) {
        s->cap_bad = true;
        return sim_err(cudaErrorStreamCaptureUnsupported, "graph launch into a capturing stream (not simulated)");
    }
    sim_st.graph_launches++;
    sim_enqueue(s, sim_graph_work(x));
    return cudaSuccess;
}
// The copy of an original node, null if there is none of that type.
static cudaGraphNode_t in_exec(cudaGraphExec_t x, cudaGraphNode_t n, cudaGraphNodeType t) {
    auto i = x->m.find(n);
    return i == x->m.end() || i->second->type != t ? nullptr : i->second;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t x, cudaGraphNode_t n, const cudaKernelNodeParams *p) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    auto y = in_exec(x, n, cudaGraphNodeTypeKernel);
    if (!y) return sim_err(cudaErrorInvalidValue, "node not in this executable graph");
    SimLaunch l;
    if (!mk_node(l, p)) return sim_last_err;
    if (auto e = sim_check_launch(l)) return e;
    // Takes effect for launches made after this call; queued ones keep the old parameters.
    sim_drain_all();
    l.coop = y->k.coop;
    l.pdl  = y->k.pdl;
    y->k   = l;
    sim_st.updates++;
    return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t n, const cudaKernelNodeParams *p) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    SimLaunch l;
    if (!mk_node(l, p)) return sim_last_err;
    n->k = l;
    return cudaSuccess;
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t x, cudaGraphNode_t n, void *d, const void *s, size_t c,
                                               cudaMemcpyKind k) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    auto y = in_exec(x, n, cudaGraphNodeTypeMemcpy);
    if (!y || k != y->kind) return sim_err(cudaErrorInvalidValue, "memcpy node update");
    if (auto e = sim_check_copy(d, s, c, k)) return e;
    sim_drain_all();
    y->dst = d;
    y->src = s;
    y->n   = c;
    sim_st.updates++;
    return cudaSuccess;
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t x, cudaGraphNode_t n, unsigned on) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    auto i = x->m.find(n);
    if (i == x->m.end() || (i->second->type != cudaGraphNodeTypeKernel && i->second->type != cudaGraphNodeTypeMemcpy &&
                            i->second->type != cudaGraphNodeTypeMemset))
        return sim_err(cudaErrorInvalidValue);
    sim_drain_all();
    i->second->enabled = on;
    return cudaSuccess;
}
// The new graph must have the same nodes and edges in the same order; their parameters are taken over.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    cudaGraphExecUpdateResultInfo ri = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
    auto                         &a = x->g->nodes, &b = g->nodes;
    auto                          fail = [&](cudaGraphExecUpdateResult r, cudaGraphNode_t n) {
        ri.result    = r;
        ri.errorNode = n;
        if (info) *info = ri;
        return sim_err(cudaErrorGraphExecUpdateFailure, "cudaGraphExecUpdate");
    };
    if (a.size() != b.size()) return fail(cudaGraphExecUpdateErrorTopologyChanged, nullptr);
    for (size_t i = 0; i < a.size(); i++) {
        if (a[i]->type != b[i]->type) return fail(cudaGraphExecUpdateErrorNodeTypeChanged, b[i]);
        if (a[i]->deps.size() != b[i]->deps.size()) return fail(cudaGraphExecUpdateErrorTopologyChanged, b[i]);
        for (size_t k = 0; k < a[i]->deps.size(); k++)
            if (a[i]->deps[k]->idx != b[i]->deps[k]->idx) return fail(cudaGraphExecUpdateErrorTopologyChanged, b[i]);
        if (a[i]->type == cudaGraphNodeTypeConditional || a[i]->type == cudaGraphNodeTypeGraph)
            return fail(cudaGraphExecUpdateErrorNotSupported, b[i]);
    }
    sim_drain_all();
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
    sim_st.updates++;
    if (info) *info = ri;
    return cudaSuccess;
}
}
