/* Programmatic dependent launch (PDL) in captured plans: when it is used, and the fallback if the driver
 * refuses it. Logits must be the same bits with and without. The simulated device itself checks that every
 * kernel waits for the earlier ones. */
#include "tests/support/case.h"
#include "tests/support/decoder.h"

#include "sim/device/sim.h"

enum { N_TOKENS = 3 };

typedef struct Run {
    float         logits[N_TOKENS][DECODER_VOCAB];
    unsigned long pdl_launches, kernels; /* PDL launches recorded at open; kernels of a run */
    RpExecMode    mode;
    char          overlap[320], reason[256];
} Run;

static Run run(RpExecMode mode) {
    Run      r = {0};
    RpModel *m = golden_open_tiny("qwen3moe-mix");
    sim_stats_reset();
    Decoder d      = decoder_open(m, mode, false);
    r.pdl_launches = sim_stats().pdl_launches;
    r.mode         = rp_executor_info(d.exec).mode;
    snprintf(r.overlap, sizeof r.overlap, "%s", rp_executor_info(d.exec).overlap);
    snprintf(r.reason, sizeof r.reason, "%s", rp_executor_info(d.exec).reason);
    sim_stats_reset();
    for (int i = 0; i < N_TOKENS; i++) memcpy(r.logits[i], decoder_run(&d, 3 + i, i), d.n_vocab * sizeof(float));
    r.kernels = sim_stats().kernels / N_TOKENS;
    decoder_close(&d);
    rp_model_free(m);
    return r;
}

static void expect_same_logits(const Run *a, const Run *b) { cr_expect_arr_eq(a->logits, b->logits, sizeof a->logits); }

Test(cuda_pdl, is_recorded_for_every_kernel) {
    const Run on = run(RP_MODE_REPLAY);
    cr_expect_eq(on.mode, RP_MODE_REPLAY);
    cr_expect_str_eq(on.overlap, "on");
    cr_expect_gt(on.kernels, 0ul);
    cr_expect_eq(on.pdl_launches, on.kernels, "%lu of %lu kernels", on.pdl_launches, on.kernels);
    cr_assert_eq(setenv("REPRISE_PDL", "off", 1), 0);
    const Run off = run(RP_MODE_REPLAY);
    cr_expect_str_eq(off.overlap, "REPRISE_PDL=off");
    cr_expect_eq(off.pdl_launches, 0ul);
    expect_same_logits(&on, &off);
}

Test(cuda_pdl, is_off_before_compute_capability_9_0) {
    const Run on = run(RP_MODE_REPLAY);
    sim_capability(8, 9);
    const Run older = run(RP_MODE_REPLAY);
    cr_expect_eq(older.pdl_launches, 0ul);
    cr_expect_not_null(strstr(older.overlap, "before compute capability 9.0"), "%s", older.overlap);
    expect_same_logits(&on, &older);
    sim_capability(9, 0);
}

/* Code for an older architecture that the driver has translated has no griddepcontrol: nothing would order kernels that
 * are launched with the attribute. One such kernel is enough. */
Test(cuda_pdl, is_off_if_a_kernel_was_compiled_for_an_older_architecture) {
    static const struct {
        const char *kernel;
        int         ptx, binary;
        const char *overlap;
    } cases[] = {
        {NULL,               80, 90, "was compiled for compute capability 8.0"},
        {"attention_kernel", 89, 90, "was compiled for compute capability 8.9"},
        {"quantize_kernel",  90, 89, "was compiled for compute capability 8.9"},
    };
    const Run on = run(RP_MODE_REPLAY);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sim_kernel_code(cases[i].kernel, cases[i].ptx, cases[i].binary);
        const Run older = run(RP_MODE_REPLAY);
        sim_kernel_code(NULL, 90, 90);
        cr_expect_eq(older.mode, RP_MODE_REPLAY, CASE(i));
        cr_expect_eq(older.pdl_launches, 0ul, "case %zu", i);
        cr_expect_not_null(strstr(older.overlap, cases[i].overlap), "%s", older.overlap);
        expect_same_logits(&on, &older);
    }
    sim_kernel_code(NULL, 90, 100); /* translated for a newer GPU */
    const Run newer = run(RP_MODE_REPLAY);
    sim_kernel_code(NULL, 90, 90);
    cr_expect_str_eq(newer.overlap, "on");
}

/* The last kernel of a loop is none of the plan's. */
Test(cuda_pdl, is_off_if_the_kernel_of_the_loop_is_older) {
    RpModel               *m = golden_open_tiny("qwen3moe-mix");
    RpSession             *s;
    const RpSessionOptions o = {.n_ctx = 16, .prefill_chunk = 1, .device = "cuda", .mode = RP_MODE_LOOP};
    sim_kernel_code("loop_end", 75, 90);
    OK(rp_session_open(m, &o, &s));
    cr_expect_eq(rp_session_info(s).mode, RP_MODE_LOOP);
    cr_expect_not_null(strstr(rp_session_info(s).overlap, "loop_end was compiled for compute capability 7.5"), "%s",
                       rp_session_info(s).overlap);
    rp_session_free(s);
    rp_model_free(m);
    sim_kernel_code(NULL, 90, 90);
}

Test(cuda_pdl, refused_by_the_driver_leaves_a_graph_without_it) {
    const Run on = run(RP_MODE_REPLAY);
    sim_refuse_pdl(1);
    const Run refused = run(RP_MODE_REPLAY);
    sim_refuse_pdl(0);
    cr_expect_eq(refused.mode, RP_MODE_REPLAY, "%s", refused.reason);
    cr_expect_str_eq(refused.reason, "");
    cr_expect_not_null(strstr(refused.overlap, "not in a graph: cuda:0: launch of a kernel"), "%s", refused.overlap);
    expect_same_logits(&on, &refused);
}

/* The only failing call is the begin of the loop's capture, which is tried again without PDL. */
Test(cuda_pdl, refused_in_a_loop_leaves_a_loop_without_it) {
    RpSession             *s;
    RpModel               *m = golden_open_tiny("qwen3moe-mix");
    const RpSessionOptions o = {
        .n_ctx = 16, .prefill_chunk = 1, .device = "cuda", .mode = RP_MODE_LOOP, .require_graph = true};
    OK(rp_session_open(m, &o, &s));
    rp_session_free(s);
    sim_stats_reset();
    sim_fail("cudaStreamBeginCaptureToGraph", 1, cudaErrorNotSupported);
    OK(rp_session_open(m, &o, &s));
    cr_expect_eq(sim_fails_left(), 0u);
    cr_expect_eq(rp_session_info(s).mode, RP_MODE_LOOP, "%s", rp_session_info(s).reason);
    rp_session_free(s);
    cr_expect_eq(sim_stats().live_allocs, 0L);
    rp_model_free(m);
}

Test(cuda_pdl, refuses_an_unknown_setting) {
    RpModel   *m = golden_open_tiny("llama-mix");
    RpSession *s;
    cr_assert_eq(setenv("REPRISE_PDL", "maybe", 1), 0);
    REFUSED(rp_session_open(m, &(RpSessionOptions){.n_ctx = 16, .device = "cuda"}, &s), RP_E_ARG,
            "REPRISE_PDL 'maybe': must be auto or off");
    rp_model_free(m);
}
