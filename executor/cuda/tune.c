/* Chooses the constants of a device (tune.h). They are measured one after the other; each measurement uses the values
 * chosen for the earlier ones. The candidates of a constant take turns, so that a slow phase of the device affects all:
 *
 *     round 0: model, candidate 1, candidate 2, ...    round 1: model, candidate 1, ...    ... 9 rounds
 *
 * A candidate replaces the model's value if its median is shorter by more than the noise: the largest of both distances
 * from minimum to median, and 2 % of the time. */
#include "executor/cuda/tune.h"

#include "base/clock.h"
#include "executor/cuda/code_cache.h"
#include "executor/cuda/tune_bench.h"
#include "executor/median.h"
#include "reprise/version.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 2, ROUNDS = 9, MIN_ROUNDS = 3, CONSTANTS = 5, WARM_US = 20000, MAX_WARM_RUNS = 64 };

#define MARGIN 0.02

double rp_cuda_tune_seconds = 1.5;

/* A constant and what it is measured with; candidates[0] is the model's. */
typedef struct Constant {
    const char *name;
    size_t      member; /* offset in RpCudaTuning */
    TuneChain   chain;
    bool        overlap; /* has no effect without programmatic dependent launch */
    int         n, candidates[RP_TUNED_CANDIDATES];
} Constant;

#define MEMBER(name) #name, offsetof(RpCudaTuning, name)
/* clang-format off */
static const Constant constants[CONSTANTS] = {
    {MEMBER(grid_percent),   TUNE_PRODUCTS,  false, 4, {RP_TUNING_GRID, 50, 150, 200}},
    {MEMBER(early_bytes),    TUNE_PRODUCTS,  true,  4, {RP_TUNING_EARLY, 0, 4 << 20, 24 << 20}},
    {MEMBER(overlap_blocks), TUNE_PRODUCTS,  true,  3, {RP_TUNING_OVERLAP, 0, 4}},
    {MEMBER(split_tokens),   TUNE_ATTENTION, false, 3, {RP_TUNING_SPLIT_TOKENS, TUNE_FEW_TOKENS, TUNE_TOKENS}},
    {MEMBER(next_bytes),     TUNE_TOKEN,     true,  4, {0, 8 << 20, 16 << 20, 24 << 20}},
};
/* clang-format on */
#undef MEMBER

static int *member_of(RpCudaTuning *t, const Constant *c) { return (int *)(void *)((char *)t + c->member); }

/* The model's constants, unmeasured. */
static void describe(const CudaDevice *d, RpCudaTuningInfo *out) {
    RpCudaTuning t   = d->tuning;
    out->origin      = RP_TUNING_MODEL;
    out->n_constants = CONSTANTS;
    for (int i = 0; i < CONSTANTS; i++) {
        const int value   = *member_of(&t, &constants[i]);
        out->constants[i] = (RpTunedConstant){.name = constants[i].name, .value = value, .model = value};
    }
}

static void apply(CudaDevice *d, const RpTunedConstant *values) {
    for (int i = 0; i < CONSTANTS; i++) *member_of(&d->tuning, &constants[i]) = values[i].value;
}

/* ---- measuring ---- */

typedef struct Trial {
    TuneBench      *b;
    const Constant *c;
    cudaGraphExec_t graphs[RP_TUNED_CANDIDATES];
    double          us[RP_TUNED_CANDIDATES][ROUNDS];
    int             rounds;
} Trial;

static RpStatus record(Trial *t, const RpCudaTuning *tuning) {
    for (int k = 0; k < t->c->n; k++) {
        RpCudaTuning candidate       = *tuning;
        *member_of(&candidate, t->c) = t->c->candidates[k];
        RP_TRY(rp_tune_bench_record(t->b, t->c->chain, &candidate, &t->graphs[k]));
    }
    return RP_OK;
}

/* The first round is not counted: graphs and kernels that were never run are slower. */
static RpStatus time_rounds(Trial *t, double deadline) {
    double unused;
    for (int k = 0; k < t->c->n; k++) RP_TRY(rp_tune_bench_time(t->b, t->graphs[k], &unused));
    for (; t->rounds < ROUNDS && rp_seconds() < deadline; t->rounds++)
        for (int k = 0; k < t->c->n; k++) RP_TRY(rp_tune_bench_time(t->b, t->graphs[k], &t->us[k][t->rounds]));
    return RP_OK;
}

/* The fastest candidate, or the model's if none is faster by more than the noise. */
static void choose(Trial *t, RpTunedConstant *out) {
    double noise[RP_TUNED_CANDIDATES];
    int    best = 0;
    for (int k = 0; k < t->c->n; k++) {
        out->candidates[k] = t->c->candidates[k];
        out->us[k]         = rp_median(t->us[k], t->rounds); /* sorts */
        noise[k]           = out->us[k] - t->us[k][0];
    }
    for (int k = 1; k < t->c->n; k++) {
        const double gain = out->us[0] - out->us[k], least = MARGIN * out->us[0];
        if (gain > least && gain > noise[0] && gain > noise[k] && out->us[k] < out->us[best]) best = k;
    }
    out->n_candidates = t->c->n;
    out->value        = t->c->candidates[best];
}

static RpStatus measure_constant(TuneBench *b, const Constant *c, const RpCudaTuning *tuning, double deadline,
                                 RpTunedConstant *out) {
    Trial    t  = {.b = b, .c = c};
    RpStatus st = record(&t, tuning);
    if (st == RP_OK) st = time_rounds(&t, deadline);
    if (st == RP_OK && t.rounds >= MIN_ROUNDS) choose(&t, out);
    for (int k = 0; k < c->n; k++)
        if (t.graphs[k] != NULL) (void)cudaGraphExecDestroy(t.graphs[k]);
    return st;
}

/* An idle device has a low clock. */
static RpStatus warm_up(TuneBench *b, const RpCudaTuning *tuning, double deadline) {
    cudaGraphExec_t graph;
    double          us = 0.0, sum = 0.0;
    RpStatus        st = rp_tune_bench_record(b, TUNE_PRODUCTS, tuning, &graph);
    for (int i = 0; st == RP_OK && i < MAX_WARM_RUNS && sum < WARM_US && rp_seconds() < deadline; i++, sum += us)
        st = rp_tune_bench_time(b, graph, &us);
    if (graph != NULL) (void)cudaGraphExecDestroy(graph);
    return st;
}

static RpStatus measure_all(TuneBench *b, RpCudaTuning *tuning, double deadline, RpTunedConstant *out, bool *stopped) {
    RP_TRY(warm_up(b, tuning, deadline));
    for (int i = 0; i < CONSTANTS; i++) {
        if (constants[i].overlap && !b->pdl) continue;
        if (rp_seconds() < deadline) RP_TRY(measure_constant(b, &constants[i], tuning, deadline, &out[i]));
        *stopped |= out[i].n_candidates == 0;
        *member_of(tuning, &constants[i]) = out[i].value;
    }
    return RP_OK;
}

RpStatus rp_cuda_tune_measure(CudaDevice *d, size_t l2_bytes, double seconds, bool *stopped) {
    const double     deadline = rp_seconds() + seconds;
    const bool       pdl      = d->major >= CUDA_PDL_MAJOR && strcmp(rp_option(RP_OPT_PDL), "off") != 0;
    RpCudaTuningInfo info;
    RpCudaTuning     tuning = d->tuning;
    TuneBench        b;
    *stopped = false;
    describe(d, &info);
    RpStatus st = rp_tune_bench_open(d, l2_bytes, TUNE_TOKENS, pdl, &b);
    if (st == RP_OK) st = measure_all(&b, &tuning, deadline, info.constants, stopped);
    rp_tune_bench_close(&b);
    if (st != RP_OK) return st;
    memcpy(d->tuned.constants, info.constants, sizeof info.constants);
    d->tuning = tuning;
    return RP_OK;
}

/* ---- cache ---- */

/* Everything that the times depend on. Devices of one kind share an entry. */
static void key_of(const CudaDevice *d, const struct cudaDeviceProp *p, char *key, size_t bytes) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    snprintf(key, bytes,
             "reprise constants %d, %s, %s, sm_%d%d, %d multiprocessors, L2 %d, driver %d, runtime %d, %s=%s", FORMAT,
             RP_VERSION, d->name, d->major, d->minor, d->tuning.n_sm, p->l2CacheSize, driver, runtime,
             rp_option_name(RP_OPT_PDL), rp_option(RP_OPT_PDL));
}

typedef struct Entry {
    struct {
        int32_t value, n;
        double  us[RP_TUNED_CANDIDATES];
    } constants[CONSTANTS];
    char end; /* 0, as in the text entries of the cache */
} Entry;

/* Whether an entry has values that could have been chosen. */
static bool is_sound(const Entry *e) {
    for (int i = 0; i < CONSTANTS; i++) {
        const Constant *c     = &constants[i];
        bool            known = false;
        for (int k = 0; k < c->n; k++) known |= e->constants[i].value == c->candidates[k];
        if (!known || (e->constants[i].n != 0 && e->constants[i].n != c->n)) return false;
    }
    return true;
}

static RpStatus read_cache(CudaDevice *d, const CodeCache *cache, const char *key, bool *found) {
    CudaBinary b;
    Entry      e;
    RP_TRY(rp_code_cache_read(cache, key, strlen(key), &b, found));
    if (!*found) return RP_OK;
    *found = b.ptx_bytes == sizeof e;
    if (*found) memcpy(&e, b.ptx, sizeof e);
    rp_cuda_binary_free(&b);
    *found = *found && is_sound(&e);
    if (!*found) return rp_fail(RP_E_FORMAT, "%s: the entry of %s holds other constants", cache->folder, d->name);
    for (int i = 0; i < CONSTANTS; i++) {
        RpTunedConstant *c = &d->tuned.constants[i];
        c->value           = e.constants[i].value;
        c->n_candidates    = e.constants[i].n;
        memcpy(c->candidates, constants[i].candidates, sizeof c->candidates);
        memcpy(c->us, e.constants[i].us, sizeof c->us);
    }
    apply(d, d->tuned.constants);
    return RP_OK;
}

/* The entry takes the place of the PTX. */
static RpStatus write_cache(const CudaDevice *d, const CodeCache *cache, const char *key) {
    Entry e;
    memset(&e, 0, sizeof e); /* padding too */
    for (int i = 0; i < CONSTANTS; i++) {
        e.constants[i].value = d->tuned.constants[i].value;
        e.constants[i].n     = d->tuned.constants[i].n_candidates;
        memcpy(e.constants[i].us, d->tuned.constants[i].us, sizeof e.constants[i].us);
    }
    const CudaBinary b = {.ptx = (const char *)&e, .ptx_bytes = sizeof e, .symbol = "constants", .symbol_bytes = 10};
    return rp_code_cache_write(cache, key, strlen(key), &b);
}

/* ---- choice ---- */

enum { KEY_BYTES = 640 };

/* The latest measurement of this process, for a machine without a cache. One measurement at a time: two would disturb
 * each other. */
static struct {
    pthread_mutex_t  lock;
    char             key[KEY_BYTES];
    RpCudaTuningInfo info;
} latest = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void say(CudaDevice *d, RpTuningOrigin origin, const char *format, const char *why) {
    d->tuned.origin = origin;
    snprintf(d->tuned.text, sizeof d->tuned.text, format, why);
}

/* Returns a failure of the device itself. After other failures the constants of the model stay. */
static RpStatus measure(CudaDevice *d, size_t l2_bytes) {
    const double begin = rp_seconds();
    bool         stopped;
    if (rp_cuda_tune_measure(d, l2_bytes, rp_cuda_tune_seconds, &stopped) != RP_OK) {
        if (d->failed) return rp_fail(RP_E_CUDA, "%s: measurement of its constants: %s", d->id, d->failure);
        say(d, RP_TUNING_MODEL, "model: not measured: %.400s", rp_last_error());
        return RP_OK;
    }
    d->tuned.origin = RP_TUNING_MEASURED;
    snprintf(d->tuned.text, sizeof d->tuned.text, "measured in %.2f s%s", rp_seconds() - begin,
             stopped ? ", stopped before the end" : "");
    return RP_OK;
}

/* Takes the latest measurement if it was of a device of this kind, unless a new one is forced. */
static RpStatus measure_once(CudaDevice *d, size_t l2_bytes, const char *key, bool again) {
    RpStatus st = RP_OK;
    pthread_mutex_lock(&latest.lock);
    if (!again && strcmp(latest.key, key) == 0) {
        d->tuned = latest.info;
        apply(d, d->tuned.constants);
    } else {
        st = measure(d, l2_bytes);
    }
    if (st == RP_OK && d->tuned.origin == RP_TUNING_MEASURED) {
        snprintf(latest.key, sizeof latest.key, "%s", key);
        latest.info = d->tuned;
    }
    pthread_mutex_unlock(&latest.lock);
    return st;
}

/* The cache first, then a measurement, which is put into the cache. `opened`: the outcome of opening it. */
static RpStatus choose_with(CudaDevice *d, const struct cudaDeviceProp *p, bool force, const CodeCache *cache,
                            RpStatus opened) {
    char       key[KEY_BYTES], why[384] = "";
    bool       found  = false;
    const bool usable = opened == RP_OK;
    RpStatus   st     = opened;
    key_of(d, p, key, sizeof key);
    if (usable && !force) st = read_cache(d, cache, key, &found);
    if (st != RP_OK) snprintf(why, sizeof why, "; cache: %.360s", rp_last_error());
    if (found) {
        say(d, RP_TUNING_CACHED, "%s", "from the cache");
        return RP_OK;
    }
    RP_TRY(measure_once(d, (size_t)p->l2CacheSize, key, force));
    if (d->tuned.origin != RP_TUNING_MEASURED) return RP_OK;
    if (usable && write_cache(d, cache, key) != RP_OK) snprintf(why, sizeof why, "; cache: %.360s", rp_last_error());
    const size_t n = strlen(d->tuned.text);
    snprintf(d->tuned.text + n, sizeof d->tuned.text - n, "%s", why);
    return RP_OK;
}

static RpStatus choose_measured(CudaDevice *d, const struct cudaDeviceProp *p, bool force) {
    CodeCache      cache;
    const RpStatus opened = rp_code_cache_open(&cache);
    const RpStatus st     = choose_with(d, p, force, &cache, opened);
    if (opened == RP_OK) rp_code_cache_close(&cache);
    return st;
}

RpStatus rp_cuda_tune(CudaDevice *d, const struct cudaDeviceProp *p) {
    const char *option = rp_option(RP_OPT_TUNE);
    const bool  force  = strcmp(option, "force") == 0;
    describe(d, &d->tuned);
    if (strcmp(option, "off") == 0) {
        say(d, RP_TUNING_MODEL, "model: %s=off", rp_option_name(RP_OPT_TUNE));
        return RP_OK;
    }
    if (!force && strcmp(option, "auto") != 0)
        return rp_fail(RP_E_ARG, "%s '%s': must be auto, off or force", rp_option_name(RP_OPT_TUNE), option);
    if (force || !d->simulated) return choose_measured(d, p, force);
    say(d, RP_TUNING_MODEL, "model: " CUDA_SIMULATED, d->name);
    return RP_OK;
}
