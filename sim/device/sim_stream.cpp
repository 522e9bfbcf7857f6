// sim_stream.cpp - streams and events.
//
// A stream is a queue of work items. Nothing runs until a call needs it, so that a missing synchronisation shows:
//
//     cudaLaunchKernelExC, cudaMemcpyAsync, ...    append an item           q: [kernel] [copy] [record e]
//     cudaStreamQuery                              one step of the first
//     cudaStreamSynchronize, cudaFree, ...         all items of the stream, or of all streams
//     an item that waits for an event              runs the stream that records it, up to that record
//
// A recording of an event is a SimRecord that both the queue and the event hold: recording it again does not change
// what earlier waits wait for.
#include "sim/device/sim_internal.h"
#include <chrono>
#include <cstdlib>

std::set<cudaStream_t> sim_streams;
CUstream_st            sim_null_stream;

// ---- queues ----
cudaStream_t sim_running;

// The first item of the queue, or one step of it; false if the queue is empty or a kernel hangs.
bool sim_advance(cudaStream_t s, bool whole) {
    if (s->q.empty() || s->hangs) return false;
    auto       f      = std::move(s->q.front());
    const auto before = sim_running;
    s->q.pop_front();
    sim_running     = s;
    const bool done = f(whole);
    sim_running     = before;
    if (!done) s->q.push_front(std::move(f));
    return done || (!whole && !s->hangs);
}
void sim_drain(cudaStream_t s) {
    while (sim_advance(s, true)) {
    }
}
// Runs all streams dry, item by item; in a random schedule the streams interleave. Streams that cannot go on, because a
// kernel of theirs or of a stream that they wait for hangs, keep their work.
cudaError_t sim_drain_all(void) {
    std::set<cudaStream_t> stuck;
    sim_drain(&sim_null_stream);
    for (;;) {
        std::vector<cudaStream_t> v;
        for (auto s : sim_streams)
            if (!s->q.empty() && stuck.count(s) == 0) v.push_back(s);
        if (v.empty()) return sim_status();
        auto s = v[sim_policy == SIM_RANDOM ? sim_rand() % v.size() : 0];
        if (!sim_advance(s, true)) stuck.insert(s);
    }
}
// Work on the legacy null stream comes after all that is queued in any stream, and runs at once.
void sim_enqueue(cudaStream_t s, SimWork f) {
    if (s == &sim_null_stream) {
        sim_drain_all();
        f(true);
        return;
    }
    s->q.push_back(std::move(f));
    if (!sim_lazy()) sim_drain(s);
}
cudaError_t sim_no_capture(const char *what, cudaError_t with) {
    for (auto s : sim_streams)
        if (s->cap && s->mode != cudaStreamCaptureModeRelaxed) {
            s->cap_bad = true;
            return sim_err(with, what);
        }
    return cudaSuccess;
}
static cudaError_t no_capture_on(cudaStream_t s, const char *what) {
    if (!s->cap) return cudaSuccess;
    if (s->cap_bad) return sim_err(cudaErrorStreamCaptureInvalidated, what);
    s->cap_bad = true;
    return sim_err(cudaErrorStreamCaptureUnsupported, what);
}
static cudaError_t not_ready(bool done) {
    if (auto e = sim_status()) return e;
    return done ? cudaSuccess : sim_err(cudaErrorNotReady);
}

// ---- streams ----
// Limits of the executor for the host's time, which a busy machine would reach: none here.
extern "C" double __attribute__((weak)) rp_cuda_tune_seconds, __attribute__((weak)) rp_special_seconds;
static const bool no_limits = [] {
    for (double *seconds : {&rp_cuda_tune_seconds, &rp_special_seconds})
        if (seconds != nullptr) *seconds = 1e9;
    return true;
}();

// Simulated time after sim_cost, else that of the host.
static const char *us_of_kernels = getenv("SIM_COST_US");
static double      same_cost(const SimKernelRun *, void *) { return atof(us_of_kernels); }
static SimCost    *cost = us_of_kernels != nullptr ? same_cost : nullptr;
static void       *cost_user;
static double      cost_ms;

extern "C" void sim_cost(SimCost *us, void *user) {
    cost      = us;
    cost_user = user;
}
bool sim_costs(const SimLaunch &l) {
    if (cost == nullptr) return false;
    const SimKernelRun run = {l.k->name.c_str(), l.grid.x * l.grid.y * l.grid.z, l.pdl, l.args.at(0), l.k->sizes.at(0)};
    cost_ms += cost(&run, cost_user) / 1e3;
    return true;
}
static double now_ms(void) {
    if (cost != nullptr) return cost_ms;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(now).count();
}
// The event record node of a graph.
static void record_now(void *event) {
    auto r                     = std::make_shared<SimRecord>();
    r->ms                      = now_ms();
    r->done                    = true;
    ((cudaEvent_t)event)->last = r;
}

extern "C" {
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    *s = new CUstream_st;
    sim_streams.insert(*s);
    sim_st.live_streams++;
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *s) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return cudaStreamCreateWithFlags(s, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return cudaStreamCreateWithFlags(s, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    if (sim_streams.count(s) == 0) return sim_err(cudaErrorInvalidResourceHandle, "no such stream");
    sim_drain(s);
    sim_streams.erase(s);
    sim_st.live_streams--;
    if (!s->q.empty()) return call.result(sim_status()); // returns at once; its work is lost here
    if (s->cap && s->cap_origin && s->frees_graph) sim_free_graph(s->g);
    delete s;
    return call.result(sim_status());
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s = sim_stream(s);
    if (auto e = no_capture_on(s, "synchronize of a capturing stream")) return e;
    if (auto e = sim_no_capture("cudaStreamSynchronize")) return e;
    sim_st.syncs++;
    if (s == &sim_null_stream) return sim_drain_all();
    sim_drain(s);
    sim_must_end(s, __func__);
    return sim_status();
}
cudaError_t cudaDeviceSynchronize(void) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (auto e = sim_no_capture("cudaDeviceSynchronize")) return e;
    sim_st.syncs++;
    sim_drain_all();
    sim_must_end(nullptr, __func__);
    return sim_status();
}
// One step of the stream's work: the first item of the queue, or one iteration of a WHILE node in it.
cudaError_t cudaStreamQuery(cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s = sim_stream(s);
    if (auto e = no_capture_on(s, "query of a capturing stream")) return e;
    sim_advance(s, false);
    return not_ready(s->q.empty());
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *a) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s = sim_stream(s);
    if (s->cap) {
        auto x  = sim_cap_add(s, cudaGraphNodeTypeHost);
        x->hfn  = f;
        x->harg = a;
        return cudaSuccess;
    }
    sim_enqueue(s, [=](bool) {
        if (sim_sticky == cudaSuccess) f(a);
        return true;
    });
    return cudaSuccess;
}

// ---- events ----
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    *e           = new CUevent_st;
    (*e)->timing = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return cudaEventCreateWithFlags(e, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    SimCall call(__func__, SIM_NEEDS_DEVICE);
    delete e;
    return call.result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s             = sim_stream(s);
    e->in_capture = s->cap;
    e->stream     = s;
    if (s->cap) {
        e->cap_id = s->cap_id;
        e->deps   = s->deps;
        return cudaSuccess;
    }
    auto r    = std::make_shared<SimRecord>();
    r->stream = s;
    e->last   = r;
    sim_enqueue(s, [r](bool) { // done even after a fault, since someone may be waiting for it
        r->ms          = now_ms();
        return r->done = true;
    });
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s = sim_stream(s);
    if (!s->cap || (flags & cudaEventRecordExternal) == 0) return cudaEventRecord(e, s);
    auto x  = sim_cap_add(s, cudaGraphNodeTypeEventRecord);
    x->hfn  = record_now;
    x->harg = e;
    return cudaSuccess;
}
static bool wait_for(const SimRecord &r, bool whole) {
    while (!r.done && sim_advance(r.stream, whole) && whole) {
    }
    return r.done;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (e->in_capture) return sim_err(cudaErrorStreamCaptureUnsupported);
    sim_st.syncs++;
    if (e->last && !wait_for(*e->last, true)) sim_must_end(nullptr, __func__);
    return sim_status();
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    return not_ready(!e->last || wait_for(*e->last, false));
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    SIM_CALL(SIM_NEEDS_DEVICE);
    if (!a->last || !b->last || !a->timing || !b->timing)
        return sim_err(cudaErrorInvalidResourceHandle, "time of an event that was not recorded, or takes none");
    if (!a->last->done || !b->last->done) return sim_err(cudaErrorNotReady);
    *ms = (float)(b->last->ms - a->last->ms);
    return cudaSuccess;
}
// A stream that waits for an event recorded in a capture joins that capture: its next node depends on the nodes
// before the event and on the earlier nodes of the stream.
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    SIM_CALL(SIM_NEEDS_DEVICE, s);
    s = sim_stream(s);
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
            return sim_err(cudaErrorStreamCaptureMerge, "event of another capture");
        for (auto d : e->deps) {
            bool have = false;
            for (auto x : s->deps) have |= x == d;
            if (!have) s->deps.push_back(d);
        }
        return cudaSuccess;
    }
    if (s->cap) return sim_err(cudaErrorStreamCaptureIsolation, "captured stream waits for an uncaptured event");
    if (!e->last) return cudaSuccess;
    sim_enqueue(s, [r = e->last](bool whole) { return wait_for(*r, whole); });
    return cudaSuccess;
}
}
