/* Decode kernels that NVRTC compiles for the constants of their launches.
 *
 *     open     walk the plan; each launch of one of the library's kernels is cut into 8-byte words
 *
 *                  argument   [ data | dtype | ne[0] | ne[1] | ... ]
 *                  words      address  0xc     4096    4096           a word is an address if it points into memory of
 *                                                                     the executor; every other word is a constant
 *              launches that differ in addresses only share one kernel (SpecialKernel), so equal layers do
 *              -> text (special_text.c) -> compile.c, with its cache -> load -> checks
 *     launch   the kernel whose words fit takes the place of the shipped one; its argument is the list of addresses
 *
 * A launch is compared word by word each time, also when nodes get new addresses. With any other constant it takes the
 * shipped kernel, so constants are never out of date. A word that is no address but looks like one is passed as one:
 * that costs a register and no more. An address that is missed is a constant, and a launch with another address takes
 * the shipped kernel. After any failure the shipped kernel is launched, and info.kernels has the reason (I10). */
#include "executor/cuda/special.h"

#include "base/clock.h"
#include "base/launch.h"
#include "base/op_table.h"
#include "executor/cuda/compile.h"
#include "reprise/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A plan has 5 to 15 kernels, which take 0.5 to 2 seconds of a core each. Kernels whose compilation has not begun by
 * then run as shipped. */
double rp_special_seconds = 60.0;

/* ---- launches ---- */

bool rp_special_cut(const RpKernelLaunch *l, uint64_t words[SPECIAL_MAX_WORDS], unsigned *n_words) {
    unsigned n = 0;
    for (int i = 0; i < l->instance->n_arguments; i++) {
        const size_t   bytes = l->instance->argument_bytes[i];
        const unsigned count = rp_special_words(bytes);
        if (n + count > SPECIAL_MAX_WORDS) return false;
        words[n + count - 1] = 0;
        memcpy(&words[n], l->arguments[i], bytes);
        n += count;
    }
    *n_words = n;
    return true;
}

static bool fits(const SpecialKernel *k, const RpKernelLaunch *l, const uint64_t *words, unsigned n_words) {
    if (k->shipped != l->function || k->n_words != n_words || k->shared_bytes != l->shared_bytes ||
        memcmp(k->grid, l->grid, sizeof k->grid) != 0 || memcmp(k->block, l->block, sizeof k->block) != 0)
        return false;
    for (unsigned i = 0; i < n_words; i++)
        if (!k->is_address[i] && k->words[i] != words[i]) return false;
    return true;
}

static const SpecialKernel *find(const CudaDevice *d, const RpKernelLaunch *l, const uint64_t *words,
                                 unsigned n_words) {
    for (int i = 0; i < d->n_specials; i++)
        if (fits(&d->specials[i], l, words, n_words)) return &d->specials[i];
    return NULL;
}

const RpKernelLaunch *rp_cuda_special(CudaExecutor *c, const RpKernelLaunch *l, SpecialLaunch *s) {
    uint64_t words[SPECIAL_MAX_WORDS];
    unsigned n, n_addresses = 0;
    if (!c->special || l->instance == NULL || !rp_special_cut(l, words, &n)) return l;
    const SpecialKernel *k = find(c->device, l, words, n);
    c->special_missed += k == NULL;
    if (k == NULL || k->function == NULL) return l;
    for (unsigned i = 0; i < n; i++)
        if (k->is_address[i]) s->addresses[n_addresses++] = words[i];
    s->addresses[n_addresses] = 0; /* C has no struct without members: there is one address at least */
    s->launch                 = *l;
    s->launch.function        = k->function;
    s->launch.arguments       = s->arguments;
    s->arguments[0]           = s->addresses;
    s->arguments[1]           = NULL;
    return &s->launch;
}

static RpStatus launch(CudaExecutor *c, const RpKernelLaunch *l, bool overlap) {
    SpecialLaunch s;
    if (l->enqueue != NULL) return l->enqueue(l->arg, c->device->stream);
    const RpKernelLaunch *chosen = rp_cuda_special(c, l, &s);
    const cudaError_t     e      = rp_cuda_launch(chosen, c->device->stream, overlap, c->device->tuning);
    if (e == cudaSuccess) return RP_OK;
    return rp_fail(RP_E_CUDA, "%s%s: launch of %ux%ux%u blocks of %ux%ux%u threads: %s", rp_cuda_whence(e), l->name,
                   l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], cudaGetErrorString(e));
}

RpStatus rp_cuda_special_now(void *user, const RpKernelLaunch *l) { return launch(user, l, false); }

RpStatus rp_cuda_special_in_loop(void *user, const RpKernelLaunch *l) {
    CudaExecutor *c = user;
    return launch(c, l, c->pdl);
}

/* ---- collecting ---- */

/* The kernels of a plan that are to be compiled: entry i of `added` is device->specials[first + i]. */
typedef struct Added {
    char       *text;
    char        file[64];
    RpStatus    status; /* of making it */
    TensorOp    op;
    const char *name;
} Added;

typedef struct Collector {
    CudaExecutor *c;
    Added        *added;
    CompileJob   *jobs;
    int           first, n, step, n_known;
    char          reason[256]; /* of the first kernel that is launched as shipped */
    int           n_shipped;
    bool          cancelled;
} Collector;

/* The address just past the end of the memory counts too, because a view without elements may begin there. */
static bool within(uint64_t word, const void *memory, size_t bytes) {
    const uint64_t at = (uint64_t)(uintptr_t)memory;
    return memory != NULL && word >= at && word - at <= bytes;
}

static bool is_address(const CudaExecutor *c, uint64_t word) {
    const RpExecutor *e = &c->base;
    const CudaDevice *d = c->device;
    if (within(word, e->arena, e->plan->memory.arena) || within(word, c->scratch, c->scratch_bytes)) return true;
    for (int i = 0; i < e->plan->n_states; i++)
        if (within(word, e->states[i], e->plan->states[i].bytes)) return true;
    for (int i = 0; i < d->n_weights; i++)
        if (within(word, d->weights[i].device, d->weights[i].bytes)) return true;
    return false;
}

/* Bytes between the members of an argument keep what the host's stack had there, often the upper half of one of its
 * pointers. Such a word differs from open to open, so it is passed as an address is. */
static bool is_stale(uint64_t word) {
    static char stored;
    char        local;
    void       *heap  = malloc(1);
    const bool  stale = word >> 32 != 0 && (word >> 32 == (uint64_t)(uintptr_t)&local >> 32 ||
                                           word >> 32 == (uint64_t)(uintptr_t)&stored >> 32 ||
                                           word >> 32 == (uint64_t)(uintptr_t)heap >> 32);
    free(heap);
    return stale;
}

static void note(Collector *t, const char *why) {
    t->n_shipped++;
    if (t->reason[0] == '\0') snprintf(t->reason, sizeof t->reason, "%.*s", (int)strcspn(why, "\n"), why);
}

/* Asks for at least as many resident blocks as the shipped kernel has, which limits the registers to those of that
 * kernel. */
static int blocks_of(const RpKernelLaunch *l) {
    int n = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, l->function, (int)(l->block[0] * l->block[1] * l->block[2]),
                                                      l->shared_bytes) != cudaSuccess)
        (void)cudaGetLastError();
    return n > 0 ? n : 1;
}

static RpStatus grow(Collector *t) {
    CudaDevice    *d       = t->c->device;
    SpecialKernel *kernels = realloc(d->specials, (size_t)(d->n_specials + 1) * sizeof *kernels);
    if (kernels != NULL) d->specials = kernels;
    Added *added = realloc(t->added, (size_t)(t->n + 1) * sizeof *added);
    if (added != NULL) t->added = added;
    return kernels != NULL && added != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a kernel");
}

static RpStatus add(Collector *t, const RpKernelLaunch *l, const uint64_t *words, unsigned n_words) {
    CudaDevice    *d  = t->c->device;
    const TensorOp op = t->c->base.plan->steps[t->step].op;
    SpecialKernel  k  = {.shipped = l->function, .shared_bytes = l->shared_bytes, .n_words = n_words};
    RP_TRY(grow(t));
    memcpy(k.grid, l->grid, sizeof k.grid);
    memcpy(k.block, l->block, sizeof k.block);
    k.words      = malloc(n_words * sizeof *k.words);
    k.is_address = malloc(n_words * sizeof *k.is_address);
    if (k.words == NULL || k.is_address == NULL) {
        free(k.words);
        free(k.is_address);
        return rp_fail(RP_E_NOMEM, "out of memory for a kernel");
    }
    memcpy(k.words, words, n_words * sizeof *k.words);
    for (unsigned i = 0; i < n_words; i++) k.is_address[i] = is_address(t->c, words[i]) || is_stale(words[i]);
    d->specials[d->n_specials++] = k;
    Added *a                     = &t->added[t->n++];
    *a                           = (Added){.op = op, .name = l->name};
    a->status = rp_special_text(&k, rp_op_info(op)->name, l->instance, blocks_of(l), &a->text, a->file);
    if (a->status != RP_OK) note(t, rp_last_error());
    return RP_OK;
}

static RpStatus collect(void *user, const RpKernelLaunch *l) {
    Collector *t = user;
    uint64_t   words[SPECIAL_MAX_WORDS];
    unsigned   n;
    if (l->enqueue != NULL || l->instance == NULL || !rp_special_cut(l, words, &n)) return RP_OK;
    return find(t->c->device, l, words, n) != NULL ? RP_OK : add(t, l, words, n);
}

static RpStatus next_step(void *user, RpStatus status, bool last_phase) {
    Collector *t = user;
    t->step += last_phase;
    return status;
}

/* ---- compiling and loading ---- */

static const char *const options[] = {"--device-as-default-execution-space", "--diag-suppress=177,20044"};

CudaCode rp_special_code(const char *owner, const char *file, const char *text) {
    return (CudaCode){.owner     = owner,
                      .file      = file,
                      .prelude   = "",
                      .text      = text,
                      .kernel    = SPECIAL_ENTRY,
                      .options   = options,
                      .n_options = sizeof options / sizeof options[0],
                      .complete  = true};
}

/* The kernel may not be worse than the shipped one: no more local memory, the same code of PDL, the launch allowed. */
static RpStatus check_kernel(CudaDevice *d, const SpecialKernel *k, const Added *a) {
    struct cudaFuncAttributes old, new;
    const char               *op = rp_op_info(a->op)->name;
    RP_TRY(rp_cuda_check(d, cudaFuncGetAttributes(&old, k->shipped), "attributes of a kernel"));
    RP_TRY(rp_cuda_check(d, cudaFuncGetAttributes(&new, k->function), "attributes of a specialised kernel"));
    const int code     = new.ptxVersion < new.binaryVersion ? new.ptxVersion : new.binaryVersion;
    const int old_code = old.ptxVersion < old.binaryVersion ? old.ptxVersion : old.binaryVersion;
    if (code < old_code && code < 10 * CUDA_PDL_MAJOR)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: NVRTC compiles for %d.%d only", op, code / 10, code % 10);
    if (new.localSizeBytes > old.localSizeBytes)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: %zu bytes of local memory", op, new.localSizeBytes);
    if (k->block[0] * k->block[1] * k->block[2] > (unsigned)new.maxThreadsPerBlock)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: its registers allow %d threads", op, new.maxThreadsPerBlock);
    return rp_cuda_check(d, rp_cuda_allow_shared(k->function, k->shared_bytes),
                         "shared memory of a specialised kernel");
}

static RpStatus load_and_check(CudaDevice *d, SpecialKernel *k, const CudaBinary *b, const Added *a) {
    if (strstr(b->ptx, "__local_depot") != NULL)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: indexes its arguments, which are constants", a->file);
    struct CUlib_st  *library;
    const void       *function;
    const cudaError_t e = rp_cuda_library_load(b, &library, &function);
    RP_TRY(rp_cuda_check(d, e, "loading of a specialised kernel"));
    k->library  = library;
    k->function = function;
    return check_kernel(d, k, a);
}

static void load(Collector *t, SpecialKernel *k, const CudaBinary *b, const Added *a) {
    if (load_and_check(t->c->device, k, b, a) == RP_OK) return;
    note(t, rp_last_error());
    if (k->library != NULL) rp_cuda_library_unload(k->library);
    k->library  = NULL;
    k->function = NULL;
}

/* Appends a clause to info.kernels. */
__attribute__((format(printf, 2, 3))) static void say(CudaExecutor *c, const char *format, ...) {
    const size_t room = sizeof c->kernels_text;
    size_t       n    = strlen(c->kernels_text);
    va_list      ap;
    if (n > 0) n += (size_t)snprintf(c->kernels_text + n, room - n, "; ");
    if (n >= room) return;
    va_start(ap, format);
    vsnprintf(c->kernels_text + n, room - n, format, ap);
    va_end(ap);
}

/* As "NVRTC 13.0, sm_90: 9 kernels specialised, 7 compiled in 8.1 s, 2 from the cache". */
static void describe(Collector *t, const char *nvrtc, CudaTarget target, int n_jobs, double compiled_s) {
    int         cached = 0, compiled = 0;
    const char *cache = "";
    for (int i = 0; i < n_jobs; i++) {
        cached += t->jobs[i].cached;
        compiled += !t->jobs[i].cached && t->jobs[i].status == RP_OK;
        if (cache[0] == '\0') cache = t->jobs[i].cache;
    }
    say(t->c, "%s, %s_%d: %d kernels specialised, %d compiled in %.1f s, %d from the cache%s%.100s%s%.160s", nvrtc,
        target.is_virtual ? "compute" : "sm", target.architecture, t->n - t->n_shipped, compiled,
        compiled > 0 ? compiled_s : 0.0, cached, cache[0] != '\0' ? "; cache: " : "", cache,
        t->reason[0] != '\0' ? "; as shipped: " : "", t->reason);
}

static RpStatus compile(Collector *t, const RpNvrtc *n) {
    CudaTarget         target;
    CudaDevice        *d     = t->c->device;
    CompileJob        *jobs  = t->jobs;
    const CompileWatch watch = {.progress = t->c->progress, .user = t->c->progress_user, .limit_s = rp_special_seconds};
    int                used = 0, *of = malloc((size_t)t->n * sizeof *of);
    if (of == NULL) return rp_fail(RP_E_NOMEM, "out of memory to compile %d kernels", t->n);
    const RpStatus st = rp_nvrtc_target(n, d->major, d->minor, &target);
    for (int i = 0; i < t->n && st == RP_OK; i++) {
        Added *a = &t->added[i];
        if (a->text == NULL) continue;
        of[used]          = i;
        jobs[used++].code = rp_special_code(rp_op_info(a->op)->name, a->file, a->text);
    }
    const double begin = rp_seconds();
    if (st == RP_OK) t->cancelled = !rp_compile_all(n, target, jobs, used, &watch);
    const double took = rp_seconds() - begin;
    for (int i = 0; i < used && !d->failed; i++) {
        if (jobs[i].status != RP_OK)
            note(t, jobs[i].error);
        else
            load(t, &d->specials[t->first + of[i]], &jobs[i].binary, &t->added[of[i]]);
    }
    if (st == RP_OK) describe(t, rp_nvrtc_name(n), target, used, took);
    free(of);
    return st;
}

static RpStatus compile_added(Collector *t) {
    RpNvrtc          *nvrtc;
    const cudaError_t e = rp_cuda_library_probe(); /* nothing is compiled that could not be loaded */
    if (e == cudaErrorNotSupported || e == cudaErrorCallRequiresNewerDriver)
        return rp_fail(RP_E_NOT_AVAILABLE, "loading of kernels at run time: %s", cudaGetErrorString(e));
    t->jobs = calloc((size_t)t->n, sizeof *t->jobs);
    if (t->jobs == NULL) return rp_fail(RP_E_NOMEM, "out of memory to compile %d kernels", t->n);
    RpStatus st = rp_compiler_open(&nvrtc);
    if (st == RP_OK) st = compile(t, nvrtc);
    rp_nvrtc_close(nvrtc);
    return st;
}

static RpStatus specialise(Collector *t) {
    CudaExecutor *c   = t->c;
    RpKernelCtx   ctx = rp_cuda_ctx(c, collect, t);
    RP_TRY(rp_plan_walk(c->base.plan, c->base.args, NULL, &rp_cuda_table, &ctx, next_step, t));
    return t->n > 0 ? compile_added(t) : RP_OK;
}

static void collector_free(Collector *t) {
    for (int i = 0; i < t->n; i++) {
        free(t->added[i].text);
        if (t->jobs != NULL) rp_cuda_binary_free(&t->jobs[i].binary);
    }
    free(t->added);
    free(t->jobs);
}

RpStatus rp_cuda_specials_open(CudaExecutor *c) {
    const char *value = rp_option(RP_OPT_SPECIALIZE);
    Collector   t     = {.c = c, .first = c->device->n_specials};
    const bool  force = strcmp(value, "force") == 0;
    if (!force && strcmp(value, "auto") != 0 && strcmp(value, "off") != 0)
        return rp_fail(RP_E_ARG, "%s '%s': must be auto, off or force", rp_option_name(RP_OPT_SPECIALIZE), value);
    if (strcmp(value, "off") == 0 || c->base.step == NULL) return RP_OK;
    if (!force && c->device->simulated) {
        say(c, "no kernel specialised: " CUDA_SIMULATED, c->device->name);
        return RP_OK;
    }
    const RpStatus st = specialise(&t);
    if (st != RP_OK) say(c, "no kernel specialised: %.300s", rp_last_error());
    collector_free(&t);
    if (c->device->failed) return rp_fail(RP_E_CUDA, "%s: %s", c->device->id, c->device->failure);
    if (t.cancelled) return rp_fail(RP_E_CANCELLED, "cancelled while kernels were compiled");
    c->special = st == RP_OK;
    return st == RP_E_CUDA || st == RP_OK || st == RP_E_NOMEM || st == RP_E_NOT_AVAILABLE ? RP_OK : st;
}

void rp_cuda_specials_check(CudaExecutor *c) {
    if (c->special_missed > 0)
        say(c, "%d captured launches have other constants, and are as shipped", c->special_missed);
}

void rp_cuda_specials_close(CudaDevice *d) {
    for (int i = 0; i < d->n_specials; i++) {
        if (d->specials[i].library != NULL) rp_cuda_library_unload(d->specials[i].library);
        free(d->specials[i].words);
        free(d->specials[i].is_address);
    }
    free(d->specials);
    d->specials   = NULL;
    d->n_specials = 0;
}
