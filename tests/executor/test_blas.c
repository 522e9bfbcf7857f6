/* Prefill with the cuBLASLt of this machine on its GPU, against single steps by Reprise's kernels. Failures and
 * other cases are tested with a stand-in library in tests/sim/executor/test_cuda_blas.c. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "reprise/device.h"

#include <math.h>

enum { N_IDS = 128, N_CTX = 160 };

static void logits_after(const RpModel *m, const char *device, int32_t chunk, const char *blas, float *out) {
    int32_t                ids[N_IDS];
    RpSession             *s;
    const RpSessionOptions o = {.n_ctx = N_CTX, .prefill_chunk = chunk, .device = device};
    for (int i = 0; i < N_IDS; i++) ids[i] = 3 + 7 * i % 40;
    cr_assert_eq(setenv("REPRISE_BLAS", blas, 1), 0);
    OK(rp_session_open(m, &o, &s));
    OK(rp_session_prefill(s, ids, N_IDS, NULL, NULL));
    memcpy(out, rp_session_logits(s), (size_t)rp_model_info(m)->n_vocab * sizeof *out);
    cr_log_info("%s, chunks of %d: %s", device, chunk, rp_session_info(s).blas);
    rp_session_free(s);
}

Test(blas, a_prefill_on_the_gpu_is_close_to_single_steps) {
    static const char *const names[] = {"llama-f32", "llama-f16",   "llama-bf16",
                                        "llama-mix", "llama-mix-k", "gemma3-mix"};
    int                      n_devices;
    if (rp_cuda_probe(&n_devices) != RP_OK) cr_skip_test("%s", rp_last_error());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char     path[1024];
        RpModel *m;
        float    steps[512], built_in[512], blas[512], again[512];
        double   worst = 0.0, spread = 0.0;
        snprintf(path, sizeof path, GOLDEN_DIR "tiny/%s.gguf", names[i]);
        OK(rp_model_open(path, NULL, &m));
        const size_t n = (size_t)rp_model_info(m)->n_vocab;
        cr_assert_leq(n, sizeof steps / sizeof *steps, CASE(i));
        logits_after(m, "cuda", 1, "auto", steps);
        logits_after(m, "cuda", 64, "off", built_in);
        logits_after(m, "cuda", 64, "auto", blas);
        logits_after(m, "cuda", 4, "off", again);
        cr_expect_arr_eq(again, steps, n * sizeof *steps, "%s: chunks of four give other bits", names[i]);
        logits_after(m, "cuda", 128, "off", again);
        cr_expect_arr_eq(again, built_in, n * sizeof *built_in, "%s: without cuBLASLt a longer chunk gives other bits",
                         names[i]);
        logits_after(m, "cuda", 64, "auto", again);
        cr_expect_arr_eq(again, blas, n * sizeof *built_in, "%s: a second session gives other bits", names[i]);
        for (size_t k = 0; k < n; k++) {
            spread += (double)steps[k] * (double)steps[k] / (double)n;
            worst = fmax(worst, fabs((double)blas[k] - (double)steps[k]));
        }
        cr_log_info("%s: off by %g of the RMS", names[i], worst / sqrt(spread));
        cr_expect_leq(worst, 0.1 * sqrt(spread), "%s: off by %g of the RMS", names[i], worst / sqrt(spread));
        rp_model_free(m);
    }
}
