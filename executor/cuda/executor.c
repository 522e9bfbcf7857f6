/* The CUDA backend (executor/backend.h): memory, runs, and the choice of the launch mode. Order of opening:
 *
 *     device and stream; kernels of source text; check memory; arena; KV caches and step state; weights;
 *     addresses of all arguments; cuBLASLt; scratch memory; pinned host memory; load kernels; capture (replay);
 *     capture the loop
 *
 * Copies of a run:
 *
 *     pinned host memory    [ inputs | outputs | extra | token ]
 *                              |          ^        |       ^
 *     device arena          inputs -> steps -> outputs     |          extra: of held tokens only (held.c)
 *     states                                  sample_extra step state
 *
 * Nothing is allocated or instantiated after open (I3, I9). A mode that fails falls back to the next lower one with
 * the reason in info.reason (I10). */
#include "executor/cuda/api.h"
#include "executor/cuda/cuda.h"

#include "executor/device.h"
#include "executor/plan_walk.h"

#include "reprise/options.h"

#include <stdlib.h>
#include <string.h>

static size_t aligned(size_t bytes) { return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN; }

/* ---- memory ---- */

/* Device memory filled with zeros. */
static RpStatus zeroed(RpExecutor *e, size_t bytes, const char *what, void **out) {
    CudaDevice *d = rp_cuda(e)->device;
    RP_TRY(rp_cuda_alloc(d, bytes, what, out));
    e->info.device_bytes += bytes;
    RpStatus st = rp_cuda_check(d, cudaMemsetAsync(*out, 0, bytes, d->stream), what);
    if (st == RP_OK) st = rp_cuda_check(d, cudaStreamSynchronize(d->stream), what);
    if (st != RP_OK) {
        (void)cudaFree(*out);
        *out = NULL;
    }
    return st;
}

static RpStatus new_state(RpExecutor *e, size_t bytes, const char *name, void **out) {
    RP_TRY(rp_cuda_enter(rp_cuda(e)->device));
    return zeroed(e, bytes, name, out);
}

static void free_state(RpExecutor *e, void *state) {
    (void)e;
    (void)cudaFree(state);
}

/* Scratch memory that the plan takes for itself. It depends on shapes alone; cuBLASLt, which is opened later, is
 * dropped where its needs do not fit. */
static size_t missing_scratch(const CudaExecutor *c) {
    const CudaExecutor *owner = rp_cuda(c->base.owner);
    const size_t        bytes = rp_cuda_plan_scratch(c);
    return owner != c && bytes <= owner->scratch_bytes ? 0 : bytes;
}

/* Refuses a plan that does not fit, before anything is uploaded. "States" are the KV caches and the step state. */
static RpStatus check_memory(const CudaExecutor *c) {
    const RpExecutor  *e       = &c->base;
    const RpPlanMemory m       = e->plan->memory;
    const size_t       weights = rp_cuda_missing_weights(c->device, e->plan);
    const size_t       arena = rp_executor_takes_arena(e) ? m.arena : 0, states = e->owner == e ? m.state : 0,
                 scratch = missing_scratch(c), all = weights + arena + states + scratch;
    size_t have, whole;
    RP_TRY(rp_cuda_check(c->device, cudaMemGetInfo(&have, &whole), "memory of the device"));
    if (all + RP_DEVICE_MARGIN / 2 <= have) return RP_OK;
    return rp_fail(
        RP_E_NOMEM,
        "%s: the plan takes %.3f GB (weights %.3f, states %.3f, arena %.3f, scratch %.3f), %.3f of %.3f GB are free",
        c->device->id, (double)all / 1e9, (double)weights / 1e9, (double)states / 1e9, (double)arena / 1e9,
        (double)scratch / 1e9, (double)have / 1e9, (double)whole / 1e9);
}

/* The tensors that each run copies: inputs and outputs. A plan that samples its tokens copies only the token back. */
static void list_mirrors(CudaExecutor *c) {
    const RpExecutor *e = &c->base;
    for (int i = 0; i < rp_graph_n_nodes(e->plan->graph); i++) {
        const TensorNode *node  = rp_graph_node(e->plan->graph, i);
        const bool        input = strcmp(rp_node_op_name(node), "input") == 0;
        const PlanRef     ref   = rp_plan_ref(e->plan, node);
        if (ref.space != SPACE_ARENA || (!input && (e->step != NULL || !rp_node_is_output(node)))) continue;
        const RpTensorView v       = rp_node_view(node);
        c->mirrors[c->n_mirrors++] = (Mirror){
            .node = node, .bytes = rp_view_extent_bytes(&v), .device = e->arena + ref.offset, .is_input = input};
    }
}

/* Assigns host offsets to the mirrors and returns the bytes of host memory. Inputs that lie close together become one
 * copy of their whole range, because each copy is a node with a cost of its own:
 *
 *     arena:  ..[tokens]...[pos].....[out_rows]..        one copy from the first to the end of the last
 *
 * Before the first step nothing else in the arena is alive, so the gaps may be overwritten. */
static size_t place_mirrors(CudaExecutor *c) {
    char  *first = NULL, *end = NULL;
    size_t sum = 0, total = 0;
    for (int i = 0; i < c->n_mirrors; i++) {
        const Mirror *m = &c->mirrors[i];
        if (!m->is_input) continue;
        if (first == NULL || m->device < first) first = m->device;
        if (m->device + m->bytes > end) end = m->device + m->bytes;
        sum += m->bytes;
    }
    const size_t range_bytes = (size_t)(end - first);
    if (sum > 0 && range_bytes <= 2 * sum + 4096) {
        c->inputs      = first;
        c->input_bytes = range_bytes;
        total          = aligned(range_bytes);
    }
    for (int i = 0; i < c->n_mirrors; i++) {
        Mirror *m = &c->mirrors[i];
        if (m->is_input && c->inputs != NULL) {
            m->offset = (size_t)(m->device - c->inputs);
            continue;
        }
        m->offset = total;
        total += aligned(m->bytes);
    }
    return total;
}

/* Executors of one owner run one at a time, so they share its scratch memory where it is large enough. The counters at
 * its beginning must be zero. */
static RpStatus open_scratch(CudaExecutor *c) {
    RpExecutor *e             = &c->base;
    c->scratch_bytes          = rp_cuda_plan_scratch(c);
    const CudaExecutor *owner = rp_cuda(e->owner);
    if (e->owner != e && c->scratch_bytes <= owner->scratch_bytes) {
        c->scratch = owner->scratch;
        return RP_OK;
    }
    if (c->scratch_bytes == 0) return RP_OK;
    RP_TRY(zeroed(e, c->scratch_bytes, "scratch memory", &c->private_scratch));
    c->scratch = c->private_scratch;
    return RP_OK;
}

static RpStatus open_mirrors(CudaExecutor *c) {
    c->mirrors = calloc((size_t)rp_graph_n_nodes(c->base.plan->graph) + 1, sizeof *c->mirrors);
    if (c->mirrors == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an executor");
    list_mirrors(c);
    const size_t mirrors = place_mirrors(c), extra = aligned(rp_cuda_extra_bytes(c));
    const size_t total = mirrors + extra + CUDA_ALIGN; /* behind the mirrors: the mask of held tokens, the token */
    RP_TRY(rp_cuda_check(c->device, cudaMallocHost((void **)&c->host, total), "host memory of inputs and outputs"));
    memset(c->host, 0, total);
    c->extra = (int32_t *)(void *)(c->host + mirrors);
    c->token = (int32_t *)(void *)(c->host + total - CUDA_ALIGN);
    return RP_OK;
}

static void *data_of(RpExecutor *e, const TensorNode *node) {
    const CudaExecutor *c = rp_cuda(e);
    if (rp_plan_keeps(e->plan, node) && rp_executor_bound(e, rp_plan_ref(e->plan, node)) != NULL) return NULL;
    for (int i = 0; i < c->n_mirrors; i++)
        if (c->mirrors[i].node == node) return c->host + c->mirrors[i].offset;
    return NULL;
}

static RpStatus copy_bytes(RpExecutor *e, void *to, const void *from, size_t bytes, bool to_host) {
    CudaDevice *d = rp_cuda(e)->device;
    RP_TRY(rp_cuda_enter(d));
    RP_TRY(rp_cuda_check(
        d, cudaMemcpyAsync(to, from, bytes, to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, d->stream),
        "copy"));
    return rp_cuda_wait(d, "copy");
}

/* ---- running ---- */

static RpStatus run_cuda(RpExecutor *e) {
    CudaExecutor *c = rp_cuda(e);
    CudaDevice   *d = c->device;
    RP_TRY(rp_cuda_enter(d));
    RP_TRY(rp_cuda_update_addresses(c));
    rp_cuda_watch_from(d, -1);
    RpStatus st = c->exec != NULL ? rp_cuda_check(d, cudaGraphLaunch(c->exec, d->stream), "launch of the graph")
                                  : rp_cuda_enqueue(c);
    e->n_launches += c->exec != NULL;
    if (st == RP_OK && e->meanwhile != NULL) {
        const bool before = rp_traced_call(e);
        e->meanwhile(e->meanwhile_user);
        (void)rp_trace_mute(before);
    }
    return rp_cuda_wait_after(c, st, "run of the plan");
}

static RpStatus token_of(RpExecutor *e, int32_t *token) {
    *token = *rp_cuda(e)->token;
    return RP_OK;
}

/* Fills the arena and the outputs with NaN bits, so that a step that reads unwritten memory shows. */
static RpStatus poison(RpExecutor *e) {
    CudaExecutor *c = rp_cuda(e);
    CudaDevice   *d = c->device;
    RP_TRY(rp_cuda_enter(d));
    RP_TRY(rp_cuda_check(d, cudaMemsetAsync(e->arena, 0xff, e->plan->memory.arena, d->stream), "arena"));
    for (int i = 0; e->n_tensors > 0 && i < e->plan->n_buffers; i++)
        if (e->tensors[i] != NULL && e->plan->buffers[i].first_step >= 0)
            RP_TRY(rp_cuda_check(
                d, cudaMemsetAsync(e->tensors[i]->view.data, 0xff, e->plan->buffers[i].bytes, d->stream), "arena"));
    RP_TRY(rp_cuda_wait(d, "arena"));
    for (int i = 0; i < c->n_mirrors; i++)
        if (!c->mirrors[i].is_input) memset(c->host + c->mirrors[i].offset, 0xff, c->mirrors[i].bytes);
    return RP_OK;
}

/* ---- opening ---- */

static RpStatus wanted_mode(RpExecMode given, RpExecMode *out) {
    const char *name = rp_option(RP_OPT_MODE);
    *out             = given;
    if (given == RP_MODE_AUTO && rp_mode_from_name(name, out) != RP_OK)
        return rp_fail(RP_E_ARG, "%s '%s': must be auto, eager, replay or loop", rp_option_name(RP_OPT_MODE), name);
    if (*out == RP_MODE_AUTO) *out = RP_MODE_LOOP;
    return RP_OK;
}

/* Takes the outcome of opening mode `reached`. A failure becomes info.reason and the mode stays as it was, unless
 * graphs are required or the device has failed. */
static RpStatus accept(CudaExecutor *c, RpStatus st, const RpExecutorOptions *o, RpExecMode reached) {
    RpExecutor *e = &c->base;
    if (st == RP_OK) {
        e->info.mode = reached;
        return RP_OK;
    }
    if (o->require_graph || c->device->failed) return st;
    snprintf(e->reason, sizeof e->reason, "%s instead of %s: %.200s", rp_mode_name(e->info.mode), rp_mode_name(reached),
             rp_last_error());
    return RP_OK;
}

/* Programmatic dependent launch, by the device, the code of the kernels and REPRISE_PDL. */
static RpStatus choose_pdl(CudaExecutor *c) {
    const char *value    = rp_option(RP_OPT_PDL);
    const bool  off      = strcmp(value, "off") == 0;
    c->base.info.overlap = c->pdl_text;
    if (!off && strcmp(value, "auto") != 0)
        return rp_fail(RP_E_ARG, "%s '%s': must be auto or off", rp_option_name(RP_OPT_PDL), value);
    const bool slower = c->device->tuning.overlap_blocks == 0;
    const bool edges  = rp_cuda_has_edge_data();
    c->pdl            = !off && c->device->major >= CUDA_PDL_MAJOR && c->old_code == 0 && !slower && edges;
    if (c->pdl)
        snprintf(c->pdl_text, sizeof c->pdl_text, "on");
    else if (off)
        snprintf(c->pdl_text, sizeof c->pdl_text, "%s=off", rp_option_name(RP_OPT_PDL));
    else if (!edges)
        snprintf(c->pdl_text, sizeof c->pdl_text, "the driver is older than CUDA 12.3, graphs have no such edges");
    else if (slower)
        snprintf(c->pdl_text, sizeof c->pdl_text, "slower on this device (%s)", rp_option_name(RP_OPT_TUNE));
    else if (c->device->major < CUDA_PDL_MAJOR)
        snprintf(c->pdl_text, sizeof c->pdl_text, "devices before compute capability %d.0 have none", CUDA_PDL_MAJOR);
    else
        snprintf(c->pdl_text, sizeof c->pdl_text, "%s was compiled for compute capability %d.%d, before %d.0",
                 c->old_kernel, c->old_code / 10, c->old_code % 10, CUDA_PDL_MAJOR);
    return RP_OK;
}

/* Whether to capture once more without PDL: a driver may refuse its edges in a graph or in the body of a loop. */
static bool retry_without_pdl(CudaExecutor *c, RpStatus st, const char *where) {
    if (st == RP_OK || st == RP_E_NOMEM || !c->pdl || c->device->failed) return false;
    snprintf(c->pdl_text, sizeof c->pdl_text, "not in %s: %.255s", where, rp_last_error());
    c->pdl = false;
    return true;
}

static RpStatus open_replay(CudaExecutor *c) {
    RpStatus st = rp_cuda_capture(c);
    if (retry_without_pdl(c, st, "a graph")) st = rp_cuda_capture(c);
    return st;
}

/* A loop that failed is closed before the second attempt. An old driver (RP_E_NOT_AVAILABLE) gets no second one. */
static RpStatus open_loop(CudaExecutor *c) {
    RpStatus st = rp_cuda_loop_open(c);
    if (st != RP_OK) rp_cuda_loop_close(c);
    if (st == RP_E_NOT_AVAILABLE || !retry_without_pdl(c, st, "a loop")) return st;
    st = rp_cuda_loop_open(c);
    if (st != RP_OK) rp_cuda_loop_close(c);
    return st;
}

/* Opens the highest mode that is wanted and possible: eager, then replay, then loop. A loop needs a plan that samples
 * its tokens. */
static RpStatus open_graphs(CudaExecutor *c, const RpExecutorOptions *o) {
    RpExecMode wanted;
    RP_TRY(wanted_mode(o->mode, &wanted));
    RP_TRY(choose_pdl(c));
    c->base.info.mode = RP_MODE_EAGER;
    if (wanted == RP_MODE_EAGER)
        return o->require_graph ? rp_fail(RP_E_ARG, "mode eager, and a graph is required") : RP_OK;
    RP_TRY(accept(c, open_replay(c), o, RP_MODE_REPLAY));
    if (wanted == RP_MODE_REPLAY || c->base.info.mode == RP_MODE_EAGER || c->base.step == NULL) return RP_OK;
    return accept(c, open_loop(c), o, RP_MODE_LOOP);
}

/* Loads a kernel that waits for earlier ones itself, and remembers it if its code cannot. Code that was
 * compiled for an architecture before 9.0 has no griddepcontrol, also where the driver has translated it (ptxVersion
 * 80, binaryVersion 90). */
static RpStatus load_waiting(CudaExecutor *c, const void *function, const char *name) {
    struct cudaFuncAttributes a;
    RP_TRY(rp_cuda_check(c->device, cudaFuncGetAttributes(&a, function), "loading of a kernel"));
    const int code = a.ptxVersion < a.binaryVersion ? a.ptxVersion : a.binaryVersion;
    if (c->old_code != 0 || code >= 10 * CUDA_PDL_MAJOR) return RP_OK;
    c->old_code = code;
    snprintf(c->old_kernel, sizeof c->old_kernel, "%s", name);
    return RP_OK;
}

/* Hook that loads kernels. The runtime loads a kernel lazily at its first use, which is not allowed to happen during a
 * capture. */
static RpStatus load(void *user, const RpKernelLaunch *l) {
    CudaExecutor             *c = user;
    CudaDevice               *d = c->device;
    struct cudaFuncAttributes a;
    if (l->enqueue == NULL && l->waits) return load_waiting(c, l->function, l->name);
    if (l->enqueue == NULL) return rp_cuda_check(d, cudaFuncGetAttributes(&a, l->function), "loading of a kernel");
    /* The library chooses the kernels that it loads, so the product is run once, over an arena of zeros. */
    const RpStatus st = l->enqueue(l->arg, d->stream);
    RP_TRY(rp_cuda_check(d, cudaStreamSynchronize(d->stream), l->name));
    return st;
}

/* A product that cuBLASLt fails here counts as refused, and its op launches other kernels, which have to be loaded too:
 * the walk is repeated until no further product is refused. */
static RpStatus load_kernels(CudaExecutor *c) {
    RpKernelCtx ctx     = rp_cuda_ctx(c, load, c);
    int         refused = -1;
    RpStatus    st      = RP_OK;
    if (c->blas != NULL)
        RP_TRY(rp_cuda_check(
            c->device, cudaMemsetAsync(c->base.arena, 0, c->base.plan->memory.arena, c->device->stream), "arena"));
    while (c->blas != NULL && refused != rp_blaslt_refused(c->blas) && !c->device->failed) {
        refused = rp_blaslt_refused(c->blas);
        st      = rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx, NULL, NULL);
        (void)cudaGetLastError();
    }
    if (c->blas == NULL) st = rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx, NULL, NULL);
    RP_TRY(st);
    rp_cuda_blas_describe(c);
    if (rp_cuda_watches(c->device)) RP_TRY(load_waiting(c, rp_cuda_mark_kernel(), "mark"));
    return c->base.step != NULL ? load_waiting(c, rp_cuda_loop_kernel(), "loop_end") : RP_OK;
}

static RpStatus open_cuda(RpExecutor *e, const RpExecutorOptions *o) {
    CudaExecutor *c = rp_cuda(e);
    RP_TRY(rp_cuda_nvtx_open());
    if (e->owner == e)
        RP_TRY(rp_cuda_device_open(rp_device_index(o->device), &c->device));
    else
        c->device = rp_cuda(e->owner)->device;
    if (e->owner == e) RP_TRY(rp_cuda_watchdog_open(c->device, o->watchdog_s));
    c->columns = o->columns;
    c->tuning  = c->device->tuning;
    if (o->columns == RP_COLUMNS_REPLY) c->tuning.tile_columns = RP_TUNING_NO_TILES;
    if (o->columns == RP_COLUMNS_PROMPT) c->tuning.tile_columns = RP_TUNING_ALWAYS_TILES;
    c->progress         = o->compile_progress;
    c->progress_user    = o->user;
    e->info.device      = c->device->id;
    e->info.device_name = c->device->name;
    e->info.tuning      = c->device->tuned.text;
    RP_TRY(rp_cuda_enter(c->device));
    RP_TRY(rp_check_kernels(e->plan, &rp_cuda_table));
    RP_TRY(rp_cuda_sources_open(c)); /* before weights are copied: errors in a source show at once */
    RP_TRY(check_memory(c));
    e->arena = e->owner->arena;
    if (rp_executor_takes_arena(e)) {
        RP_TRY(rp_cuda_alloc(c->device, e->plan->memory.arena, "the arena", (void **)&c->private_arena));
        e->arena = c->private_arena;
        e->info.device_bytes += e->plan->memory.arena;
    }
    RP_TRY(rp_executor_open_states(e));
    e->info.device_bytes += rp_cuda_missing_weights(c->device, e->plan);
    RP_TRY(rp_cuda_upload_weights(c->device, e->plan));
    e->info.upload_bytes  = c->device->upload.bytes;
    e->info.upload_s      = c->device->upload.all_s;
    e->info.upload_wait_s = c->device->upload.wait_s;
    e->info.upload_read_s = c->device->upload.read_s;
    RP_TRY(rp_cuda_check_whole(c->device, e->plan));
    RP_TRY(rp_executor_fill_args(e, rp_cuda_weight));
    RP_TRY(rp_cuda_blas_open(c));
    RP_TRY(open_scratch(c));
    RP_TRY(open_mirrors(c));
    RP_TRY(load_kernels(c));
    RP_TRY(rp_cuda_specials_open(c));
    RP_TRY(open_graphs(c, o));
    rp_cuda_specials_check(c);
    return RP_OK;
}

static void close_cuda(RpExecutor *e) {
    CudaExecutor *c = rp_cuda(e);
    if (c->device != NULL) (void)cudaSetDevice(c->device->index);
    rp_cuda_loop_close(c);
    rp_cuda_capture_free(c);
    rp_executor_close_states(e);
    if (c->private_arena != NULL) (void)cudaFree(c->private_arena);
    if (c->private_scratch != NULL) (void)cudaFree(c->private_scratch);
    if (c->host != NULL) (void)cudaFreeHost(c->host);
    free(c->mirrors);
    if (e->owner == e) rp_cuda_device_close(c->device);
}

/* Binds the weights of another plan, uploading those that are not on the device yet, and repoints the captured nodes.
 * If that fails, c->stale makes the next run try again. */
static RpStatus rebind(RpExecutor *e, const ExecPlan *weights) {
    CudaExecutor *c = rp_cuda(e);
    RP_TRY(rp_cuda_enter(c->device));
    RP_TRY(rp_cuda_upload_weights(c->device, weights));
    RP_TRY(rp_cuda_check_whole(c->device, weights));
    e->weights = weights;
    c->stale   = true;
    return rp_cuda_update_addresses(c);
}

const Backend rp_cuda_backend = {.bytes      = sizeof(CudaExecutor),
                                 .open       = open_cuda,
                                 .close      = close_cuda,
                                 .hangs      = rp_cuda_executor_hangs,
                                 .run        = run_cuda,
                                 .run_steps  = rp_cuda_run_steps,
                                 .data       = data_of,
                                 .copy       = copy_bytes,
                                 .new_state  = new_state,
                                 .free_state = free_state,
                                 .rebind     = rebind,
                                 .verify     = rp_cuda_verify,
                                 .profile    = rp_cuda_profile,
                                 .poison     = poison,
                                 .launch     = rp_cuda_launch_of,
                                 .token      = token_of,
                                 .held       = rp_cuda_held,
                                 .loop_begin = rp_cuda_loop_begin,
                                 .loop_next  = rp_cuda_loop_next,
                                 .loop_end   = rp_cuda_loop_finish};
