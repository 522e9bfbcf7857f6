/* Mirostat 2: what it learns from a choice, and that a reset forgets it. Its candidates against llama.cpp are in
 * test_sampler_chain.c. */
#include "model/sampler/chain.h"
#include "reprise/session.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <math.h>

/* Tokens of a weight of 0 are left out when one is chosen. */
Test(sampler_mirostat, learns_the_surprise_of_the_chosen_token_among_all) {
    static const struct {
        float  logits[4];
        double surprise; /* in bits, of any token that is chosen */
    } cases[] = {
        {{-35.0f, -35.0f, 0.0f, 0.0f},   1.0},
        {{0.0f, -35.0f, -35.0f, 0.0f},   1.0},
        {{-40.0f, -40.0f, -40.0f, 0.0f}, 0.0},
        {{0.0f, 0.0f, 0.0f, 0.0f},       2.0}
    };
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature = 1.0f, p.mirostat = 2, p.mirostat_tau = 30.0f, p.mirostat_eta = 1.0f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Chain       chain;
        Candidate   c[4];
        RpStepState state = {.repeat_last_n = 0};
        ChainRun    run   = {.state = &state, .recent = NULL, .logits = cases[i].logits, .c = c};
        cr_assert_eq(rp_chain_open(&chain, &p, 4), RP_OK, "%s", rp_last_error());
        cr_assert_eq(rp_chain_filter(&chain, &run), 4, CASE(i));
        const float   before = chain.mu;
        const int32_t token  = rp_chain_choose(&chain, &run);
        cr_expect_eq(cases[i].logits[token], 0.0f, CASE(i));
        cr_expect_lt(fabs((double)(before - chain.mu) - (cases[i].surprise - 30.0)), 1e-5, CASE(i));
        rp_chain_close(&chain);
    }
}

Test(sampler_mirostat, starts_over_after_a_reset) {
    float           logits[50];
    int32_t         first[20], token;
    RpSampler      *s;
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 1.0f;
    p.mirostat        = 2;
    p.mirostat_tau    = 2.0f;
    p.mirostat_eta    = 0.5f;
    for (int i = 0; i < 50; i++) logits[i] = (float)(i * 29 % 50) / 12.0f;
    cr_assert_eq(rp_sampler_new(&p, 50, &s), RP_OK, "%s", rp_last_error());
    cr_assert_str_eq(rp_sampler_host_only(s), "mirostat");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) {
            cr_assert_eq(rp_sampler_sample(s, logits, round == 0 ? &first[i] : &token), RP_OK, CASE(round, i));
            cr_assert(round == 0 || token == first[i], CASE(round, i));
        }
        rp_sampler_reset(s);
    }
    rp_sampler_free(s);
}
