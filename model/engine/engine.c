/* Engines: options, plans, memory, and the list of events (engine.h). */
#include "model/engine/engine.h"

#include "base/argument.h"
#include "base/repack.h"
#include "base/sized.h"
#include "base/trace/trace.h"
#include "reprise/device.h"
#include "reprise/options.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CTX = 4096, DEFAULT_SEQ = 4, DEFAULT_BLOCK = 32, DEFAULT_STEP = 256, MAX_STEP = 4096 };

static const size_t DEFAULT_STATE_BYTES = (size_t)256 << 20;

static RpStatus in_range(const char *what, int32_t value, int32_t from, int32_t to) {
    if (value >= from && value <= to) return RP_OK;
    return rp_fail(RP_E_ARG, "%s of an engine is %d: must be from %d to %d", what, value, from, to);
}

/* Fills the defaults in and checks every limit (I11). */
static RpStatus check_options(const RpModel *m, RpEngineOptions *o) {
    const int32_t n_train = rp_model_info(m)->n_ctx_train;
    if (o->n_ctx == 0) o->n_ctx = n_train < DEFAULT_CTX ? n_train : DEFAULT_CTX;
    if (o->n_seq == 0) o->n_seq = DEFAULT_SEQ;
    if (o->block == 0) o->block = DEFAULT_BLOCK;
    if (o->step_tokens == 0) o->step_tokens = DEFAULT_STEP;
    if (o->passes == NULL) o->passes = rp_option(RP_OPT_PASSES);
    RP_TRY(in_range("n_ctx", o->n_ctx, 1, n_train));
    RP_TRY(in_range("n_seq", o->n_seq, 1, MAX_SEQ));
    RP_TRY(in_range("step_tokens", o->step_tokens, o->n_seq, MAX_STEP));
    RP_TRY(in_range("n_mtp", o->n_mtp, -1, MAX_DRAFT));
    if (o->n_mtp == 0) o->n_mtp = DEFAULT_MTP;
    if (o->block < 32 || o->block % 32 != 0 || o->block > MAX_STEP)
        return rp_fail(RP_E_ARG, "block of an engine is %d: must be a multiple of 32, up to %d", o->block, MAX_STEP);
    const int64_t limit = INT32_MAX / 2, all = (int64_t)o->n_seq * rp_engine_blocks_of(o, o->n_ctx) * o->block;
    if (o->cache_tokens == 0) o->cache_tokens = (int32_t)(all < limit ? all : limit);
    RP_TRY(in_range("cache_tokens", o->cache_tokens, o->n_ctx, (int32_t)limit));
    if (!(o->step_ms >= 0.0)) return rp_fail(RP_E_ARG, "step_ms of an engine is %g: must not be negative", o->step_ms);
    return RP_OK;
}

/* Whole sequences of n_ctx positions each begin with a block. */
static int32_t count_blocks(const RpEngineOptions *o) {
    const int32_t of_sequence = rp_engine_blocks_of(o, o->n_ctx), n = rp_engine_blocks_of(o, o->cache_tokens);
    return n > of_sequence ? n : of_sequence;
}

/* One state for each request that runs, and those of prefixes and guesses. By default each request has states for the
 * latest prefixes, and each guess of an MTP layer has one. */
static int32_t count_states(const RpModel *m, const RpEngineOptions *o) {
    const size_t of_slot = rp_config_state_bytes(&m->config);
    if (of_slot == 0) return 0;
    const size_t guesses = rp_drafter_is_mtp(m, o) ? (size_t)o->n_mtp : 0;
    const size_t least   = (size_t)o->n_seq * (guesses + PREFIX_STATES);
    size_t       n       = (o->state_bytes > 0 ? o->state_bytes : DEFAULT_STATE_BYTES) / of_slot;
    if (o->state_bytes == 0 && guesses > 0 && n < least) n = least;
    return o->n_seq + (int32_t)(n < 1024 ? n : 1024);
}

/* Positions that a token attends to in layers with a window, within a sequence; 0: no layer has one. The token before
 * is counted in any case, so that every prefix has a window block at its end. */
static int32_t window_of(const RpModel *m, const RpEngineOptions *o) {
    const int32_t window = m->config.window < o->n_ctx ? m->config.window : o->n_ctx;
    if (!rp_config_has_windows(&m->config)) return 0;
    return window > 2 ? window : 2;
}

/* Blocks for the windows of the running requests, and for the windows at the ends of some prefixes; at most as many as
 * n_blocks. */
static int32_t count_windows(const RpModel *m, const RpEngineOptions *o, int32_t n_blocks) {
    const int32_t window = window_of(m, o);
    if (window == 0) return 0;
    const int64_t n = rp_windows_least(window, o->block, o->n_seq, o->step_tokens) +
                      (int64_t)o->n_seq * PREFIX_WINDOWS * rp_windows_each(window, o->block);
    return n < n_blocks ? (int32_t)n : n_blocks;
}

/* A fused plan of one column has the bits of a reply, so that the plans of prompts have two columns or more. */
static RpStatus plan_sets(RpEngine *e, const RpModelGraphOptions *shape) {
    enum { FIRST_PROMPT = 8 };
    const int32_t step = e->o.step_tokens, brief = step < SHORT_STEP ? step : SHORT_STEP;
    RunnerShapes  all = {.first = 1, .last = step}, replies = {.first = 1, .columns = RP_COLUMNS_REPLY},
                 prompts = {.first = FIRST_PROMPT, .last = step > 2 ? step : 2, .columns = RP_COLUMNS_PROMPT};
    replies.last         = e->o.n_seq > brief ? e->o.n_seq : brief;
    RP_TRY(rp_engine_plan_runners(e->model, shape, e->apart ? replies : all, e->passes, e->runners, &e->n_runners));
    e->replies = e->prompts = (RunnerSet){0, e->n_runners};
    if (!e->apart) return RP_OK;
    RP_TRY(rp_engine_plan_runners(e->model, shape, prompts, e->passes, e->runners, &e->n_runners));
    e->prompts = (RunnerSet){e->replies.end, e->n_runners};
    return RP_OK;
}

static RpStatus plan_runners(RpEngine *e) {
    const RpModelGraphOptions shape = {.n_ctx           = e->o.n_ctx,
                                       .kv_type         = e->o.kv_type,
                                       .n_states        = e->states.n,
                                       .n_seq           = e->o.n_seq,
                                       .block           = e->o.block,
                                       .n_blocks        = e->blocks.n,
                                       .hidden          = rp_drafter_reads_hidden(e->model, &e->o),
                                       .n_window_blocks = e->windows.n};
    RP_TRY(plan_sets(e, &shape));
    const DraftedEngine me = {.model     = e->model,
                              .o         = &e->o,
                              .n_blocks  = e->blocks.n,
                              .n_windows = e->windows.n,
                              .arena     = rp_runner_memory(e->runners, e->n_runners).arena,
                              .apart     = e->apart};
    return rp_drafter_plan(&e->drafter, &me, e->passes);
}

/* RpExecutorOptions.repack of the engine: the default for a single request copies fewer types. */
static const char *repack_of(const RpEngineOptions *o) {
    return rp_runner_repack(o->repack, o->n_seq > 1 ? "auto" : "codebook");
}

/* The owners of executors make the copies: the longest runner, and the runner of a drafter that does not share. */
static size_t most_repacked(const RpEngine *e, const RpEngineOptions *o) {
    const char     *choice = repack_of(o);
    const ExecPlan *plan   = e->runners[e->n_runners - 1].plan;
    const Drafter  *d      = &e->drafter;
    if (e->apart || o->backend != NULL || strcmp(choice, "off") == 0) return 0;
    if (strcmp(choice, "on") != 0 && !rp_cpu_repack_pays()) return 0;
    const bool owns = d->model != NULL && !d->shares;
    return rp_plan_repack_bytes(plan, NULL) +
           (owns ? rp_plan_repack_bytes(d->runners[d->n_runners - 1].plan, plan) : 0);
}

static RpEngineMemory memory_of(const RpEngine *e) {
    const RpPlanMemory p = rp_runner_memory(e->runners, e->n_runners);
    RpEngineMemory     m = {.weights         = rp_model_info(e->model)->weight_bytes,
                            .kv              = p.state,
                            .arena           = p.arena,
                            .n_ctx           = e->o.n_ctx,
                            .n_blocks        = e->blocks.n,
                            .block           = e->o.block,
                            .n_states        = e->states.n,
                            .n_window_blocks = e->windows.n,
                            .repack          = e->repack_bytes,
                            .states          = (size_t)e->states.n * rp_config_state_bytes(&e->model->config)};
    if (e->drafter.model != NULL) m.draft = rp_drafter_bytes(&e->drafter);
    if (e->o.draft != NULL) m.draft += rp_model_info(e->o.draft)->weight_bytes;
    m.total = m.weights + m.kv + m.arena + m.draft;
    m.kv -= m.states;
    return m;
}

/* The plans, and how many blocks and states there will be. */
static RpStatus plan_engine(const RpModel *m, const RpEngineOptions *options, RpEngine **out) {
    *out              = NULL;
    RpEngineOptions o = *options;
    RpDeviceMemory  device;
    RP_TRY(check_options(m, &o));
    RP_TRY(rp_device_memory(rp_runner_device(o.device, o.backend), o.require_cuda, &device));
    RpEngine *e = calloc(1, sizeof *e);
    if (e == NULL) return rp_fail(RP_E_NOMEM, "out of memory for an engine");
    *e         = (RpEngine){.model = m, .o = o, .passes = strdup(o.passes), .next_id = 1, .apart = device.is_own};
    e->columns = calloc((size_t)o.step_tokens, sizeof *e->columns);
    memcpy(e->device, device.id, sizeof e->device);
    if (e->apart) e->logits = malloc((size_t)o.n_seq * (size_t)rp_model_info(m)->n_vocab * sizeof *e->logits);
    const bool full = e->passes == NULL || e->columns == NULL || (e->apart && e->logits == NULL);
    RpStatus   st   = full ? rp_fail(RP_E_NOMEM, "out of memory for an engine") : RP_OK;
    e->blocks.n     = count_blocks(&o);
    e->states.n     = count_states(m, &o);
    e->windows.n    = count_windows(m, &o, e->blocks.n);
    if (st == RP_OK) st = plan_runners(e);
    if (st != RP_OK) {
        rp_engine_free(e);
        return st;
    }
    e->repack_bytes = most_repacked(e, &o);
    e->o.passes = e->o.repack = e->o.device = e->o.backend = NULL; /* of the caller */
    *out                                                   = e;
    return RP_OK;
}

RpStatus rp_engine_memory_sized(const RpModel *m, const RpEngineOptions *options, size_t options_bytes,
                                RpEngineMemory *out, size_t out_bytes) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(out, "out");

    RpEngine       *e;
    RpEngineOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpEngineOptions"));
    RP_TRY(plan_engine(m, &o, &e));
    const RpEngineMemory memory = memory_of(e);
    rp_sized_out(out, out_bytes, &memory, sizeof memory);
    rp_engine_free(e);
    return RP_OK;
}

static RpStatus check_memory(const RpEngine *e) {
    const RpEngineMemory m      = memory_of(e);
    const size_t         wanted = m.kv + m.states + m.arena + rp_drafter_bytes(&e->drafter);
    RpDeviceMemory       d;
    RP_TRY(rp_device_memory(e->device, false, &d)); /* a GPU checks it again, with the weights (rp_executor_open) */
    if (d.free_bytes == 0 || wanted <= d.free_bytes) return RP_OK; /* 0: not known */
    return rp_fail(RP_E_NOMEM,
                   "an engine takes %.1f GB for a KV cache of %d blocks of %d positions, %.1f GB for recurrent states "
                   "and %.1f GB for intermediate tensors; %.1f GB are free",
                   (double)m.kv / 1e9, m.n_blocks, m.block, (double)m.states / 1e9, (double)m.arena / 1e9,
                   (double)d.free_bytes / 1e9);
}

static RpStatus open_runners(RpEngine *e, const RpEngineOptions *given) {
    const RpExecutorOptions o = {.n_threads     = given->n_threads,
                                 .device        = given->device,
                                 .require_cuda  = given->require_cuda,
                                 .require_graph = given->require_graph,
                                 .repack        = repack_of(given),
                                 .backend       = given->backend,
                                 .watchdog_s    = given->watchdog_s};
    RP_TRY(rp_engine_open_runners(e->model, &o, e->runners, e->n_runners));
    return rp_drafter_open(&e->drafter, &o, e->runners[0].executor);
}

static RpStatus find_longest_piece(RpEngine *e) {
    const RpTokenizer *tk = rp_model_tokenizer(e->model);
    for (int32_t id = 0; tk != NULL && id < rp_tokenizer_n_vocab(tk); id++) {
        RpGgufString piece;
        RP_TRY(rp_token_bytes(tk, id, true, &piece));
        if (piece.len > e->longest_piece) e->longest_piece = piece.len;
    }
    return RP_OK;
}

RpStatus rp_engine_open_sized(const RpModel *m, const RpEngineOptions *options, size_t options_bytes, RpEngine **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(m, "m");

    RpEngine       *e;
    RpEngineOptions o;
    RP_TRY(rp_sized_in(&o, sizeof o, options, options_bytes, "RpEngineOptions"));
    RP_TRY(plan_engine(m, &o, &e));
    RpStatus st = check_memory(e);
    if (st == RP_OK) st = rp_blocks_init(&e->blocks, e->blocks.n, e->o.block);
    if (st == RP_OK) st = rp_states_init(&e->states, e->states.n, &e->blocks);
    if (st == RP_OK) st = rp_windows_init(&e->windows, e->windows.n, window_of(m, &e->o), &e->blocks);
    if (st == RP_OK) st = open_runners(e, &o);
    if (st == RP_OK) st = find_longest_piece(e);
    if (st != RP_OK) {
        rp_engine_free(e);
        return st;
    }
    *out = e;
    return RP_OK;
}

void rp_engine_free(RpEngine *e) {
    if (e == NULL) return;
    while (e->n_running > 0) rp_request_free(e->running[--e->n_running]);
    while (e->waiting != NULL) {
        Request *r = e->waiting;
        e->waiting = r->next;
        rp_request_free(r);
    }
    rp_drafter_free(&e->drafter); /* an assistant shares the executor of the engine */
    for (int i = 0; i < e->n_runners; i++) rp_runner_close(&e->runners[i]); /* the last one last: the others share it */
    rp_blocks_free(&e->blocks);
    rp_states_free(&e->states);
    rp_windows_free(&e->windows);
    free(e->columns);
    free(e->logits);
    free(e->events);
    free(e->texts);
    free(e->passes);
    free(e);
}

/* Room for the events of one step with one more request. */
static RpStatus make_room(RpEngine *e, const Request *r) {
    const size_t events = e->needs_events + r->n_events, texts = e->needs_texts + r->text_room;
    if (events > e->room_events) {
        EngineEvent *more = realloc(e->events, 2 * events * sizeof *more);
        if (more == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the events of an engine");
        e->events      = more;
        e->room_events = 2 * events;
    }
    if (texts > e->room_texts) {
        char *more = realloc(e->texts, 2 * texts);
        if (more == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the events of an engine");
        e->texts      = more;
        e->room_texts = 2 * texts;
    }
    return RP_OK;
}

RpStatus rp_engine_add_sized(RpEngine *e, const RpRequest *request, size_t request_bytes, uint64_t *id) {
    RP_NOT_NULL(e, "e");
    RP_NOT_NULL(request, "request");
    RP_NOT_NULL(id, "id");

    RpRequest given;
    Request  *r;
    RP_TRY(rp_sized_in(&given, sizeof given, request, request_bytes, "RpRequest"));
    RP_NOT_NULL(given.prompt, "prompt");
    RP_NOT_NULL(given.sampler, "sampler");
    RP_TRY(rp_request_new(e, &given, &r));
    const RpStatus st = make_room(e, r);
    if (st != RP_OK) {
        rp_request_free(r);
        return st;
    }
    r->id = e->next_id++;
    e->needs_events += r->n_events;
    e->needs_texts += r->text_room;
    e->pending++;
    rp_engine_queue(e, r);
    *id = r->id;
    return RP_OK;
}

static Request *find(const RpEngine *e, uint64_t id) {
    for (int i = 0; i < e->n_running; i++)
        if (e->running[i]->id == id) return e->running[i];
    for (Request *r = e->waiting; r != NULL; r = r->next)
        if (r->id == id) return r;
    return NULL;
}

RpStatus rp_engine_cancel(RpEngine *e, uint64_t id) {
    RP_NOT_NULL(e, "e");

    Request *r = find(e, id);
    if (r == NULL || r->cancelled || r->ended)
        return rp_fail(RP_E_ARG, "request %llu is not pending", (unsigned long long)id);
    r->cancelled = true;
    e->n_cancelled++;
    return RP_OK;
}

size_t rp_engine_pending(const RpEngine *e) { return e != NULL ? e->pending : 0; }

static Request *next_cancelled(const RpEngine *e) {
    for (int i = 0; i < e->n_running; i++)
        if (e->running[i]->cancelled) return e->running[i];
    Request *r = e->waiting;
    while (r != NULL && !r->cancelled) r = r->next;
    return r;
}

RpStatus rp_engine_step(RpEngine *e) {
    RP_NOT_NULL(e, "e");

    e->n_events = e->next_event = e->n_texts = 0;
    while (e->n_cancelled > 0) {
        Request *r = next_cancelled(e);
        rp_request_event(r, &(RpEngineEvent){.token = -1, .end = true, .reason = RP_STOP_CANCELLED}, e->n_texts);
        rp_request_end(r);
    }
    RP_TRY(rp_engine_schedule(e));
    if (e->n_columns == 0) return RP_OK;
    const RpTraceRun trace = rp_trace_run("engine step", (size_t)e->n_columns);
    return rp_trace_run_end(&trace, rp_engine_run(e));
}

bool rp_engine_poll_sized(RpEngine *e, RpEngineEvent *out, size_t out_bytes) {
    if (e == NULL || e->next_event == e->n_events) return false;
    const EngineEvent *from = &e->events[e->next_event++];
    RpEngineEvent      v    = from->event;
    v.text                  = e->texts + from->text;
    v.error                 = v.status != RP_OK ? e->texts + from->error : "";
    rp_sized_out(out, out_bytes, &v, sizeof v);
    return true;
}

void rp_engine_stats_sized(const RpEngine *e, RpEngineStats *out, size_t out_bytes) {
    RpEngineStats s = {0};
    if (e != NULL) {
        s          = e->stats;
        s.running  = e->n_running;
        s.waiting  = (int32_t)e->pending - e->n_running;
        s.n_blocks = e->blocks.n;
        s.n_ctx    = e->o.n_ctx;
        s.kept     = e->blocks.n_kept;
        s.used     = e->blocks.n - e->blocks.n_free - e->blocks.n_kept;
        s.evicted  = e->blocks.evicted;

        s.n_window_blocks = e->windows.n;
        s.window_kept     = rp_windows_kept(&e->windows);
        s.window_used     = e->windows.n - e->windows.n_free - s.window_kept;
    }
    rp_sized_out(out, out_bytes, &s, sizeof s);
}

void rp_engine_info_sized(const RpEngine *e, RpExecutorInfo *out, size_t out_bytes) {
    RpExecutorInfo info;
    if (e != NULL) info = rp_executor_info(e->runners[0].executor);
    if (e != NULL && e->drafter.model != NULL && !e->drafter.shares) {
        info.repack_bytes += rp_executor_info(e->drafter.runners[0].executor).repack_bytes;
        if (info.repack_bytes > e->repack_bytes) info.repack_bytes = e->repack_bytes; /* they have a weight in common */
    }
    rp_sized_out(out, out_bytes, e != NULL ? &info : NULL, sizeof info);
}

const ExecPlan *rp_engine_step_plan(const RpEngine *e) { return e != NULL ? e->runners[0].plan : NULL; }

const RpModel *rp_engine_model(const RpEngine *e) { return e != NULL ? e->model : NULL; }
