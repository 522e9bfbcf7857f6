// sim_capture.cpp - stream capture: calls on a capturing stream become nodes of a graph.
//
// The stream keeps the nodes that its next node will depend on (deps). Other streams join through events and must be
// joined back before the capture ends:
//
//     s: A, record e, B, wait f, C          A -> B -> C
//     t:    wait e, D, record f             A -> D -> C
//
// A forbidden call (allocation, synchronisation, work on the legacy stream, a launch that fails) invalidates the
// capture: it stays open, and cudaStreamEndCapture ends it with an error.
#include "sim/device/sim_internal.h"

static uint64_t cap_ids;

// A node after all that the stream has captured so far.
cudaGraphNode_t sim_cap_add(cudaStream_t s, cudaGraphNodeType t) {
    auto n = sim_add_node(s->g, t, s->deps);
    s->deps.assign(1, n);
    return n;
}

extern "C" {
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *d,
                                          const cudaGraphEdgeData *, size_t n, cudaStreamCaptureMode m) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (sim_stream(s) == &sim_null_stream)
        return sim_err(cudaErrorStreamCaptureUnsupported, "the legacy stream cannot capture");
    if (s->cap) return sim_err(cudaErrorIllegalState, "already capturing");
    s->cap = s->cap_origin = true;
    s->cap_bad             = false;
    s->cap_id              = ++cap_ids;
    s->g                   = g;
    s->frees_graph         = false;
    s->mode                = m;
    s->deps.assign(d, d + n);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode m) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    cudaGraph_t g = new CUgraph_st;
    auto        e = cudaStreamBeginCaptureToGraph(s, g, nullptr, nullptr, 0, m);
    if (e)
        delete g;
    else
        s->frees_graph = true;
    return e;
}
// Every stream that joined must have been joined back: its last nodes are ancestors of this stream's last nodes.
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out) {
    SimCall call(__func__, SIM_NEEDS_DEVICE, s);
    if (out) *out = nullptr;
    if (!s->cap || !s->cap_origin)
        return sim_err(cudaErrorIllegalState, "end of a capture that this stream did not begin");
    bool bad = s->cap_bad, unjoined = false;
    for (auto o : sim_streams)
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
    if ((bad || unjoined) && s->frees_graph) sim_free_graph(s->g);
    if (call.error != cudaSuccess) return call.error;
    if (bad) return sim_err(cudaErrorStreamCaptureInvalidated, "a forbidden call was made during capture");
    if (unjoined) return sim_err(cudaErrorStreamCaptureUnjoined, "a forked stream was not joined");
    if (out) *out = s->g;
    sim_st.captures++;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *o) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    s  = sim_stream(s);
    *o = !s->cap      ? cudaStreamCaptureStatusNone
         : s->cap_bad ? cudaStreamCaptureStatusInvalidated
                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *o, unsigned long long *id, cudaGraph_t *g,
                                     const cudaGraphNode_t **d, const cudaGraphEdgeData **ed, size_t *n) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    cudaStreamIsCapturing(s, o);
    s = sim_stream(s);
    if (!s->cap) return cudaSuccess;
    if (id) *id = s->cap_id;
    if (g) *g = s->g;
    if (d) *d = s->deps.data();
    s->edge_dummy.assign(s->deps.size(), cudaGraphEdgeData{});
    if (ed) *ed = s->edge_dummy.data();
    if (n) *n = s->deps.size();
    return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t s, cudaGraphNode_t *d, const cudaGraphEdgeData *, size_t n,
                                                unsigned flags) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (!s->cap) return sim_err(cudaErrorIllegalState);
    if (flags == cudaStreamSetCaptureDependencies) s->deps.clear();
    s->deps.insert(s->deps.end(), d, d + n);
    return cudaSuccess;
}
}
