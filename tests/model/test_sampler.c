/* Samplers against a reference that sorts all tokens and works in double; the random generator against the
 * published vectors of Philox 4x32-10; frequencies by a chi-square test. */
#include "reprise/sampler.h"

#include "base/philox.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N = 12, SAMPLES = 40000 };

static const float logits12[N] = {1.0f, -0.5f, 2.0f, 0.0f, 2.0f, -3.0f, 0.7f, 1.5f, -1.0f, 0.2f, 3.0f, -2.0f};

static RpSampler *open_sampler(RpSamplerParams p, int32_t n_vocab) {
    RpSampler *s;
    cr_assert_eq(rp_sampler_new(&p, n_vocab, &s), RP_OK, "%s", rp_last_error());
    return s;
}

static int32_t sample(RpSampler *s, const float *logits) {
    int32_t token = -1;
    cr_assert_eq(rp_sampler_sample(s, logits, &token), RP_OK, "%s", rp_last_error());
    return token;
}

/* The reference: tokens sorted by logit, then top_k, softmax, top_p, min_p, temperature in double, in the order of
 * sampler.h. */
typedef struct Reference {
    int32_t *ids; /* sorted */
    double  *p;
    int32_t  n; /* tokens that remain */
} Reference;

static const float *sort_key;

static int by_logit_then_id(const void *a, const void *b) {
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const float   x = sort_key[i], y = sort_key[j];
    return x > y ? -1 : x < y ? 1 : i < j ? -1 : 1;
}

static Reference reference_new(const RpSamplerParams *p, const float *logits, int32_t n_vocab) {
    Reference r = {calloc((size_t)n_vocab, sizeof *r.ids), calloc((size_t)n_vocab, sizeof *r.p), n_vocab};
    for (int32_t i = 0; i < n_vocab; i++) r.ids[i] = i;
    sort_key = logits;
    qsort(r.ids, (size_t)n_vocab, sizeof *r.ids, by_logit_then_id);
    if (p->top_k > 0 && p->top_k < n_vocab) r.n = p->top_k;
    double sum = 0.0, mass = 0.0, tempered = 0.0;
    for (int32_t i = 0; i < r.n; i++) sum += r.p[i] = exp((double)logits[r.ids[i]] - (double)logits[r.ids[0]]);
    int32_t kept = 0;
    while (kept < r.n && (p->top_p >= 1.0f || mass < (double)p->top_p * sum)) mass += r.p[kept++];
    while (kept > 1 && r.p[kept - 1] < (double)p->min_p * r.p[0]) kept--;
    r.n = kept;
    for (int32_t i = 0; i < r.n; i++)
        tempered += r.p[i] = exp(((double)logits[r.ids[i]] - (double)logits[r.ids[0]]) / (double)p->temperature);
    for (int32_t i = 0; i < r.n; i++) r.p[i] /= tempered;
    return r;
}

static void reference_free(Reference *r) {
    free(r->ids);
    free(r->p);
}

static int32_t reference_sample(const Reference *r, double u) {
    int32_t i = 0;
    for (double left = u - r->p[0]; left >= 0.0 && i + 1 < r->n; left -= r->p[i]) i++;
    return r->ids[i];
}

/* Chi-square statistic of SAMPLES samples: sum over tokens of (count - expected)^2 / expected. No sample may be
 * a token that the reference excludes. */
static double chi_square(const RpSamplerParams *p, const float *logits, int32_t *df) {
    RpSampler *s         = open_sampler(*p, N);
    Reference  r         = reference_new(p, logits, N);
    int        counts[N] = {0};
    for (int i = 0; i < SAMPLES; i++) counts[sample(s, logits)]++;
    double chi = 0.0;
    int    in  = 0;
    for (int32_t i = 0; i < r.n; i++) {
        const double want = r.p[i] * SAMPLES, diff = counts[r.ids[i]] - want;
        chi += diff * diff / want;
        in += counts[r.ids[i]];
    }
    cr_expect_eq(in, SAMPLES, "%d samples are outside the %d allowed tokens", SAMPLES - in, r.n);
    *df = r.n - 1;
    reference_free(&r);
    rp_sampler_free(s);
    return chi;
}

Test(random, philox_gives_the_published_vectors) {
    static const uint32_t counters[3][4] = {
        {0,          0,          0,          0         },
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}
    };
    static const uint32_t keys[3][2] = {
        {0,          0         },
        {0xffffffff, 0xffffffff},
        {0xa4093822, 0x299f31d0}
    };
    static const uint32_t want[3][4] = {
        {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        rp_philox4x32(counters[i], keys[i], out);
        for (int j = 0; j < 4; j++) cr_expect_eq(out[j], want[i][j], "vector %d word %d", i, j);
    }
}

Test(random, uniform_uses_the_top_bits_of_the_first_word) {
    cr_expect_eq(rp_random_uniform(0, 0), (float)(0x6627e8d5u >> 8) / 16777216.0f);
    cr_expect_neq(rp_random_uniform(1, 0), rp_random_uniform(0, 0));
    cr_expect_neq(rp_random_uniform(UINT64_C(1) << 40, 0), rp_random_uniform(0, 0));
    cr_expect_neq(rp_random_uniform(0, UINT64_C(1) << 40), rp_random_uniform(0, 0));
    double sum = 0.0, squares = 0.0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const double u = (double)rp_random_uniform(7, i);
        cr_assert(u >= 0.0 && u < 1.0, CASE(i));
        sum += u;
        squares += u * u;
    }
    cr_expect(fabs(sum / SAMPLES - 0.5) < 0.006, "mean %g", sum / SAMPLES);
    cr_expect(fabs(squares / SAMPLES - 1.0 / 3.0) < 0.006, "mean square %g", squares / SAMPLES);
}

Test(sampler, greedy_takes_the_highest_logit_and_the_lower_id_on_ties) {
    RpSampler *s = open_sampler(rp_sampler_defaults(), N);
    cr_expect_eq(sample(s, logits12), 10);
    float tied[N] = {0};
    tied[3] = tied[7] = 5.0f;
    cr_expect_eq(sample(s, tied), 3);
    cr_expect_eq(rp_sampler_n_vocab(s), N);
    rp_sampler_free(s);
}

Test(sampler, samples_follow_the_probabilities) {
    /* Chi-square quantiles at 0.999 for 1 to 11 degrees of freedom. */
    static const double   limit[] = {0, 10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12, 27.88, 29.59, 31.26};
    const RpSamplerParams cases[] = {
        {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .repeat_penalty = 1.0f, .seed = 0},
        {.temperature = 0.5f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .repeat_penalty = 1.0f, .seed = 1},
        {.temperature = 2.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .repeat_penalty = 1.0f, .seed = 2},
        {.temperature = 1.0f, .top_k = 5, .top_p = 1.0f, .min_p = 0.0f, .repeat_penalty = 1.0f, .seed = 3},
        {.temperature = 1.0f, .top_k = 0, .top_p = 0.8f, .min_p = 0.0f, .repeat_penalty = 1.0f, .seed = 4},
        {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.2f, .repeat_penalty = 1.0f, .seed = 5},
        {.temperature = 1.5f, .top_k = 9, .top_p = 0.9f, .min_p = 0.1f, .repeat_penalty = 1.0f, .seed = 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t      df;
        const double chi = chi_square(&cases[i], logits12, &df);
        cr_assert(df >= 2 && df < N, CASE(i));
        cr_expect(chi < limit[df], "case %zu: chi square %.2f over %d degrees of freedom", i, chi, df);
    }
}

/* Boundaries between tokens differ slightly in float and double, so a few samples in ten thousand may differ. */
Test(sampler, agrees_with_a_full_sort_for_any_parameters) {
    enum { VOCAB = 3000, TIMES = 400 };
    static float logits[VOCAB];
    int          differ = 0;
    for (int round = 0; round < 60; round++) {
        const uint64_t seed = 1000 + (uint64_t)round;
        for (int i = 0; i < VOCAB; i++) /* multiples of 1/8: many ties */
            logits[i] = roundf(8.0f * 12.0f * rp_random_uniform(seed, (uint64_t)i)) / 8.0f;
        RpSamplerParams p = rp_sampler_defaults();
        p.seed            = seed;
        p.temperature     = 0.2f + 2.0f * rp_random_uniform(seed, 10000);
        p.top_k           = round % 3 == 0 ? 0 : (int32_t)(100.0f * rp_random_uniform(seed, 10001)) + 2;
        p.top_p           = round % 4 == 0 ? 1.0f : 0.3f + 0.6999f * rp_random_uniform(seed, 10002);
        p.min_p           = round % 5 == 0 ? 0.0f : 0.3f * rp_random_uniform(seed, 10003);
        RpSampler *s      = open_sampler(p, VOCAB);
        Reference  r      = reference_new(&p, logits, VOCAB);
        for (uint64_t i = 0; i < TIMES; i++)
            differ += sample(s, logits) != reference_sample(&r, (double)rp_random_uniform(seed, i));
        reference_free(&r);
        rp_sampler_free(s);
    }
    cr_expect(differ <= 3, "%d of %d samples differ", differ, 60 * TIMES);
}

/* logits of the known probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625, in a scrambled order */
static const float five[5] = {-3.0f * 0.69314718f, -4.0f * 0.69314718f, -1.0f * 0.69314718f, -4.0f * 0.69314718f,
                              -2.0f * 0.69314718f};

static unsigned tokens_sampled(RpSamplerParams p) {
    RpSampler *s   = open_sampler(p, 5);
    unsigned   set = 0;
    for (int i = 0; i < 2000; i++) set |= 1u << sample(s, five);
    rp_sampler_free(s);
    return set;
}

Test(sampler, top_k_top_p_and_min_p_follow_their_definitions) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 1.0f;
    cr_expect_eq(tokens_sampled(p), 0x1fu);
    p.top_k = 4; /* ids 1 and 3 are equal: the lower stays */
    cr_expect_eq(tokens_sampled(p), 1u << 2 | 1u << 4 | 1u << 0 | 1u << 1);
    p.top_k = 1;
    cr_expect_eq(tokens_sampled(p), 1u << 2);
    p.top_k = 99;
    cr_expect_eq(tokens_sampled(p), 0x1fu);
    p.top_k = 0;
    p.top_p = 0.6f; /* 0.5 is not enough, 0.75 is */
    cr_expect_eq(tokens_sampled(p), 1u << 2 | 1u << 4);
    p.top_p = 0.01f; /* the most probable always stays */
    cr_expect_eq(tokens_sampled(p), 1u << 2);
    p.top_k = 2; /* 0.5 and 0.25 become 2/3 and 1/3: top_p is of what top_k left */
    p.top_p = 0.6f;
    cr_expect_eq(tokens_sampled(p), 1u << 2);
    p.top_k = 0;
    p.top_p = 1.0f;
    p.min_p = 0.2f; /* 0.125 is a quarter of the most probable, 0.0625 an eighth */
    cr_expect_eq(tokens_sampled(p), 1u << 2 | 1u << 4 | 1u << 0);
    p.min_p = 1.0f;
    cr_expect_eq(tokens_sampled(p), 1u << 2);
    p.min_p = 0.2f;
    p.top_p = 0.99f;
    cr_expect_eq(tokens_sampled(p), 1u << 2 | 1u << 4 | 1u << 0);
}

Test(sampler, penalty_divides_positive_and_multiplies_negative_logits) {
    RpSamplerParams p = rp_sampler_defaults();
    p.repeat_penalty  = 2.0f;
    p.repeat_last_n   = 3;
    RpSampler *s      = open_sampler(p, 4);

    const float positive[4] = {3.0f, 2.0f, 1.6f, 1.0f};
    cr_expect_eq(sample(s, positive), 0);
    cr_expect_eq(sample(s, positive), 1); /* 0 counts as 1.5 */
    cr_expect_eq(sample(s, positive), 2); /* 0: 1.5, 1: 1 */
    cr_expect_eq(sample(s, positive), 0); /* 0, 1 and 2 count as 1.5, 1 and 0.8 */
    rp_sampler_reset(s);
    const float negative[4] = {-1.0f, -1.5f, -1.9f, -2.1f};
    cr_expect_eq(sample(s, negative), 0);
    cr_expect_eq(sample(s, negative), 1); /* 0 counts as -2 */
    cr_expect_eq(sample(s, negative), 2);
    cr_expect_eq(sample(s, negative), 0); /* -2, -3, -3.8, -2.1 */
    rp_sampler_free(s);
}

Test(sampler, penalty_counts_a_token_once_and_only_the_last_n) {
    RpSamplerParams p = rp_sampler_defaults();
    p.repeat_penalty  = 2.0f;
    p.repeat_last_n   = 2;
    RpSampler  *s     = open_sampler(p, 3);
    const float l[3]  = {3.0f, 1.4f, 1.0f};
    rp_sampler_accept(s, 0);
    rp_sampler_accept(s, 0);
    cr_expect_eq(sample(s, l), 0, "penalised twice it would be 0.75");
    rp_sampler_accept(s, 2);
    rp_sampler_accept(s, 2);
    rp_sampler_accept(s, -1); /* outside the vocabulary: ignored */
    rp_sampler_accept(s, 3);
    const float close[3] = {1.0f, 0.9f, 1.5f};
    cr_expect_eq(sample(s, close), 0, "0 is three tokens ago, 2 counts as 0.75");
    rp_sampler_free(s);
    p.repeat_last_n = 0;
    s               = open_sampler(p, 3);
    for (int i = 0; i < 3; i++) cr_expect_eq(sample(s, close), 2, CASE(i));
    rp_sampler_free(s);
}

Test(sampler, nan_counts_as_minus_infinity) {
    RpSamplerParams p = rp_sampler_defaults();
    float           l[5];
    for (int i = 0; i < 5; i++) l[i] = i % 2 ? NAN : -INFINITY;
    RpSampler *s     = open_sampler(p, 5);
    int32_t    token = 77;
    cr_expect_eq(rp_sampler_sample(s, l, &token), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "nothing to sample: each of the 5 logits is NaN or -inf");
    cr_expect_eq(token, 77);
    l[4] = -1e30f;
    cr_expect_eq(sample(s, l), 4);
    rp_sampler_free(s);

    p.temperature = 1.0f;
    for (int with_top_p = 0; with_top_p < 2; with_top_p++) {
        p.top_p = with_top_p ? 0.999f : 1.0f;
        s       = open_sampler(p, 5);
        for (int i = 0; i < 50; i++) cr_expect_eq(sample(s, l), 4, CASE(with_top_p, i));
        rp_sampler_free(s);
    }
}

Test(sampler, plus_infinity_is_certain) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 0.7f;
    const float l[]   = {1.0f, INFINITY, 3.0f, INFINITY};
    RpSampler  *s     = open_sampler(p, 4);
    unsigned    set   = 0;
    for (int i = 0; i < 200; i++) set |= 1u << sample(s, l);
    cr_expect_eq(set, 1u << 1 | 1u << 3);
    rp_sampler_free(s);
}

Test(sampler, a_seed_gives_the_same_tokens_and_reset_starts_over) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 1.0f;
    p.seed            = 42;
    int32_t    first[64];
    RpSampler *a = open_sampler(p, N), *b = open_sampler(p, N);
    for (int i = 0; i < 64; i++) {
        first[i] = sample(a, logits12);
        cr_expect_eq(sample(b, logits12), first[i], CASE(i));
    }
    rp_sampler_reset(a);
    for (int i = 0; i < 64; i++) cr_expect_eq(sample(a, logits12), first[i], CASE(i));
    rp_sampler_free(b);
    p.seed   = 43;
    b        = open_sampler(p, N);
    int same = 0;
    for (int i = 0; i < 64; i++) same += sample(b, logits12) == first[i];
    cr_expect_lt(same, 40, "another seed gives another sequence");
    rp_sampler_free(a);
    rp_sampler_free(b);
}

static void refused(RpSamplerParams p, int32_t n_vocab, const char *text) {
    RpSampler *s = (RpSampler *)&p;
    cr_expect_eq(rp_sampler_new(&p, n_vocab, &s), RP_E_ARG, "%s", text);
    cr_expect_null(s);
    cr_expect_str_eq(rp_last_error(), text);
}

Test(sampler, refuses_parameters_by_name) {
    const RpSamplerParams d = rp_sampler_defaults();
    RpSamplerParams       p = d;
    refused(d, 0, "sampler: a vocabulary of 0 tokens");
    p.temperature = -0.5f;
    refused(p, 5, "temperature -0.5: must be finite and at least 0");
    p.temperature = NAN;
    refused(p, 5, "temperature nan: must be finite and at least 0");
    p       = d;
    p.top_k = -1;
    refused(p, 5, "top_k -1: must be at least 0 (0: all tokens)");
    p       = d;
    p.top_p = 0.0f;
    refused(p, 5, "top_p 0: must be above 0 and at most 1");
    p.top_p = 1.5f;
    refused(p, 5, "top_p 1.5: must be above 0 and at most 1");
    p       = d;
    p.min_p = 2.0f;
    refused(p, 5, "min_p 2: must be from 0 to 1");
    p                = d;
    p.repeat_penalty = 0.0f;
    refused(p, 5, "repeat_penalty 0: must be finite and above 0");
    p               = d;
    p.repeat_last_n = -1;
    refused(p, 5, "repeat_last_n -1: must be from 0 to 1048576");
    rp_sampler_free(NULL);
}

/* The logits of a session before its first prefill are NULL. */
/* The samples of a mask are those of logits that are -inf where the mask has a 0. */
Test(sampler, a_mask_counts_as_logits_of_minus_infinity) {
    const uint32_t  bits[1] = {0x2b6u}; /* tokens 1, 2, 4, 5, 7, 9 */
    RpSamplerParams p = {.temperature = 1.3f, .top_k = 5, .top_p = 0.9f, .repeat_penalty = 1.2f, .repeat_last_n = 4};
    RpSampler      *a = open_sampler(p, N), *b = open_sampler(p, N);
    float           cut[N];
    int             seen[N] = {0};
    for (int i = 0; i < N; i++) cut[i] = (bits[0] >> i & 1) != 0 ? logits12[i] : -INFINITY;
    rp_sampler_set_mask(a, bits);
    for (int k = 0; k < 500; k++) {
        const int32_t token = sample(a, logits12);
        cr_assert_eq(token, sample(b, cut), "sample %d", k);
        seen[token]++;
    }
    for (int i = 0; i < N; i++) cr_assert((bits[0] >> i & 1) != 0 || seen[i] == 0, "token %d", i);
    rp_sampler_set_mask(a, NULL);
    int free_again = 0;
    for (int k = 0; k < 500; k++) free_again += (bits[0] >> sample(a, logits12) & 1) == 0;
    cr_assert_gt(free_again, 0);
    rp_sampler_free(a);
    rp_sampler_free(b);
    rp_sampler_set_mask(NULL, bits);
}

Test(sampler, suppresses_nothing_without_a_list) {
    RpSampler *s = open_sampler(rp_sampler_defaults(), N);
    cr_expect_eq(rp_sampler_suppress(s, NULL), RP_OK);
    cr_expect_eq(sample(s, logits12), sample(s, logits12));
    cr_expect_eq(rp_sampler_suppress(NULL, NULL), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "rp_sampler_suppress: s is NULL");
    rp_sampler_free(s);
}

Test(sampler, a_mask_without_tokens_is_refused) {
    const uint32_t none[1] = {0};
    RpSampler     *s       = open_sampler(rp_sampler_defaults(), N);
    int32_t        token;
    rp_sampler_set_mask(s, none);
    cr_assert_eq(rp_sampler_sample(s, logits12, &token), RP_E_ARG);
    cr_assert_str_eq(rp_last_error(), "nothing to sample: each of the 12 logits is NaN or -inf");
    rp_sampler_free(s);
}

Test(sampler, refuses_missing_logits) {
    RpSampler *s     = open_sampler(rp_sampler_defaults(), 5);
    int32_t    token = 7;
    cr_expect_eq(rp_sampler_sample(s, NULL, &token), RP_E_ARG);
    cr_expect_str_eq(rp_last_error(), "rp_sampler_sample: logits is NULL");
    cr_expect_eq(token, 7);
    rp_sampler_free(s);
}
