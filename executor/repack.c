/* Repacked copies of weights (repack.h). */
#include "executor/repack.h"

#include "base/clock.h"
#include "base/dtypes.h"
#include "base/repack.h"
#include "executor/huge_pages.h"
#include "executor/repack_trial.h"
#include "reprise/device.h"
#include "reprise/options.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* "auto" leaves this much memory free, besides the pages of the file. */
static const size_t MARGIN = (size_t)512 << 20;

/* One allocation for the copies that are made together, so that small copies, which would not fill a huge page, lie on
 * huge pages too. */
typedef struct Slab {
    char *data;
    int   copies; /* in the list of the process */
} Slab;

struct RepackedCopy {
    RepackedCopy *next;
    RpTensorView  from, to; /* of the file, and of the copy, whose memory is to.data */
    size_t        bytes;    /* rp_repacked_copy_bytes */
    Slab         *slab;     /* of to.data; NULL: no memory yet */
    int           users;    /* sets that hold it; 0: not made yet */
};

static struct {
    pthread_mutex_t lock;
    RepackedCopy   *first;
} copies = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool same_weight(const RpTensorView *a, const RpTensorView *b) {
    return a->data == b->data && a->dtype == b->dtype && memcmp(a->ne, b->ne, sizeof a->ne) == 0 &&
           memcmp(a->nb, b->nb, sizeof a->nb) == 0;
}

static bool repackable(const RpExecutor *e, int step, int k) {
    return e->plan->steps[step].src[k].space == SPACE_WEIGHT &&
           rp_cpu_can_repack(e->plan->steps[step].op, &e->args[step], k);
}

static RepackedCopy *copy_of(const RepackSet *set, const RpTensorView *w) {
    for (int i = 0; i < set->n; i++)
        if (same_weight(&set->copies[i]->from, w)) return set->copies[i];
    return NULL;
}

/* The copy in the list of the process, or a new one without memory at its head; NULL without memory for it. */
static RepackedCopy *find_or_add(const RpTensorView *w) {
    for (RepackedCopy *c = copies.first; c != NULL; c = c->next)
        if (same_weight(&c->from, w)) return c;
    RepackedCopy *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->from      = *w;
    c->to        = rp_repacked_view(w, NULL);
    c->bytes     = rp_repacked_copy_bytes(w);
    c->next      = copies.first;
    copies.first = c;
    return c;
}

/* The longest weight of the type of w that can be repacked. */
static const RpTensorView *longest_like(const RpExecutor *e, const RpTensorView *w) {
    const RpTensorView *longest = w;
    for (int i = 0; i < e->plan->n_steps; i++)
        for (int k = 0; k < RP_MAX_SRC; k++) {
            const RpTensorView *v = &e->args[i].src[k];
            if (v->dtype == w->dtype && repackable(e, i, k) && rp_view_rows(v) > rp_view_rows(longest)) longest = v;
        }
    return longest;
}

/* Which weights are copied. */
typedef enum RepackChoice {
    COPY_NONE,
    COPY_CODEBOOKS, /* as COPY_GAINING, of types that is_slow_to_read names */
    COPY_GAINING,   /* those that a measurement finds faster, if the copies fit in memory */
    COPY_ALL
} RepackChoice;

/* Quants are entries of a codebook, or have no loads of their own (base/dtypes.h). */
static bool is_slow_to_read(RpDtype dtype) {
    switch (dtype) {
#define X(ID, ...) case RP_##ID:
        RP_CODEBOOK_QUANTS(X)
        RP_GENERIC_QUANTS(X)
#undef X
        return true;
    default:
        return false;
    }
}

/* These ops compare the strides of their weights: all that can be repacked are, or none. */
static bool repacks_all_or_none(TensorOp op) { return op == RP_OP_GATE_UP || op == RP_OP_EXPERTS_DOWN; }

/* Whether source k of a step is copied, by its type alone: plans of one token and of many then want the same copies. */
static RpStatus choose(const RpExecutor *e, int step, int k, RepackChoice choice, bool *chosen) {
    const RpTensorView *w = &e->args[step].src[k];
    *chosen               = repackable(e, step, k) && (choice != COPY_CODEBOOKS || is_slow_to_read(w->dtype));
    return *chosen && choice != COPY_ALL ? rp_repack_try(longest_like(e, w), chosen) : RP_OK;
}

static RpStatus choose_step(const RpExecutor *e, int step, RepackChoice choice, bool chosen[RP_MAX_SRC]) {
    bool all = true;
    for (int k = 0; k < RP_MAX_SRC; k++) {
        RP_TRY(choose(e, step, k, choice, &chosen[k]));
        all = all && (chosen[k] || !repackable(e, step, k));
    }
    if (!all && repacks_all_or_none(e->plan->steps[step].op)) memset(chosen, 0, RP_MAX_SRC * sizeof *chosen);
    return RP_OK;
}

/* Puts each chosen weight into set->copies once. */
static RpStatus collect(const RpExecutor *e, RepackChoice choice, RepackSet *set) {
    set->copies = calloc((size_t)e->plan->n_steps * RP_MAX_SRC + 1, sizeof(RepackedCopy *));
    if (set->copies == NULL) return rp_fail(RP_E_NOMEM, "out of memory for repacked weights");
    for (int i = 0; i < e->plan->n_steps; i++) {
        bool chosen[RP_MAX_SRC];
        RP_TRY(choose_step(e, i, choice, chosen));
        for (int k = 0; k < RP_MAX_SRC; k++) {
            if (!chosen[k] || copy_of(set, &e->args[i].src[k]) != NULL) continue;
            RepackedCopy *c = find_or_add(&e->args[i].src[k]);
            if (c == NULL) return rp_fail(RP_E_NOMEM, "out of memory for repacked weights");
            set->copies[set->n++] = c;
            set->bytes += c->bytes;
        }
    }
    return RP_OK;
}

static size_t missing_bytes(const RepackSet *set) {
    size_t bytes = 0;
    for (int i = 0; i < set->n; i++) bytes += set->copies[i]->users == 0 ? set->copies[i]->bytes : 0;
    return bytes;
}

static RpStatus allocate(RepackSet *set) {
    const size_t bytes = missing_bytes(set);
    if (bytes == 0) return RP_OK;
    Slab *slab = calloc(1, sizeof *slab);
    char *data = slab != NULL ? rp_huge_alloc(bytes) : NULL;
    if (data == NULL) {
        free(slab);
        return rp_fail(RP_E_NOMEM, "%zu bytes for repacked weights could not be allocated", bytes);
    }
    slab->data = data;
    for (int i = 0; i < set->n; i++) {
        RepackedCopy *c = set->copies[i];
        if (c->users > 0) continue;
        c->to.data = data;
        c->slab    = slab;
        slab->copies++;
        data += c->bytes;
    }
    return RP_OK;
}

/* A worker's share of each missing copy. Each writes its pages first, so they lie near its core. */
static RpStatus fill(void *arg, int ith, int nth) {
    const RepackSet *set = arg;
    for (int i = 0; i < set->n; i++) {
        const RepackedCopy *c      = set->copies[i];
        const int64_t       groups = rp_view_rows(&c->from) / RP_REPACKED_ROWS;
        if (c->users == 0) rp_repack(&c->from, &c->to, groups * ith / nth, groups * (ith + 1) / nth);
    }
    return RP_OK;
}

/* Takes copies without users out of the list, and frees them. */
static void drop_unused(void) {
    for (RepackedCopy **at = &copies.first; *at != NULL;) {
        RepackedCopy *c = *at;
        if (c->users > 0) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        if (c->slab != NULL && --c->slab->copies == 0) {
            free(c->slab->data);
            free(c->slab);
        }
        free(c);
    }
}

/* The copy, the file and MARGIN fit in the memory that is free. Unknown memory counts as short, and so does an address
 * space with a limit (ulimit -v), of which other allocations need the rest. */
static bool fits(const RpExecutor *e, const RepackSet *set) {
    RpDeviceMemory memory;
    struct rlimit  space;
    if (missing_bytes(set) == 0) return true;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY) return false;
    if (rp_device_memory("cpu", false, &memory) != RP_OK) return false;
    return missing_bytes(set) + e->plan->memory.weights + MARGIN <= memory.free_bytes;
}

static RpStatus make(const RpExecutor *e, RepackChoice choice, ThreadPool *pool, RepackSet *set) {
    const double start = rp_seconds();
    RpStatus     st    = collect(e, choice, set);
    if (st == RP_OK && choice != COPY_ALL && !fits(e, set)) {
        set->n     = 0;
        set->bytes = 0;
    }
    if (st == RP_OK) st = allocate(set);
    if (st == RP_OK) st = rp_pool_run(pool, fill, set);
    for (int i = 0; i < set->n && st == RP_OK; i++) set->copies[i]->users++;
    if (st != RP_OK) set->n = 0;
    drop_unused();
    set->seconds = rp_seconds() - start;
    return st;
}

static RepackChoice choice_of(const char *text) {
    if (text == NULL || strcmp(text, "off") == 0) return COPY_NONE;
    if (strcmp(text, "codebook") == 0) return COPY_CODEBOOKS;
    return strcmp(text, "auto") == 0 ? COPY_GAINING : COPY_ALL;
}

RpStatus rp_repack_open(const RpExecutor *e, const char *choice, ThreadPool *pool, RepackSet *set) {
    const RepackChoice c = choice_of(choice);
    *set                 = (RepackSet){0};
    if (c == COPY_NONE || (c != COPY_ALL && !rp_cpu_repack_pays())) return RP_OK;
    pthread_mutex_lock(&copies.lock);
    const RpStatus st = make(e, c, pool, set);
    pthread_mutex_unlock(&copies.lock);
    return st;
}

void rp_repack_close(RepackSet *set) {
    pthread_mutex_lock(&copies.lock);
    for (int i = 0; i < set->n; i++) set->copies[i]->users--;
    drop_unused();
    pthread_mutex_unlock(&copies.lock);
    free(set->copies);
    *set = (RepackSet){0};
}

static void point_step(const RepackSet *set, RpExecutor *e, int step) {
    const RepackedCopy *found[RP_MAX_SRC] = {NULL};
    bool                all               = true;
    for (int k = 0; k < RP_MAX_SRC; k++) {
        if (!repackable(e, step, k)) continue;
        found[k] = copy_of(set, &e->args[step].src[k]);
        all      = all && found[k] != NULL;
    }
    if (!all && repacks_all_or_none(e->plan->steps[step].op)) return;
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (found[k] != NULL) e->args[step].src[k] = found[k]->to;
}

void rp_repack_point(const RepackSet *set, RpExecutor *e) {
    for (int i = 0; i < e->plan->n_steps && set->n > 0; i++) point_step(set, e, i);
}
