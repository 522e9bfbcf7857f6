/* Which device a session gets: by name, by REPRISE_DEVICE, on machines without a device, a driver or a new enough
 * driver. A refusal and a fallback to the CPU name their reason (I10). */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "sim/device/sim.h"

typedef struct Choice {
    const char *device;
    bool        require_cuda;
    RpStatus    status;
    const char *text; /* in the error, or in the reason for the CPU */
    const char *id;
} Choice;

static void check_choices(const RpModel *m, const Choice *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (int by_name = 0; by_name < 2; by_name++) {
            RpSessionOptions o = {.n_ctx = 8, .n_threads = 1, .require_cuda = c[i].require_cuda};
            RpSession       *s;
            if (by_name)
                o.device = c[i].device;
            else
                setenv("REPRISE_DEVICE", c[i].device, 1);
            const RpStatus st = rp_session_open(m, &o, &s);
            cr_expect_eq(st, c[i].status, "%s: %s", c[i].device, rp_last_error());
            if (st == RP_OK) {
                const RpExecutorInfo info = rp_session_info(s);
                cr_expect_str_eq(info.device, c[i].id, CASE(i, by_name));
                cr_expect_eq(info.fell_back, c[i].text != NULL, CASE(i, by_name));
                if (c[i].text == NULL) cr_expect_str_eq(info.reason, "", CASE(i, by_name));
                if (c[i].text != NULL)
                    cr_expect_not_null(strstr(info.reason, c[i].text), "%s: \"%s\"", c[i].device, info.reason);
                OK(rp_session_step(s, 3));
                rp_session_free(s);
            } else {
                cr_expect_null(s, CASE(i, by_name));
                cr_expect_not_null(strstr(rp_last_error(), c[i].text), "%s: \"%s\"", c[i].device, rp_last_error());
                if (strstr(c[i].text, "must be") != NULL) /* the message names where the value came from */
                    cr_expect_not_null(strstr(rp_last_error(), by_name ? "device '" : "REPRISE_DEVICE '"), "%s",
                                       rp_last_error());
            }
            unsetenv("REPRISE_DEVICE");
            cr_expect_eq(sim_stats().live_allocs, 0L, CASE(i, by_name));
        }
}

#define CHECK_CHOICES(m, choices) check_choices(m, choices, sizeof(choices) / sizeof(choices)[0])

static const char wanted[] = "must be auto, cpu, cuda or cuda:N";

Test(cuda_device, a_named_device_must_exist) {
    RpModel            *m         = golden_open_tiny("llama-q4_0");
    static const Choice choices[] = {
        {"auto",       false, RP_OK,              NULL,                                 "cuda:0"},
        {"auto",       true,  RP_OK,              NULL,                                 "cuda:0"},
        {"cpu",        false, RP_OK,              NULL,                                 "cpu"   },
        {"cpu",        true,  RP_E_ARG,           "'cpu', and CUDA is required",        NULL    },
        {"cuda",       false, RP_OK,              NULL,                                 "cuda:0"},
        {"cuda:1",     false, RP_OK,              NULL,                                 "cuda:1"},
        {"cuda:2",     false, RP_E_NOT_AVAILABLE, "'cuda:2': there are 2 CUDA devices", NULL    },
        {"cuda:",      false, RP_E_ARG,           wanted,                               NULL    },
        {"cuda:1x",    false, RP_E_ARG,           wanted,                               NULL    },
        {"cuda:-1",    false, RP_E_ARG,           wanted,                               NULL    },
        {"cuda:99999", false, RP_E_ARG,           wanted,                               NULL    },
        {"CUDA",       false, RP_E_ARG,           wanted,                               NULL    },
        {"gpu",        false, RP_E_ARG,           wanted,                               NULL    }
    };
    sim_driver(CUDART_VERSION, 2);
    CHECK_CHOICES(m, choices);
    rp_model_free(m);
}

Test(cuda_device, without_a_driver_auto_is_the_cpu_with_a_reason) {
    RpModel            *m         = golden_open_tiny("llama-q4_0");
    static const Choice choices[] = {
        {"auto",   false, RP_OK,              "no CUDA driver is installed", "cpu"},
        {"auto",   true,  RP_E_NOT_AVAILABLE, "no CUDA driver is installed", NULL },
        {"cpu",    false, RP_OK,              NULL,                          "cpu"},
        {"cuda",   false, RP_E_NOT_AVAILABLE, "no CUDA driver is installed", NULL },
        {"cuda:1", false, RP_E_NOT_AVAILABLE, "no CUDA driver is installed", NULL },
        {"gpu",    false, RP_E_ARG,           wanted,                        NULL }
    };
    sim_driver(0, 1);
    CHECK_CHOICES(m, choices);
    rp_model_free(m);
}

Test(cuda_device, without_a_device_auto_is_the_cpu_with_a_reason) {
    RpModel            *m         = golden_open_tiny("llama-q4_0");
    static const Choice choices[] = {
        {"auto", false, RP_OK,              "CUDA driver 13.0: no CUDA-capable device", "cpu"},
        {"auto", true,  RP_E_NOT_AVAILABLE, "CUDA driver 13.0: no CUDA-capable device", NULL },
        {"cuda", false, RP_E_NOT_AVAILABLE, "CUDA driver 13.0: no CUDA-capable device", NULL }
    };
    sim_driver(13000, 0);
    CHECK_CHOICES(m, choices);
    rp_model_free(m);
}

/* Weights are never copied to such a device. */
static void check_unusable(const char *text, RpStatus st) {
    RpModel     *m         = golden_open_tiny("llama-q4_0");
    const Choice choices[] = {
        {"auto",   false, RP_OK, text, "cpu"},
        {"auto",   true,  st,    text, NULL },
        {"cpu",    false, RP_OK, NULL, "cpu"},
        {"cuda",   false, st,    text, NULL },
        {"cuda:0", false, st,    text, NULL }
    };
    sim_stats_reset();
    CHECK_CHOICES(m, choices);
    cr_expect_eq(sim_stats().allocs, 0ul);
    rp_model_free(m);
}

Test(cuda_device, without_code_for_the_device_auto_is_the_cpu_with_a_reason) {
    sim_capability(7, 0);
    sim_no_code(1);
    check_unusable("cuda:0: this build has no code for simulated device of compute capability 7.0", RP_E_NOT_AVAILABLE);
}

Test(cuda_device, if_the_device_is_busy_auto_is_the_cpu_with_a_reason) {
    for (unsigned nth = 1; nth <= 100; nth++) sim_fail("cudaSetDevice", nth, cudaErrorDevicesUnavailable);
    check_unusable("cuda:0: selection of the device: CUDA-capable device(s) is/are busy or unavailable", RP_E_CUDA);
}

/* A CUDA 13 runtime needs a CUDA 13 driver. A CUDA 12 runtime works with driver 12.2, but loops need 12.4. */
Test(cuda_device, an_old_driver_disables_the_loop_or_the_device) {
    RpModel *m = golden_open_tiny("llama-q4_0");
    sim_driver(12020, 1);
    if (CUDART_VERSION >= 13000) {
        static const Choice choices[] = {
            {"auto", false, RP_OK,              "CUDA driver 12.2: ", "cpu"},
            {"cuda", false, RP_E_NOT_AVAILABLE, "CUDA driver 12.2: ", NULL }
        };
        CHECK_CHOICES(m, choices);
    } else {
        const RpSessionOptions o = {.n_ctx = 8, .device = "cuda", .mode = RP_MODE_LOOP};
        RpSession             *s;
        OK(rp_session_open(m, &o, &s));
        cr_expect_eq(rp_session_info(s).mode, RP_MODE_REPLAY);
        cr_expect_not_null(strstr(rp_session_info(s).reason,
                                  "replay instead of loop: the driver is for CUDA 12.2, loops in graphs need 12.4"));
        rp_session_free(s);
    }
    rp_model_free(m);
}

/* The launch that reports a kernel's failure is that of a later step, which the message must not accuse. */
Test(cuda_device, a_kernel_that_fails_is_not_reported_as_the_next_one) {
    static const struct {
        cudaError_t error;
        const char *text;
    } cases[] = {
        {cudaErrorIllegalAddress,       "cuda:0: before or in "  },
        {cudaErrorLaunchOutOfResources, "cuda:0: qkv: launch of "},
        {cudaErrorInvalidConfiguration, "cuda:0: qkv: launch of "}
    };
    RpModel               *m = golden_open_tiny("llama-q4_0");
    const RpSessionOptions o = {.n_ctx = 8, .device = "cuda", .mode = RP_MODE_EAGER};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RpSession *s;
        OK(rp_session_open(m, &o, &s));
        if (i == 0)
            sim_fault(1, cases[i].error);
        else
            sim_fail("cudaLaunchKernelExC", 2, cases[i].error);
        sim_async(0);
        REFUSED(rp_session_step(s, 9), RP_E_CUDA, cases[i].text);
        sim_async(1);
        cr_expect_not_null(strstr(rp_last_error(), "qkv: launch of "), "%s", rp_last_error());
        rp_session_free(s);
        sim_reset_faults();
    }
    rp_model_free(m);
}

/* ---- memory for programs ---- */

Test(cuda_device, memory_is_written_copied_and_read) {
    RpCudaMemory *a, *b;
    float         x[4] = {1, 2, 3, 4}, y[4] = {0};
    sim_driver(CUDART_VERSION, 2);
    OK(rp_cuda_memory_new(0, sizeof x, &a));
    OK(rp_cuda_memory_new(1, 2 * sizeof x, &b));
    cr_expect_eq(rp_cuda_memory_device(b), 1);
    cr_expect_eq(rp_cuda_memory_bytes(b), 2 * sizeof x);
    cr_expect_eq((uintptr_t)rp_cuda_memory_data(a) % 256, (uintptr_t)0);
    OK(rp_cuda_memory_write(a, 0, x, sizeof x));
    OK(rp_cuda_memory_copy(b, sizeof x, a, 4, 12));
    OK(rp_cuda_memory_read(b, sizeof x, y, 12));
    cr_expect(y[0] == 2 && y[1] == 3 && y[2] == 4 && y[3] == 0);
    OK(rp_cuda_memory_read(a, sizeof x, y, 0));
    REFUSED(rp_cuda_memory_write(a, 4, x, sizeof x), RP_E_ARG,
            "cuda:0: 16 bytes at 4: must be inside of the 16 bytes of the memory");
    REFUSED(rp_cuda_memory_read(a, SIZE_MAX, y, 2), RP_E_ARG, ": must be inside of the 16 bytes of the memory");
    REFUSED(rp_cuda_memory_copy(a, 0, b, 0, 17), RP_E_ARG,
            "17 bytes at 0: must be inside of the 16 bytes of the memory");
    REFUSED(rp_cuda_memory_copy(a, 0, b, 17, 16), RP_E_ARG,
            "cuda:1: 16 bytes at 17: must be inside of the 32 bytes of the memory");
    rp_cuda_memory_free(a);
    rp_cuda_memory_free(b);
    cr_expect_eq(sim_stats().live_allocs, 0L);
}

Test(cuda_device, memory_that_cannot_be_had_is_refused) {
    RpCudaMemory *m;
    char          byte = 0;
    REFUSED(rp_cuda_memory_new(0, 0, &m), RP_E_ARG, "0 bytes");
    REFUSED(rp_cuda_memory_new(1, 1, &m), RP_E_ARG, "CUDA device 1: must be from 0 to 0");
    sim_device_memory(1 << 20);
    REFUSED(rp_cuda_memory_new(0, 2 << 20, &m), RP_E_NOMEM, "cuda:0: 2097152 bytes for memory could not be allocated");
    cr_expect_null(m);
    for (unsigned nth = 1; nth <= 2; nth++) {
        sim_fail("cudaSetDevice", nth, cudaErrorDevicesUnavailable);
        REFUSED(rp_cuda_memory_new(0, 1, &m), RP_E_CUDA, "selection of the device");
    }
    OK(rp_cuda_memory_new(0, 1, &m));
    sim_fail("cudaMemcpy", 1, cudaErrorUnknown);
    REFUSED(rp_cuda_memory_write(m, 0, &byte, 1), RP_E_CUDA, "cuda:0: copy: unknown error");
    sim_fail("cudaStreamSynchronize", 1, cudaErrorUnknown);
    REFUSED(rp_cuda_memory_read(m, 0, &byte, 1), RP_E_CUDA, "cuda:0: copy: unknown error");
    OK(rp_cuda_memory_write(m, 0, &byte, 1));
    rp_cuda_memory_free(m);
    sim_driver(0, 1);
    REFUSED(rp_cuda_memory_new(0, 1, &m), RP_E_NOT_AVAILABLE, "no CUDA driver is installed");
    cr_expect_eq(sim_stats().live_allocs, 0L);
}
