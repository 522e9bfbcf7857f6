// sim_exec.cpp - what a stream or a graph does when it runs.
#include "sim_internal.h"
#include <cstdio>
#include <cstdlib>

void sim_do_copy(void *d, const void *s, size_t n) {
    sim_launch_id++;
    race_touch(s, n, false);
    race_touch(d, n, true);
    memmove(d, s, n);
    sim_st.memcpys++;
}
void sim_do_set(void *d, int v, size_t n) {
    sim_launch_id++;
    race_touch(d, n, true);
    memset(d, v, n);
    sim_st.memsets++;
}
void sim_do_kernel(SimLaunch &l) {
    sim_st.kernels++;
    sim_run_kernel(l);
}
SimOrder        *sim_order;
std::vector<int> sim_topo(cudaGraph_t g) { // any valid order; a random one under SIM_RANDOM
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
void sim_run_graph(cudaGraph_t g) {
    SimOrder ord, *save = sim_order;
    size_t   n = g->nodes.size();
    ord.base   = sim_launch_id + 1;
    ord.anc.assign(n, std::vector<bool>(n));
    auto order = sim_topo(g);
    for (int i : order)
        for (auto d : g->nodes[i]->deps) {
            ord.anc[i][d->idx] = true;
            for (size_t k = 0; k < n; k++)
                if (ord.anc[d->idx][k]) ord.anc[i][k] = true;
        }
    for (int i : order) {
        auto x = g->nodes[i];
        if (!x->enabled) continue;
        sim_st.nodes++;
        ord.cur   = i;
        sim_order = &ord;
        switch (x->type) {
        case cudaGraphNodeTypeKernel:
            ord.node_of_launch.push_back(i);
            sim_do_kernel(x->k);
            break;
        case cudaGraphNodeTypeMemcpy:
            ord.node_of_launch.push_back(i);
            sim_do_copy(x->dst, x->src, x->n);
            break;
        case cudaGraphNodeTypeMemset:
            ord.node_of_launch.push_back(i);
            if (x->esz == 1)
                sim_do_set(x->dst, x->val, x->n);
            else {
                sim_launch_id++;
                race_touch(x->dst, x->n * x->esz, true);
                for (size_t k = 0; k < x->n; k++) memcpy((char *)x->dst + k * x->esz, &x->val, x->esz);
                sim_st.memsets++;
            }
            break;
        case cudaGraphNodeTypeHost:
            x->hfn(x->harg);
            break;
        case cudaGraphNodeTypeGraph:
            sim_order = nullptr;
            sim_run_graph(x->child);
            break;
        case cudaGraphNodeTypeConditional: {
            sim_order          = nullptr;
            auto          h    = (size_t)x->cond.handle - 1;
            unsigned long iter = 0;
            if (x->cond.type == cudaGraphCondTypeWhile)
                while (sim_conds[h].val) {
                    sim_st.while_iters++;
                    sim_run_graph(x->bodies[0]);
                    if (++iter > 1000000) {
                        fprintf(stderr, "cudasim: WHILE node ran 1000000 iterations\n");
                        _Exit(99);
                    }
                }
            else if (x->cond.type == cudaGraphCondTypeIf) {
                if (sim_conds[h].val)
                    sim_run_graph(x->bodies[0]);
                else if (x->cond.size == 2)
                    sim_run_graph(x->bodies[1]);
            } else if (sim_conds[h].val < x->cond.size)
                sim_run_graph(x->bodies[sim_conds[h].val]);
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
    if (h == 0 || h > sim_conds.size()) sim_report(true, "cudaGraphSetConditional: bad handle %llu", h);
    sim_conds[h - 1].val = v;
}
