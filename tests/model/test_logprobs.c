/* Log probabilities of tokens against log-softmax in double; their order by counting. */
#include "reprise/sampler.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <math.h>

Test(logprobs, are_the_log_softmax_of_the_logits) {
    enum { N = 300 };
    float          logits[N];
    double         sum = 0.0;
    RpTokenLogprob chosen, top[20];
    for (int i = 0; i < N; i++) logits[i] = floorf(64.0f * rp_random_uniform(3, (uint64_t)i)) / 4.0f; /* many ties */
    logits[7] = NAN;
    for (int i = 0; i < N; i++) sum += i == 7 ? 0.0 : exp((double)logits[i]);
    cr_assert_eq(rp_logprobs(logits, N, 123, &chosen, top, 20), RP_OK, "%s", rp_last_error());
    cr_assert_eq(chosen.token, 123);
    cr_assert(fabs((double)chosen.logprob - ((double)logits[123] - log(sum))) < 1e-5);
    for (int k = 0; k < 20; k++) {
        int before = 0; /* tokens that come before it in order */
        for (int i = 0; i < N; i++)
            before += logits[i] > logits[top[k].token] || (logits[i] == logits[top[k].token] && i < top[k].token);
        cr_assert_eq(before, k, CASE(k));
        cr_assert(fabs((double)top[k].logprob - ((double)logits[top[k].token] - log(sum))) < 1e-5, CASE(k));
    }
    cr_assert_eq(rp_logprobs(logits, N, 7, &chosen, NULL, 0), RP_OK);
    cr_assert_eq(chosen.logprob, -INFINITY);
    cr_assert_eq(rp_logprobs((float[]){-3.0f}, 1, 0, &chosen, top, 1), RP_OK);
    cr_assert(chosen.logprob == 0.0f && top[0].logprob == 0.0f && top[0].token == 0);
}

Test(logprobs, refuses_bad_arguments) {
    const float    logits[3] = {1.0f, 2.0f, 3.0f}, none[2] = {NAN, -INFINITY};
    RpTokenLogprob one;
    cr_assert_eq(rp_logprobs(logits, 0, 0, &one, NULL, 0), RP_E_ARG);
    cr_assert_str_eq(rp_last_error(), "log probabilities of 0 logits");
    cr_assert_eq(rp_logprobs(logits, 3, 3, &one, NULL, 0), RP_E_ARG);
    cr_assert_str_eq(rp_last_error(), "log probability of token 3: must be from 0 to 2");
    cr_assert_eq(rp_logprobs(logits, 3, 3, NULL, &one, 4), RP_E_ARG);
    cr_assert_str_eq(rp_last_error(), "log probabilities of 4 tokens: must be from 0 to 3");
    cr_assert_eq(rp_logprobs(none, 2, 0, &one, NULL, 0), RP_E_ARG);
    cr_assert_str_eq(rp_last_error(), "no log probabilities: each of the 2 logits is NaN or -inf");
}
