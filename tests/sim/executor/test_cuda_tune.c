/* Constants of the device that are measured (executor/cuda/tune.c), in simulated time: what is chosen, what noise does,
 * the cache, the limits of memory and time, failures. Results must have the same bits with every choice. */
#include "tests/support/case.h"
#include "tests/support/decoder.h"

#include "base/tuning.h"
#include "executor/cuda/tune.h"
#include "executor/cuda/tune_bench.h"
#include "sim/device/sim.h"

#include <dirent.h>
#include <sys/stat.h>

enum { L2 = 3 << 19, SMALL_L2 = 128 << 10, GRID, EARLY, OVERLAP, SPLIT, NEXT }; /* L2: of rows of 1024 elements */

static char cache[64];

/* A device that is measured, and an empty cache. */
static void start(SimCost *cost) {
    snprintf(cache, sizeof cache, "/tmp/reprise-test-XXXXXX");
    cr_assert_not_null(mkdtemp(cache));
    cr_assert_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    unsetenv("REPRISE_TUNE");
    sim_memory_bus(5120);
    sim_l2(L2);
    sim_capability(9, 0);
    sim_cost(cost, NULL);
}

static void finish(void) {
    char command[128];
    sim_cost(NULL, NULL);
    sim_memory_bus(0);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    cr_expect_eq(sim_stats().live_streams, 0L);
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    cr_assert_eq(system(command), 0);
}

static RpCudaTuningInfo info(void) {
    RpCudaTuningInfo out;
    OK(rp_cuda_tuning_info(0, &out));
    cr_assert_eq(out.n_constants, 5);
    return out;
}

static const RpTunedConstant *constant(const RpCudaTuningInfo *of, int which) {
    static const char *const names[] = {"grid_percent", "early_bytes", "overlap_blocks", "split_tokens", "next_bytes"};
    cr_assert_str_eq(of->constants[which - GRID].name, names[which - GRID]);
    return &of->constants[which - GRID];
}

static void expect_values(const RpCudaTuningInfo *of, int grid, int early, int overlap, int split, int next) {
    const int want[] = {grid, early, overlap, split, next};
    for (int i = 0; i < 5; i++)
        cr_expect_eq(constant(of, GRID + i)->value, want[i], "%s is %d", of->constants[i].name, of->constants[i].value);
}

static void expect_model(const RpCudaTuningInfo *of) {
    expect_values(of, RP_TUNING_GRID, RP_TUNING_EARLY, RP_TUNING_OVERLAP, RP_TUNING_SPLIT_TOKENS, 0);
}

static bool is(const SimKernelRun *run, const char *kernel) { return strstr(run->kernel, kernel) != NULL; }

/* The member `early` of the kernel's ColumnGrid, which follows {blocks, turns, rest}. */
static int early_of(const SimKernelRun *run) {
    const int *words = run->argument;
    for (size_t i = 0; i + 4 <= run->bytes / sizeof *words; i++)
        if (words[i] == (int)run->blocks && words[i + 1] >= 1 && words[i + 1] < 100 && words[i + 2] >= 0 &&
            words[i + 2] < (int)run->blocks && words[i + 3] >= 0 && i % 2 == 1)
            return words[i + 3];
    cr_assert(false, "%s has no grid", run->kernel);
    return -1;
}

/* Bytes that attention prefetches: the last member of its argument has them. */
static int64_t next_bytes(const SimKernelRun *run) {
    RpNextWeights next;
    int64_t       bytes = 0;
    memcpy(&next, (const char *)run->argument + run->bytes - sizeof next, sizeof next);
    for (int i = 0; i < next.n; i++) bytes += next.bytes[i];
    return bytes;
}

/* ---- the choice ---- */

static double flat(const SimKernelRun *run, void *user) { return (void)run, (void)user, 10.0; }

/* Each constant has one best value, which is not the model's: 128 blocks of gate_up (50 %), no bytes before the wait,
 * the output matrix (1024 blocks) not early, splits for 16 tokens of attention, not for 64, and 8 MB
 * behind attention, which are more than the weights there. */
static double others_are_better(const SimKernelRun *run, void *user) {
    (void)user;
    double us = 10.0;
    if (is(run, "gate_up")) us += run->blocks == 128 ? 0.0 : 5.0;
    if (is(run, "gate_up")) us += early_of(run) == 0 ? 0.0 : 5.0;
    if (is(run, "attention_kernel")) us += next_bytes(run) > 0 ? 0.0 : 5.0;
    if (is(run, "mul_mat")) us += run->pdl ? 5.0 : 0.0;
    if (!is(run, "mul_mat")) us += run->pdl ? 0.0 : 5.0;
    if (is(run, "prefill")) us += run->blocks == 8 ? 0.0 : 5.0; /* 16 tokens: 2 or 8 blocks, 64 tokens: 8 or 32 */
    return us;
}

Test(tune, the_fastest_candidate_is_chosen) {
    start(others_are_better);
    const RpCudaTuningInfo t = info();
    cr_expect_eq(t.origin, RP_TUNING_MEASURED);
    cr_expect_eq(strncmp(t.text, "measured in ", 12), 0, "%s", t.text);
    cr_expect_null(strstr(t.text, "cache"), "%s", t.text);
    expect_values(&t, 50, 0, 4, 16, 8 << 20);
    const RpTunedConstant *grid = constant(&t, GRID);
    cr_expect_eq(grid->n_candidates, 4);
    for (int k = 0; k < 4; k++) /* two layers; the kernels of a run, without what is measured later */
        cr_expect_float_eq(grid->us[k], 80.0 + 10.0 + 5.0 + (grid->candidates[k] == 50 ? 0.0 : 10.0), 0.01, "%d: %g",
                           grid->candidates[k], grid->us[k]);
    finish();
}

Test(tune, equal_times_keep_the_model) {
    start(flat);
    const RpCudaTuningInfo t = info();
    cr_expect_eq(t.origin, RP_TUNING_MEASURED);
    expect_model(&t);
    for (int i = GRID; i <= NEXT; i++) cr_expect_geq(constant(&t, i)->n_candidates, 3, CASE(i));
    finish();
}

/* A gain of 2.5 % of the time counts, one of 1.5 % does not; nor does one that is smaller than the noise. */
static double gain_us, noise_us;
static int    n_runs;
static double small_gain(const SimKernelRun *run, void *user) {
    (void)user;
    if (is(run, "prefill")) return 10.0;
    const double noise = is(run, "mul_mat") && n_runs++ / 4 % 3 > 0 ? noise_us : 0.0;
    return 10.0 + noise - (is(run, "gate_up") && run->blocks == 128 ? gain_us / 2.0 : 0.0);
}

Test(tune, a_gain_within_the_noise_keeps_the_model) {
    static const struct {
        double gain, noise;
        int    value;
    } cases[] = {
        {2.0, 0.0, 50 }, /* of 80 us */
        {1.2, 0.0, 100},
        {4.0, 6.0, 100},
        {9.0, 6.0, 50 }
    };
    start(small_gain);
    cr_assert_eq(setenv("REPRISE_TUNE", "force", 1), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gain_us                  = cases[i].gain;
        noise_us                 = cases[i].noise;
        const RpCudaTuningInfo t = info();
        cr_expect_eq(constant(&t, GRID)->value, cases[i].value, "gain %g, noise %g: %d", gain_us, noise_us,
                     constant(&t, GRID)->value);
    }
    finish();
}

Test(tune, constants_without_effect_are_not_measured) {
    start(others_are_better);
    sim_capability(8, 9); /* no programmatic dependent launch */
    const RpCudaTuningInfo t = info();
    cr_expect_eq(constant(&t, GRID)->value, 50);
    for (int i = EARLY; i <= OVERLAP; i++) {
        cr_expect_eq(constant(&t, i)->n_candidates, 0, CASE(i));
        cr_expect_eq(constant(&t, i)->value, constant(&t, i)->model, CASE(i));
    }
    sim_capability(9, 0);
    sim_kernel_code("gate_up", 80, 90); /* nor with one kernel of older code */
    cr_assert_eq(setenv("REPRISE_TUNE", "force", 1), 0);
    const RpCudaTuningInfo older = info();
    cr_expect_eq(constant(&older, EARLY)->n_candidates, 0);
    sim_kernel_code("gate_up", 90, 90);
    const RpCudaTuningInfo newer = info();
    cr_expect_eq(constant(&newer, EARLY)->n_candidates, 4);
    finish();
}

/* A device that runs kernels slower if they overlap: none is captured so. */
static double overlap_is_slower(const SimKernelRun *run, void *user) { return (void)user, run->pdl ? 12.0 : 10.0; }

Test(tune, overlap_can_be_found_to_be_slower) {
    start(overlap_is_slower);
    const RpCudaTuningInfo t = info();
    cr_expect_eq(constant(&t, OVERLAP)->value, 0);
    sim_cost(NULL, NULL);
    RpModel *m = golden_open_tiny("llama-q4_0");
    sim_stats_reset();
    Decoder d = decoder_open(m, RP_MODE_REPLAY, false); /* from the cache */
    cr_expect_eq(sim_stats().pdl_launches, 0ul);
    cr_expect_str_eq(rp_executor_info(d.exec).tuning, "from the cache");
    cr_expect_str_eq(rp_executor_info(d.exec).overlap, "slower on this device (REPRISE_TUNE)");
    decoder_close(&d);
    rp_model_free(m);
    finish();
}

/* ---- the option ---- */

Test(tune, the_option_decides) {
    start(others_are_better);
    cr_assert_eq(setenv("REPRISE_TUNE", "off", 1), 0);
    sim_stats_reset();
    RpCudaTuningInfo t = info();
    cr_expect_eq(t.origin, RP_TUNING_MODEL);
    cr_expect_str_eq(t.text, "model: REPRISE_TUNE=off");
    expect_model(&t);
    cr_expect_eq(sim_stats().kernels, 0ul);
    cr_assert_eq(setenv("REPRISE_TUNE", "on", 1), 0);
    REFUSED(rp_cuda_tuning_info(0, &t), RP_E_ARG, "REPRISE_TUNE 'on': must be auto, off or force");
    unsetenv("REPRISE_TUNE");
    sim_memory_bus(0);
    t = info();
    cr_expect_eq(t.origin, RP_TUNING_MODEL);
    cr_expect_not_null(strstr(t.text, "it is simulated"), "%s", t.text);
    cr_expect_eq(sim_stats().kernels, 0ul);
    cr_assert_eq(setenv("REPRISE_TUNE", "force", 1), 0);
    for (int i = 0; i < 2; i++) { /* measures each time */
        sim_stats_reset();
        t = info();
        cr_expect_eq(t.origin, RP_TUNING_MEASURED, CASE(i));
        cr_expect_gt(sim_stats().kernels, 100ul, CASE(i));
    }
    finish();
}

/* ---- the cache ---- */

/* The path of the only entry. */
static const char *entry(void) {
    static char path[400];
    char        folder[100];
    snprintf(folder, sizeof folder, "%s/reprise", cache);
    DIR *d  = opendir(folder);
    path[0] = '\0';
    for (struct dirent *f; d != NULL && (f = readdir(d)) != NULL;)
        if (f->d_name[0] != '.') {
            cr_assert_str_eq(path, "", "two entries");
            snprintf(path, sizeof path, "%s/%.200s", folder, f->d_name);
        }
    if (d != NULL) closedir(d);
    return path;
}

static RpCudaTuningInfo expect_cached(void) {
    sim_stats_reset();
    const RpCudaTuningInfo t = info();
    cr_expect_eq(t.origin, RP_TUNING_CACHED);
    cr_expect_str_eq(t.text, "from the cache");
    cr_expect_eq(sim_stats().kernels, 0ul);
    expect_values(&t, 50, 0, 4, 16, 8 << 20);
    return t;
}

Test(tune, is_measured_once) {
    start(others_are_better);
    const RpCudaTuningInfo first = info(), second = expect_cached();
    for (int i = 0; i < first.n_constants; i++) {
        cr_expect_eq(second.constants[i].n_candidates, first.constants[i].n_candidates, CASE(i));
        for (int k = 0; k < first.constants[i].n_candidates; k++) {
            cr_expect_eq(second.constants[i].candidates[k], first.constants[i].candidates[k], CASE(i, k));
            cr_expect_eq(second.constants[i].us[k], first.constants[i].us[k], CASE(i, k));
        }
    }
    sim_driver(13010, 1); /* another driver: other times */
    cr_expect_eq(info().origin, RP_TUNING_MEASURED);
    finish();
}

Test(tune, a_corrupt_cache_is_named_and_replaced) {
    start(others_are_better);
    (void)info();
    for (long at = 8; at < 200; at += 60) {
        FILE *f = fopen(entry(), "r+b");
        cr_assert(f != NULL && fseek(f, at, SEEK_SET) == 0 && fputc(0x5a, f) == 0x5a && fclose(f) == 0, CASE(at));
        const RpCudaTuningInfo t = info();
        cr_expect_not_null(strstr(t.text, "; cache: "), "%s", t.text);
        cr_expect_not_null(strstr(t.text, entry()), "%s", t.text);
        expect_values(&t, 50, 0, 4, 16, 8 << 20);
        expect_cached();
    }
    finish();
}

/* Without a cache a process still measures once. */
Test(tune, a_cache_that_cannot_be_used_is_named) {
    start(others_are_better);
    cr_assert_eq(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
    for (int i = 0; i < 2; i++) {
        sim_stats_reset();
        const RpCudaTuningInfo t = info();
        cr_expect_eq(t.origin, RP_TUNING_MEASURED, CASE(i));
        cr_expect_not_null(strstr(t.text, "; cache: /proc/nowhere"), "%s", t.text);
        expect_values(&t, 50, 0, 4, 16, 8 << 20);
        cr_expect_eq(sim_stats().kernels == 0ul, i == 1, CASE(i));
    }
    finish();
}

/* ---- limits and failures ---- */

Test(tune, what_cannot_be_measured_keeps_the_model) {
    static const struct {
        size_t      l2, memory;
        const char *why;
    } cases[] = {
        {0,         0,        "no weights of a size that an L2 cache of 0 bytes does not hold"        },
        {200 << 20, 0,        "no weights of a size that an L2 cache of 209715200 bytes does not hold"},
        {L2,        32 << 20, "twice as many must be free: there are 32"                              },
    };
    start(others_are_better);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sim_l2(cases[i].l2);
        sim_device_memory(cases[i].memory);
        const RpCudaTuningInfo t = info();
        cr_expect_eq(t.origin, RP_TUNING_MODEL, CASE(i));
        cr_expect_not_null(strstr(t.text, cases[i].why), "%s", t.text);
        expect_model(&t);
    }
    cr_expect_str_eq(entry(), "");
    finish();
}

Test(tune, a_failed_call_keeps_the_model) {
    static const char *const calls[] = {
        "cudaMalloc",      "cudaMemsetAsync", "cudaFuncGetAttributes", "cudaStreamBeginCapture", "cudaGraphInstantiate",
        "cudaGraphLaunch", "cudaEventRecord", "cudaStreamSynchronize", "cudaEventElapsedTime"};
    start(others_are_better);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim_fail(calls[i], 1, cudaErrorInvalidValue);
        const RpCudaTuningInfo t = info();
        cr_expect_eq(sim_fails_left(), 0u, "%s", calls[i]);
        cr_expect_eq(t.origin, RP_TUNING_MODEL, CASE(i));
        cr_expect_not_null(strstr(t.text, "model: not measured: cuda:0"), "%s: %s", calls[i], t.text);
        expect_model(&t);
        sim_reset_faults();
        cr_expect_eq(sim_stats().live_allocs, 0L, "%s", calls[i]);
    }
    cr_expect_str_eq(entry(), "");
    sim_fault(40, cudaErrorIllegalAddress);
    RpCudaTuningInfo t;
    REFUSED(rp_cuda_tuning_info(0, &t), RP_E_CUDA, "cuda:0: measurement of its constants");
    sim_reset_faults();
    finish();
}

static CudaDevice *open_unmeasured(void) {
    CudaDevice *d;
    cr_assert_eq(setenv("REPRISE_TUNE", "off", 1), 0);
    OK(rp_cuda_device_open(0, &d));
    return d;
}

/* Each kernel takes a millisecond; the host notices those of gate_up. */
static double slow(const SimKernelRun *run, void *user) {
    (void)user;
    if (is(run, "gate_up")) usleep(1000);
    return 1000.0;
}

Test(tune, the_time_is_bounded) {
    enum { ALL_ROUNDS = 10 * 4 * 4 * 8 }; /* rounds, candidates, runs, kernels: of the first constant */
    start(others_are_better);
    CudaDevice *d = open_unmeasured();
    bool        stopped;
    sim_stats_reset();
    OK(rp_cuda_tune_measure(d, L2, 0.0, &stopped));
    cr_expect(stopped);
    expect_model(&d->tuned);
    cr_expect_eq(sim_stats().kernels, 0ul);
    sim_cost(slow, NULL);
    OK(rp_cuda_tune_measure(d, L2, 0.15, &stopped));
    cr_expect(stopped);
    cr_expect_lt(sim_stats().kernels, (unsigned long)ALL_ROUNDS);
    sim_cost(others_are_better, NULL);
    OK(rp_cuda_tune_measure(d, L2, 1e9, &stopped));
    cr_expect(!stopped);
    cr_expect_eq(d->tuning.grid_percent, 50);
    cr_expect_eq(d->tuning.split_tokens, 16);
    rp_cuda_device_close(d);
    finish();
}

/* The other tests do not execute the kernels. */
Test(tune, the_measured_kernels_run) {
    start(NULL);
    CudaDevice     *d = open_unmeasured();
    TuneBench       b;
    cudaGraphExec_t graph;
    OK(rp_tune_bench_open(d, SMALL_L2, TUNE_TOKENS, true, &b));
    cr_expect_eq(b.n, 256);
    for (int chain = 0; chain < TUNE_CHAINS; chain++) {
        sim_stats_reset();
        OK(rp_tune_bench_record(&b, (TuneChain)chain, &d->tuning, &graph));
        cr_expect_eq(sim_stats().pdl_launches, (unsigned long)b.n_steps[chain], CASE(chain));
        cr_expect_eq(cudaGraphLaunch(graph, d->stream), cudaSuccess, CASE(chain));
        cr_expect_eq(cudaStreamSynchronize(d->stream), cudaSuccess, CASE(chain));
        cr_expect_eq(sim_stats().kernels, (unsigned long)b.n_steps[chain], CASE(chain));
        cr_expect_eq(cudaGraphExecDestroy(graph), cudaSuccess, CASE(chain));
    }
    rp_tune_bench_close(&b);
    rp_cuda_device_close(d);
    finish();
}

/* ---- bits ---- */

enum { N_TOKENS = 3 };

/* Every constant at its last candidate, or the model's. */
static void logits(const char *model, bool tuned, float (*out)[DECODER_VOCAB]) {
    cr_assert_eq(setenv("REPRISE_TUNE", tuned ? "force" : "off", 1), 0);
    sim_cost(others_are_better, NULL);
    RpModel *m = golden_open_tiny(model);
    Decoder  d = decoder_open(m, RP_MODE_REPLAY, false);
    sim_cost(NULL, NULL);
    sim_stats_reset();
    cr_expect_eq(strncmp(rp_executor_info(d.exec).tuning, tuned ? "measured" : "model", 5), 0, "%s",
                 rp_executor_info(d.exec).tuning);
    for (int i = 0; i < N_TOKENS; i++) memcpy(out[i], decoder_run(&d, 3 + i, i), d.n_vocab * sizeof(float));
    cr_expect_eq(sim_stats().prefetched_bytes > 0, tuned, "%lu bytes", sim_stats().prefetched_bytes);
    decoder_close(&d);
    rp_model_free(m);
}

Test(tune, results_have_the_same_bits) {
    static const char *const models[] = {"llama-q4_0", "qwen3moe-mix"};
    static float             model[N_TOKENS][DECODER_VOCAB], tuned[N_TOKENS][DECODER_VOCAB];
    start(others_are_better);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        logits(models[i], false, model);
        logits(models[i], true, tuned);
        cr_expect_arr_eq(model, tuned, sizeof model, "%s", models[i]);
    }
    finish();
}
