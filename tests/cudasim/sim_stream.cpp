// sim_stream.cpp - streams, events and launches.
#include "sim_internal.h"
#include <memory>

std::set<cudaStream_t> sim_streams;
CUstream_st            sim_null_stream;

bool sim_capturing(void) {
    for (auto s : sim_streams)
        if (s->cap && s->mode != cudaStreamCaptureModeRelaxed) return true;
    return false;
}
void sim_drain(cudaStream_t s) {
    while (!s->q.empty()) {
        auto f = std::move(s->q.front());
        s->q.pop_front();
        f();
    }
}
cudaError_t sim_drain_all(void) { // streams progress in a seeded random interleaving
    sim_drain(&sim_null_stream);
    for (;;) {
        std::vector<cudaStream_t> v;
        for (auto s : sim_streams)
            if (!s->q.empty()) v.push_back(s);
        if (v.empty()) return cudaSuccess;
        auto s = v[sim_policy == SIM_RANDOM ? sim_rand() % v.size() : 0];
        auto f = std::move(s->q.front());
        s->q.pop_front();
        f();
    }
}
// The legacy null stream orders itself against every other (blocking) stream.
void sim_enqueue(cudaStream_t s, std::function<void()> f) {
    if (s == &sim_null_stream) {
        sim_drain_all();
        f();
        return;
    }
    if (!sim_null_stream.q.empty()) sim_drain(&sim_null_stream);
    s->q.push_back(std::move(f));
    if (!sim_lazy()) sim_drain(s);
}
cudaError_t sim_no_capture(const char *what) {
    for (auto s : sim_streams)
        if (s->cap && s->mode != cudaStreamCaptureModeRelaxed) {
            s->cap_bad = true;
            return sim_err(cudaErrorStreamCaptureUnsupported, what);
        }
    return cudaSuccess;
}

cudaError_t sim_check_launch(const SimLaunch &l) {
    unsigned long nt = (unsigned long)l.block.x * l.block.y * l.block.z;
    if (!nt || nt > 1024 || l.block.z > 64 || !l.grid.x || !l.grid.y || !l.grid.z || l.grid.y > 65535 ||
        l.grid.z > 65535 || l.grid.x > 0x7fffffff)
        return sim_err(cudaErrorInvalidConfiguration, l.k->name.c_str());
    if ((int)l.smem > l.k->max_dyn_smem)
        return sim_err(
            cudaErrorInvalidValue,
            (l.k->name + ": dynamic shared memory over the limit; cudaFuncSetAttribute needed").c_str());
    if (l.coop) {
        unsigned long per = 2048 / ((nt + 31) / 32 * 32);
        if (l.smem) {
            unsigned long m = (228 * 1024) / (l.smem + 1024);
            if (m < per) per = m;
        }
        if ((unsigned long)l.grid.x * l.grid.y * l.grid.z > 132 * per)
            return sim_err(cudaErrorCooperativeLaunchTooLarge, l.k->name.c_str());
    }
    return cudaSuccess;
}
static cudaError_t launch(cudaStream_t s, SimLaunch l) {
    if (auto e = sim_check_launch(l)) return e;
    s = sim_stream(s);
    sim_st.launch_calls++;
    if (s == &sim_null_stream)
        if (auto e = sim_no_capture("launch on the legacy stream while another stream captures")) return e;
    if (s->cap) {
        sim_cap_add(s, cudaGraphNodeTypeKernel)->k = l;
        return cudaSuccess;
    }
    auto p = std::make_shared<SimLaunch>(l);
    sim_enqueue(s, [p] { sim_do_kernel(*p); });
    return cudaSuccess;
}
bool sim_make_launch(SimLaunch &l, const void *f, dim3 g, dim3 b, void **args, size_t smem) {
    l.k = sim_find_kernel(f);
    if (!l.k) {
        sim_err(cudaErrorInvalidDeviceFunction, "kernel not registered (use K_FUNC or K_LAUNCH)");
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
    if (!sim_make_launch(l, f, c->gridDim, c->blockDim, a, c->dynamicSmemBytes)) return sim_last_err;
    for (unsigned i = 0; i < c->numAttrs; i++) switch (c->attrs[i].id) {
        case cudaLaunchAttributeCooperative:
            l.coop = c->attrs[i].val.cooperative;
            break;
        case cudaLaunchAttributeProgrammaticStreamSerialization:
            l.pdl = c->attrs[i].val.programmaticStreamSerializationAllowed;
            break;
        default:
            return sim_err(cudaErrorNotSupported, "launch attribute not simulated");
        }
    return launch(c->stream, l);
}
cudaError_t cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **a, size_t sm, cudaStream_t s) {
    SimLaunch l;
    return sim_make_launch(l, f, g, b, a, sm) ? launch(s, l) : sim_last_err;
}
cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 g, dim3 b, void **a, size_t sm, cudaStream_t s) {
    SimLaunch l;
    if (!sim_make_launch(l, f, g, b, a, sm)) return sim_last_err;
    l.coop = true;
    return launch(s, l);
}
cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute a, int v) {
    auto k = sim_find_kernel(f);
    if (!k) return sim_err(cudaErrorInvalidDeviceFunction);
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (v > 227 * 1024) return sim_err(cudaErrorInvalidValue, "more than 227 KiB of shared memory");
        k->max_dyn_smem = v > 48 * 1024 ? v : 48 * 1024;
    }
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
    *s = new CUstream_st;
    sim_streams.insert(*s);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    sim_drain(s);
    sim_streams.erase(s);
    delete s;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    s = sim_stream(s);
    if (s->cap) {
        s->cap_bad = true;
        return sim_err(cudaErrorStreamCaptureUnsupported, "synchronize of a capturing stream");
    }
    if (auto e = sim_no_capture("cudaStreamSynchronize")) return e;
    sim_st.syncs++;
    if (s == &sim_null_stream) return sim_drain_all();
    sim_drain(s);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    if (auto e = sim_no_capture("cudaDeviceSynchronize")) return e;
    sim_st.syncs++;
    return sim_drain_all();
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
    s = sim_stream(s);
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
    s = sim_stream(s);
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
    sim_enqueue(s, [e, q] {
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
    if (e->in_capture) return sim_err(cudaErrorStreamCaptureUnsupported);
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
    if (s->cap)
        return sim_err(cudaErrorStreamCaptureIsolation, "captured stream waits for an uncaptured event");
    uint64_t q = e->seq;
    (void)q;
    sim_enqueue(s, [e] { wait_event(e); });
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *a) {
    s = sim_stream(s);
    if (s->cap) {
        auto x  = sim_cap_add(s, cudaGraphNodeTypeHost);
        x->hfn  = f;
        x->harg = a;
        return cudaSuccess;
    }
    sim_enqueue(s, [=] { f(a); });
    return cudaSuccess;
}
}
