/* counts_plan.c - `reprise-sim bench counts` in the program of the simulated device: plans a step, gives every tensor
 * an address, and walks the plan with a launch hook that counts.
 *
 *     weights       of a file: repacked as on the device; of a preset: zeros that take no memory
 *     cache         zeros, at any position
 *     arena, scratch memory, step state      as of a session
 *
 * It walks the plan twice. The first walk plans for twice as many multiprocessors and notes the number of blocks: a
 * grid that differs in the second follows the GPU. Products of a prefill chunk run in the library's own kernels:
 * cuBLASLt has no PTX to interpret. */
#include "sim/counts/counts_run.h"

#include "base/tuning.h"
#include "cli/common.h"
#include "cli/counts.h"

#include "executor/plan_walk.h"
#include "reprise/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, N_RECENT = 64 };

typedef struct Weight {
    const void *host;
    char       *at;
} Weight;

typedef struct CountedPlan {
    CountsRun    *run;
    ComputeGraph *g;
    ExecPlan     *plan;
    RpOpArgs     *args;
    Weight       *weights;
    RpCudaTuning  tuning, other; /* other: with twice as many multiprocessors */
    int           n_weights, step;
    bool          preset;      /* no weights but zeros */
    double       *other_grids; /* of each launch, on twice as many multiprocessors */
    int           n_grids, launch;
    char         *arena, *scratch;
    char        **states;
    size_t        scratch_bytes;
} CountedPlan;

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static RpStatus take(CountedPlan *p, CountsMemory holds, size_t bytes, char **out) {
    *out = counts_memory(p->run, holds, bytes);
    return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of addresses for %zu bytes", bytes);
}

static bool is_weight(const TensorNode *node) { return strcmp(rp_node_op_name(node), "weight") == 0; }

/* Matrices are read once a launch. Vectors (norms, biases) are read again by every block, from L2: they count as
 * activations. */
static bool is_matrix(const TensorNode *node) {
    const RpTensorView v = rp_node_view(node);
    return is_weight(node) && rp_view_rows(&v) > 1;
}

static RpStatus place_weight(CountedPlan *p, const TensorNode *node, bool repack, char **at) {
    const RpTensorView v       = rp_node_view(node);
    p->weights[p->n_weights++] = (Weight){v.data, *at};
    if (repack) RP_TRY(rp_cuda_repack(&v, *at));
    *at += aligned(rp_cuda_weight_bytes(&v));
    return RP_OK;
}

/* One range for all matrices or for all vectors, each weight at a multiple of 256 bytes. `repack`: with their
 * values. */
static RpStatus place_weights(CountedPlan *p, bool matrices, bool repack) {
    size_t bytes = 0;
    char  *at    = NULL;
    for (int i = 0; i < rp_graph_n_nodes(p->g); i++) {
        const TensorNode  *node = rp_graph_node(p->g, i);
        const RpTensorView v    = rp_node_view(node);
        if (is_weight(node) && is_matrix(node) == matrices) bytes += aligned(rp_cuda_weight_bytes(&v));
    }
    RP_TRY(take(p, matrices ? COUNTS_WEIGHTS : COUNTS_ACTIVATIONS, bytes, &at));
    for (int i = 0; i < rp_graph_n_nodes(p->g); i++) {
        const TensorNode *node = rp_graph_node(p->g, i);
        if (is_weight(node) && is_matrix(node) == matrices) RP_TRY(place_weight(p, node, repack, &at));
    }
    return RP_OK;
}

static RpStatus place_all_weights(CountedPlan *p, bool repack) {
    p->weights = calloc((size_t)rp_graph_n_nodes(p->g) + 1, sizeof *p->weights);
    if (p->weights == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the weights of a plan");
    RP_TRY(place_weights(p, true, repack));
    return place_weights(p, false, repack);
}

static char *weight_at(const CountedPlan *p, const void *host) {
    for (int i = 0; i < p->n_weights; i++)
        if (p->weights[i].host == host) return p->weights[i].at;
    return NULL;
}

static bool is_cache(const char *name) {
    static const char *const caches[] = {"k.", "v.", "latent.", "k_rope."};
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++)
        if (strncmp(name, caches[i], strlen(caches[i])) == 0) return true;
    return false;
}

static RpStatus place_memory(CountedPlan *p) {
    const ExecPlan *plan = p->plan;
    char           *counters;
    for (int i = 0; i < 2 * plan->n_steps; i++) { /* for both walks */
        const PlanStep   *step  = &plan->steps[i / 2];
        const RpKernelCtx ctx   = {.nth = 1, .tuning = i % 2 == 0 ? &p->tuning : &p->other};
        const size_t      bytes = rp_cuda_scratch_bytes(step->op, &step->args, &ctx);
        if (bytes > p->scratch_bytes) p->scratch_bytes = bytes;
    }
    RP_TRY(take(p, COUNTS_ACTIVATIONS, plan->memory.arena, &p->arena));
    RP_TRY(take(p, COUNTS_COUNTERS, p->scratch_bytes + RP_SCRATCH_ZEROS, &counters));
    p->scratch = counters;
    p->states  = calloc((size_t)plan->n_states + 1, sizeof *p->states);
    if (p->states == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d states", plan->n_states);
    for (int i = 0; i < plan->n_states; i++)
        RP_TRY(take(p, is_cache(rp_node_name(plan->states[i].node)) ? COUNTS_CACHE : COUNTS_ACTIVATIONS,
                    plan->states[i].bytes, &p->states[i]));
    return RP_OK;
}

static void *address(const CountedPlan *p, PlanRef ref, const void *host) {
    if (ref.space == SPACE_WEIGHT) return weight_at(p, host) + ref.offset;
    return (ref.space == SPACE_ARENA ? p->arena : p->states[ref.state]) + ref.offset;
}

static RpStatus fill_args(CountedPlan *p) {
    p->args = calloc((size_t)p->plan->n_steps + 1, sizeof *p->args);
    if (p->args == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d steps", p->plan->n_steps);
    for (int i = 0; i < p->plan->n_steps; i++) {
        const PlanStep *s   = &p->plan->steps[i];
        p->args[i]          = s->args;
        p->args[i].dst.data = address(p, s->dst, NULL);
        for (int k = 0; k < RP_MAX_SRC; k++)
            if (s->args.src[k].ne[0] > 0) p->args[i].src[k].data = address(p, s->src[k], s->args.src[k].data);
    }
    return RP_OK;
}

/* With a repetition penalty, tokens 0 to N_RECENT - 1 are recent. */
static void set_step_state(void *state, const RpSamplerParams *sampler, int32_t pos) {
    RpStepState *s      = state;
    int32_t     *recent = (int32_t *)state + RP_STEP_WORDS;
    *s                  = (RpStepState){.token          = 1,
                                        .pos            = pos,
                                        .temperature    = sampler->temperature,
                                        .top_k          = sampler->top_k,
                                        .top_p          = sampler->top_p,
                                        .min_p          = sampler->min_p,
                                        .repeat_penalty = sampler->repeat_penalty,
                                        .seed_low       = (uint32_t)sampler->seed,
                                        .seed_high      = (uint32_t)(sampler->seed >> 32)};
    if (sampler->repeat_penalty == 1.0f || sampler->repeat_last_n == 0) return;
    s->repeat_last_n = s->n_recent = N_RECENT;
    for (int32_t i = 0; i < N_RECENT; i++) recent[i] = i;
}

/* A decode step reads its token and position from the step state, a prefill chunk from its inputs. */
static void set_inputs(CountedPlan *p, const RpSamplerParams *sampler, int32_t n_tok, int32_t pos) {
    for (int i = 0; i < p->plan->n_states; i++)
        if (strcmp(rp_node_name(p->plan->states[i].node), "step") == 0) set_step_state(p->states[i], sampler, pos);
    const TensorNode *tokens = rp_graph_find(p->g, "tokens"), *at = rp_graph_find(p->g, "pos"),
                     *rows = rp_graph_find(p->g, "out_rows");
    if (tokens == NULL || at == NULL || rows == NULL) return;
    for (int32_t t = 0; t < n_tok; t++) {
        ((int32_t *)address(p, rp_plan_ref(p->plan, tokens), NULL))[t] = 1 + t;
        ((int32_t *)address(p, rp_plan_ref(p->plan, at), NULL))[t]     = pos + t;
    }
    *(int32_t *)address(p, rp_plan_ref(p->plan, rows), NULL) = n_tok - 1;
}

static int32_t *input_of(const CountedPlan *p, const char *name) {
    const TensorNode *node = rp_graph_find(p->g, name);
    return node != NULL ? address(p, rp_plan_ref(p->plan, node), NULL) : NULL;
}

/* Replies of an engine, one of each sequence, whose blocks lie one behind the other. */
static void set_replies(CountedPlan *p, const RpModelGraphOptions *o, int32_t pos) {
    const int32_t width  = o->n_blocks / o->n_seq;
    int32_t      *tokens = input_of(p, "tokens"), *at = input_of(p, "pos"), *rows = input_of(p, "out_rows"),
            *seq = input_of(p, "seq"), *stored = input_of(p, "kv_rows"), *table = input_of(p, "table"),
            *slots = input_of(p, "slots"), *starts = input_of(p, "starts");
    for (int32_t t = 0; t < o->n_tok; t++) {
        tokens[t] = 1 + t, at[t] = pos, rows[t] = seq[t] = t, stored[t] = t * width * o->block + pos;
        if (slots != NULL) slots[1 + t] = starts[t] = t;
    }
    for (int32_t i = 0; i < o->n_blocks; i++) table[i] = i;
}

static double grid_blocks(const RpKernelLaunch *l) { return (double)l->grid[0] * l->grid[1] * l->grid[2]; }

static RpStatus note_grid(void *user, const RpKernelLaunch *l) {
    CountedPlan *p     = user;
    double      *grown = realloc(p->other_grids, (size_t)(p->n_grids + 1) * sizeof *grown);
    if (grown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %d launches", p->n_grids + 1);
    p->other_grids               = grown;
    p->other_grids[p->n_grids++] = grid_blocks(l);
    return RP_OK;
}

/* Logits of a preset, which has no text: ln of probabilities that fall with the rank as in Zipf's law,
 *
 *     p(rank) ~ rank^-1.5      the first has 38 %, the first 10 have 76 %, the first 100 have 92 %
 *
 * in an order that spreads the ranks over the vocabulary: the factor, a prime, and n have no common divisor. */
static void set_logits(const RpTensorView *logits) {
    const uint64_t factor = 2654435761u;
    const int64_t  n      = logits->ne[0];
    for (int64_t row = 0; row < logits->ne[1]; row++) {
        float *x = (float *)((char *)logits->data + (size_t)row * logits->nb[1]);
        for (int64_t i = 0; i < n; i++) x[i] = (float)(-1.5 * log((double)((uint64_t)i * factor % (uint64_t)n + 1)));
    }
}

static RpStatus on_launch(void *user, const RpKernelLaunch *l) {
    CountedPlan *p = user;
    if (l->function == NULL) return rp_fail(RP_E_UNSUPPORTED, "%s: another library's kernel has no PTX", l->name);
    const TensorNode *node    = p->plan->steps[p->step].node;
    const bool        follows = p->launch < p->n_grids && p->other_grids[p->launch] != grid_blocks(l);
    p->launch++;
    if (p->preset && strcmp(rp_node_op_name(node), "sample") == 0) set_logits(&p->args[p->step].sample.logits);
    counts_launch(p->run, l, rp_node_op_name(node), rp_node_name(node), follows ? p->tuning.n_sm : 0);
    return RP_OK;
}

static RpStatus next_step(void *user, RpStatus status, bool last_phase) {
    CountedPlan *p = user;
    if (last_phase) p->step++;
    return status;
}

typedef RpStatus LaunchHook(void *user, const RpKernelLaunch *l);

static RpStatus walk(CountedPlan *p, LaunchHook *hook, const RpCudaTuning *tuning) {
    const Kernels kernels = {.of_op = rp_cuda_kernel, .cuda = true};
    RpKernelCtx   ctx     = {.scratch       = p->scratch,
                             .scratch_bytes = p->scratch_bytes,
                             .nth           = 1,
                             .launch        = hook,
                             .user          = p,
                             .tuning        = tuning};
    RP_TRY(rp_check_kernels(p->plan, &kernels));
    p->step = 0;
    return rp_plan_walk(p->plan, p->args, NULL, &kernels, &ctx, next_step, p);
}

static RpStatus count_plan(CountedPlan *p, const RpModel *m, const CountsArgs *a, RpModelGraphOptions *o, int32_t pos) {
    RP_TRY(cli_kv_type(a->kv, &o->kv_type));
    RP_TRY(rp_model_graph(m, o, &p->g));
    RP_TRY(rp_graph_optimize(p->g, a->passes));
    RP_TRY(rp_plan_new(p->g, &p->plan));
    RP_TRY(place_all_weights(p, a->model != NULL));
    RP_TRY(place_memory(p));
    RP_TRY(fill_args(p));
    if (a->replies > 0)
        set_replies(p, o, pos);
    else
        set_inputs(p, &a->sampler, o->n_tok, pos);
    RP_TRY(walk(p, note_grid, &p->other));
    return walk(p, on_launch, &p->tuning);
}

/* The tuning of a GPU with `times` as many multiprocessors. */
static RpCudaTuning tuning_of(const CountsArgs *a, int times) {
    const int capability = a->capability > 0 ? a->capability : 90;
    return rp_tuning_of_device(times * rp_tuning_defaults(a->sms).n_sm, capability / 10, capability % 10);
}

/* The phases of a request, or a step of an engine with replies only. */
static RpStatus count_phase(const RpModel *m, const CountsArgs *a, bool decode) {
    enum { BLOCK = 32 };
    const int32_t       n = a->replies, n_tok = n > 0 ? n : decode ? 1 : a->chunk, pos = decode || n > 0 ? a->pos : 0;
    const int32_t       n_ctx = cli_default_ctx(m) > pos + n_tok ? cli_default_ctx(m) : pos + n_tok;
    CountedPlan         p     = {.run    = counts_open((unsigned)a->blocks, !a->no_registers),
                                 .preset = a->model == NULL,
                                 .tuning = tuning_of(a, 1),
                                 .other  = tuning_of(a, 2)};
    RpModelGraphOptions o     = {.n_tok = n_tok, .n_ctx = n_ctx, .draws = decode, .n_recent = decode ? N_RECENT : 0};
    const char         *phase = n > 0 ? "replies" : decode ? "decode" : "prefill";
    const CountsTitle   title = {a->model, a->preset, phase, pos, p.tuning.n_sm};
    if (n > 0) {
        o = (RpModelGraphOptions){.n_tok = n, .n_out = n, .n_seq = n, .n_ctx = n_ctx, .block = BLOCK, .n_states = n};
        o.n_blocks            = n * ((n_ctx + BLOCK - 1) / BLOCK);
        p.tuning.tile_columns = p.other.tile_columns = RP_TUNING_NO_TILES; /* RP_COLUMNS_REPLY */
    }
    RpStatus st = a->specialized && decode ? counts_specialize(p.run) : RP_OK;
    if (st == RP_OK) st = count_plan(&p, m, a, &o, pos);
    if (st == RP_OK && a->json) counts_print_json(p.run, &title, stdout);
    if (st == RP_OK && !a->json) st = counts_print_text(p.run, &title, a->files, stdout);
    counts_close(p.run);
    rp_plan_free(p.plan);
    rp_graph_free(p.g);
    free(p.args);
    free(p.weights);
    free(p.states);
    free(p.other_grids);
    return st;
}

RpStatus cli_counts_available(void) { return RP_OK; }

RpStatus cli_counts_run(const RpModel *m, const CountsArgs *args) {
    if (args->replies > 0) return count_phase(m, args, false);
    if (args->decode) RP_TRY(count_phase(m, args, true));
    return args->prefill ? count_phase(m, args, false) : RP_OK;
}
