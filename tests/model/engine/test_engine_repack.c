/* Repacked copies of the weights of an engine: when they are made, and how many bytes they take. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

/* "auto", the default for several requests, depends on a measurement. */
Test(engine_repack, an_engine_repacks_the_weights_if_it_is_told_to) {
    static const struct {
        const char *option, *given;
        bool        repacks;
    } cases[] = {
        {"off", NULL,  false},
        {"on",  NULL,  true },
        {"off", "on",  true },
        {"on",  "off", false},
    };
    RpModel *m = golden_open_tiny("llama-mix-k");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RpEngine *e;
        cr_assert_eq(setenv("REPRISE_REPACK", cases[i].option, 1), 0, CASE(i));
        OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = 128, .n_seq = 2, .repack = cases[i].given}, &e));
        cr_expect_eq(rp_engine_info(e).repack_bytes > 0, cases[i].repacks, CASE(i));
        rp_engine_free(e);
    }
    RpEngine *one;
    cr_assert_eq(unsetenv("REPRISE_REPACK"), 0);
    OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = 128, .n_seq = 1}, &one));
    cr_expect_eq(rp_engine_info(one).repack_bytes, 0);
    rp_engine_free(one);
    rp_model_free(m);
}

/* With layers that predict tokens, and beside a draft model: these have copies of their own weights too. */
Test(engine_repack, the_bytes_of_the_copy_of_weights_are_known_before) {
    static const struct {
        const char *file, *draft, *repack;
        bool        copies;
    } cases[] = {
        {"llama-mix-k", NULL,          "on",  true },
        {"llama-mix-k", "llama-mix",   "on",  true },
        {"llama-mix-k", "llama-mix-k", "on",  true },
        {"qwen35-mix",  NULL,          "on",  true },
        {"llama-mix-k", NULL,          "off", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RpModel        *m = golden_open_tiny(cases[i].file), *draft = NULL;
        RpEngine       *e;
        RpEngineMemory  memory;
        RpEngineOptions o = {.n_ctx = 64, .n_seq = 2, .n_threads = 1, .repack = cases[i].repack};
        if (cases[i].draft != NULL) o.draft = draft = golden_open_tiny(cases[i].draft);
        OK(rp_engine_memory(m, &o, &memory));
        OK(rp_engine_open(m, &o, &e));
        cr_expect_eq(memory.repack, rp_engine_info(e).repack_bytes, "case %zu: %zu bytes, and %zu were copied", i,
                     memory.repack, rp_engine_info(e).repack_bytes);
        cr_expect_eq(memory.repack > 0, cases[i].copies, CASE(i));
        rp_engine_free(e);
        rp_model_free(m), rp_model_free(draft);
    }
}
