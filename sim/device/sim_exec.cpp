// sim_exec.cpp - executes copies, memsets, kernels and graphs.
//
// Nodes of a graph run one at a time in a topological order that the schedule chooses. Bodies of conditional
// nodes and child graphs run as frames of an explicit stack (GraphRun), so that execution can stop after an
// iteration of a WHILE node and go on at the next cudaStreamQuery:
//
//     run:  [ graph, node 3 = WHILE ] [ body, node 7 ]     the innermost frame is last
//
// Every kernel, copy and memset takes the next sim_launch_id. A frame maps these ids to its nodes (SimOrder),
// from which sim_race.cpp knows whether two of them may run at once on a real device.
#include "sim/device/sim_internal.h"
#include <cstdio>
#include <cstdlib>

static cudaMemcpyKind copy_kind(const void *d, const void *s, cudaMemcpyKind k) {
    if (k != cudaMemcpyDefault) return k;
    const SimAlloc *to = sim_alloc_of(d), *from = sim_alloc_of(s);
    const bool      td = to && to->kind == 1, fd = from && from->kind == 1;
    return td && fd ? cudaMemcpyDeviceToDevice
           : td     ? cudaMemcpyHostToDevice
           : fd     ? cudaMemcpyDeviceToHost
                    : cudaMemcpyHostToHost;
}
void sim_count_copy(const void *d, const void *s, size_t n, cudaMemcpyKind k) {
    sim_st.memcpys++;
    k = copy_kind(d, s, k);
    if (k == cudaMemcpyHostToDevice) sim_st.h2d_copies++, sim_st.h2d_bytes += n;
    if (k == cudaMemcpyDeviceToHost) sim_st.d2h_copies++, sim_st.d2h_bytes += n;
    if (k == cudaMemcpyDeviceToDevice) sim_st.d2d_copies++, sim_st.d2d_bytes += n;
}
void sim_do_copy(void *d, const void *s, size_t n, cudaMemcpyKind k) {
    if (sim_sticky != cudaSuccess) return;
    sim_launch_id++;
    race_touch(s, n, false);
    race_touch(d, n, true);
    sim_note_written(d, n);
    memmove(d, s, n);
    if (copy_kind(d, s, k) == cudaMemcpyDeviceToHost) sim_bits_copy(d, n);
    sim_count_copy(d, s, n, k);
}
static void do_set_elements(void *d, int v, int size, size_t n) {
    if (sim_sticky != cudaSuccess) return;
    sim_launch_id++;
    race_touch(d, n * size, true);
    sim_note_written(d, n * size);
    if (size == 1) memset(d, v, n);
    for (size_t i = 0; size > 1 && i < n; i++) memcpy((char *)d + i * size, &v, size);
    sim_st.memsets++;
}
void sim_do_set(void *d, int v, size_t n) { do_set_elements(d, v, 1, n); }
void sim_do_kernel(SimLaunch &l) {
    if (sim_kernel_faults()) return;
    sim_st.kernels++;
    if (!sim_costs(l)) sim_run_kernel(l);
}

// ---- graphs ----
SimOrder *sim_order;
// A topological order: first ready node first, last first (SIM_REV) or random. Shorter than the graph if it has
// a cycle.
std::vector<int> sim_topo(cudaGraph_t g) {
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
        size_t j = sim_policy == SIM_RANDOM ? sim_rand() % rdy.size() : sim_policy == SIM_REV ? rdy.size() - 1 : 0;
        int    i = rdy[j];
        rdy.erase(rdy.begin() + j);
        out.push_back(i);
        for (int k : succ[i])
            if (!--indeg[k]) rdy.push_back(k);
    }
    return out;
}

// One graph in execution. If its node order[at] runs a child or a body, that is the next frame.
struct Frame {
    cudaGraph_t      g;
    bool             loop = false; // one iteration of a WHILE node
    std::vector<int> order;
    size_t           at     = 0;
    bool             inside = false; // the node has begun
    unsigned long    runs   = 0;     // how often next_body was asked for it
    SimOrder         ord;
};
typedef std::vector<std::unique_ptr<Frame>> GraphRun; // outermost first

// Pushes a frame, with the ancestors of every node.
static void enter(GraphRun &run, cudaGraph_t g, bool loop) {
    auto         f = std::make_unique<Frame>();
    const size_t n = g->nodes.size();
    f->g           = g;
    f->loop        = loop;
    f->order       = sim_topo(g);
    f->ord.base    = sim_launch_id + 1;
    f->ord.anc.assign(n, std::vector<bool>(n));
    for (int i : f->order)
        for (auto d : g->nodes[i]->deps) {
            f->ord.anc[i][d->idx] = true;
            for (size_t k = 0; k < n; k++)
                if (f->ord.anc[d->idx][k]) f->ord.anc[i][k] = true;
        }
    run.push_back(std::move(f));
}
// The graph that node x runs next; null if it has none or is done. A WHILE node reads its condition before each run.
static cudaGraph_t next_body(cudaGraphNode_t x, Frame &f) {
    const bool first = f.runs++ == 0;
    if (x->type == cudaGraphNodeTypeGraph) return first ? x->child : nullptr;
    if (x->type != cudaGraphNodeTypeConditional) return nullptr;
    const unsigned v = sim_conds[(size_t)x->cond.handle - 1].val;
    if (x->cond.type == cudaGraphCondTypeWhile) {
        if (v == 0) return nullptr;
        if (f.runs > 1000000) {
            fprintf(stderr, "cudasim: WHILE node ran 1000000 iterations\n");
            _Exit(99);
        }
        sim_st.while_iters++;
        return x->bodies[0];
    }
    if (!first) return nullptr;
    if (x->cond.type == cudaGraphCondTypeIf) return v ? x->bodies[0] : x->cond.size == 2 ? x->bodies[1] : nullptr;
    return v < x->cond.size ? x->bodies[v] : nullptr;
}
static void run_simple_node(cudaGraphNode_t x, Frame &f) {
    if (x->type == cudaGraphNodeTypeKernel || x->type == cudaGraphNodeTypeMemcpy || x->type == cudaGraphNodeTypeMemset)
        f.ord.node_of_launch.push_back(x->idx);
    if (x->type == cudaGraphNodeTypeKernel) sim_do_kernel(x->k);
    if (x->type == cudaGraphNodeTypeMemcpy) sim_do_copy(x->dst, x->src, x->n, x->kind);
    if (x->type == cudaGraphNodeTypeMemset) do_set_elements(x->dst, x->val, x->esz, x->n);
    if (x->type == cudaGraphNodeTypeHost || x->type == cudaGraphNodeTypeEventRecord) x->hfn(x->harg);
}
// Runs to the end of the graph if `whole`, else to the end of an iteration of a WHILE node, or to a kernel that hangs.
// True: the graph is done, or the device is lost.
static bool run_graph(GraphRun &run, bool whole) {
    SimOrder *save = sim_order;
    bool      stop = false;
    while (!run.empty() && !stop && sim_sticky == cudaSuccess) {
        Frame &f = *run.back();
        if (f.at == f.order.size()) {
            stop = f.loop && !whole;
            run.pop_back();
            continue;
        }
        auto x = f.g->nodes[f.order[f.at]];
        if (x->enabled) {
            if (!f.inside) {
                sim_st.nodes++;
                f.ord.cur = x->idx;
                f.runs    = 0;
                f.inside  = true;
            }
            sim_order = nullptr;
            if (auto body = next_body(x, f)) {
                enter(run, body, x->cond.type == cudaGraphCondTypeWhile && x->type == cudaGraphNodeTypeConditional);
                continue;
            }
            if (x->type == cudaGraphNodeTypeKernel && sim_kernel_hangs(x->k)) break;
            sim_order = &f.ord;
            run_simple_node(x, f);
            // Ids that a child or a body has used belong to this node.
            for (uint32_t k = f.ord.node_of_launch.size() + f.ord.base - 1; k < sim_launch_id; k++)
                f.ord.node_of_launch.push_back(x->idx);
            f.inside = false;
        }
        f.at++;
    }
    sim_order = save;
    return run.empty() || sim_sticky != cudaSuccess;
}
SimWork sim_graph_work(cudaGraphExec_t x) {
    auto run   = std::make_shared<GraphRun>();
    bool begun = false;
    return [x, run, begun](bool whole) mutable {
        if (!begun) {
            begun = true;
            for (auto h : x->g->handles)
                if (sim_conds[h - 1].assign) sim_conds[h - 1].val = sim_conds[h - 1].def;
            enter(*run, x->g, false);
        }
        return run_graph(*run, whole);
    };
}
void cudaGraphSetConditional(cudaGraphConditionalHandle h, unsigned v) {
    if (h == 0 || h > sim_conds.size()) sim_report(true, "cudaGraphSetConditional: bad handle %llu", h);
    sim_conds[h - 1].val = v;
}
