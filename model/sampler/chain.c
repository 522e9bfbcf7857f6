/* The steps of llama.cpp's samplers, on candidates that are never sorted as a whole. A step that is off does nothing.
 *
 *     dense     c[i] is token i: bias, mask, penalties and DRY change logits
 *     settled   the finite logits only, in any order: the steps that drop candidates
 *     sorted    after top-p
 */
#include "model/sampler/chain.h"

#include <math.h>
#include <string.h>

static CandidateScale scale_of(const ChainRun *r) {
    const float max = r->sorted ? r->c[0].logit : rp_candidates_first(r->c, r->n).logit;
    return (CandidateScale){max, r->temperature};
}

/* ln of the probability of a logit, relative to the largest: 0 for that one, also if it is +inf. */
static double log_probability(const CandidateScale *s, float logit) {
    return logit == s->max ? 0.0 : ((double)logit - (double)s->max) / (double)s->temperature;
}

static double sum_of(const ChainRun *r, const CandidateScale *s) {
    double sum = 0.0;
    for (int32_t i = 0; i < r->n; i++) sum += exp(log_probability(s, r->c[i].logit));
    return sum;
}

/* Entropy in nats: ln(sum) - sum of e^d d / sum, over d = ln of the relative probability. */
static double entropy_of(const ChainRun *r, const CandidateScale *s, double *log_sum) {
    double sum = 0.0, weighted = 0.0;
    for (int32_t i = 0; i < r->n; i++) {
        const double d = log_probability(s, r->c[i].logit), e = exp(d);
        sum += e;
        if (e > 0.0) weighted += e * d;
    }
    *log_sum = log(sum);
    return *log_sum - weighted / sum;
}

static float uniform(ChainRun *r) {
    const uint64_t counter = rp_step_drawn(r->state);
    r->state->drawn_low    = (uint32_t)(counter + 1);
    r->state->drawn_high   = (uint32_t)((counter + 1) >> 32);
    return rp_philox_uniform(rp_step_seed(r->state), counter);
}

/* ---- steps that change logits ---- */

/* Calls `change` on the candidate of each token whose count is not 0. */
static void for_counted(Chain *chain, ChainRun *r, const int32_t *tokens, int32_t n,
                        float (*change)(const Chain *chain, float logit, int32_t count)) {
    int32_t *counts = chain->counts;
    if (!r->dense) {
        for (int32_t i = 0; i < r->n; i++)
            if (counts[r->c[i].id] > 0) r->c[i].logit = change(chain, r->c[i].logit, counts[r->c[i].id]);
        r->sorted = false;
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t *count = &counts[tokens[i]];
        if (*count <= 0) continue;
        r->c[tokens[i]].logit = change(chain, r->c[tokens[i]].logit, *count);
        *count                = -*count; /* once */
    }
}

/* Penalties behind the temperature are subtracted from logits that were divided by it. */
static void divide(ChainRun *r) {
    for (int32_t i = 0; r->temperature != 1.0f && i < r->n; i++) r->c[i].logit /= r->temperature;
    r->temperature = 1.0f;
}

static float penalise(const Chain *chain, float logit, int32_t count) {
    const RpSamplerParams *p = &chain->p;
    return rp_step_penalise(logit, p->repeat_penalty, p->frequency_penalty, p->presence_penalty, count);
}

static void penalties(Chain *chain, ChainRun *r) {
    const RpSamplerParams *p = &chain->p;
    if (p->repeat_penalty == 1.0f && p->frequency_penalty == 0.0f && p->presence_penalty == 0.0f) return;
    for (int32_t i = 0; i < r->state->n_recent; i++) chain->counts[r->recent[i]]++;
    divide(r);
    for_counted(chain, r, r->recent, r->state->n_recent, penalise);
    for (int32_t i = 0; i < r->state->n_recent; i++) chain->counts[r->recent[i]] = 0;
}

static float penalise_repetition(const Chain *chain, float logit, int32_t count) {
    return logit - rp_dry_penalty(&chain->dry, count - 1);
}

static void dry(Chain *chain, ChainRun *r) {
    Dry *d = &chain->dry;
    if (d->last_n == 0 || !rp_dry_lengths(d, chain->counts)) return;
    divide(r);
    for_counted(chain, r, d->latest, d->n, penalise_repetition);
    rp_dry_forget(d, chain->counts);
}

static void temperature(Chain *chain, ChainRun *r) {
    const RpSamplerParams *p = &chain->p;
    double                 t = (double)p->temperature, log_sum;
    if (p->dynatemp_range > 0.0f && p->mirostat == 0) {
        if (r->n < 2) return;
        const double         range = (double)p->dynatemp_range, low = fmax(0.0, t - range), high = t + range;
        const CandidateScale s = scale_of(r);
        const double         h = fmax(0.0, entropy_of(r, &s, &log_sum)) / log((double)r->n);
        t                      = low + (high - low) * pow(h, (double)p->dynatemp_exponent);
    }
    if ((float)t > 0.0f) {
        r->temperature *= (float)t;
        return;
    }
    r->c[0]   = rp_candidates_first(r->c, r->n);
    r->n      = 1;
    r->greedy = true;
}

/* ---- steps that drop candidates ---- */

/* Keeps logits of at least max - n standard deviations (Tang et al. 2024, arXiv:2411.07641). */
static void top_n_sigma(Chain *chain, ChainRun *r) {
    const float n = chain->p.top_n_sigma;
    if (n <= 0.0f || r->n < 2) return;
    double sum = 0.0, squares = 0.0;
    for (int32_t i = 0; i < r->n; i++) sum += (double)r->c[i].logit;
    const double mean = sum / r->n;
    for (int32_t i = 0; i < r->n; i++) squares += ((double)r->c[i].logit - mean) * ((double)r->c[i].logit - mean);
    const float limit = (float)((double)scale_of(r).max - (double)n * sqrt(squares / r->n));
    int32_t     kept  = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (!(r->c[i].logit < limit)) r->c[kept++] = r->c[i];
    r->n = kept;
}

static void top_k(Chain *chain, ChainRun *r) {
    const int32_t k = chain->p.top_k;
    if (k == 0 || k >= r->n) return;
    if (!r->sorted) rp_candidates_top_k(r->c, r->n, k);
    r->n = k;
}

/* Keeps the fewest candidates that sum to more than typical_p, those whose surprise is nearest to the entropy first
 * (Meister et al. 2022, arXiv:2202.00666). They take the distance, negated, as their logit while a heap orders them. */
static void typical_p(Chain *chain, ChainRun *r) {
    const double wanted = (double)chain->p.typical_p;
    if (wanted == 0.0 || wanted == 1.0) return;
    double               log_sum, mass = 0.0;
    int32_t              kept    = 0;
    const CandidateScale s       = scale_of(r);
    const double         entropy = entropy_of(r, &s, &log_sum);
    for (int32_t i = 0; i < r->n; i++) {
        Candidate *c         = &r->c[i];
        chain->logits[c->id] = c->logit;
        c->logit             = -(float)fabs(log_sum - log_probability(&s, c->logit) - entropy);
    }
    rp_candidates_heap(r->c, r->n);
    while (kept < r->n && (kept < chain->p.min_keep || mass <= wanted)) {
        const Candidate c = rp_candidates_pop(r->c, r->n - kept++);
        mass += exp(log_probability(&s, chain->logits[c.id]) - log_sum);
    }
    rp_candidates_reverse(r->c, r->n);
    r->n      = kept;
    r->sorted = false;
    for (int32_t i = 0; i < r->n; i++) r->c[i].logit = chain->logits[r->c[i].id];
}

static int32_t keep_at_least(const Chain *chain, const ChainRun *r) {
    const int32_t least = chain->p.min_keep > 1 ? chain->p.min_keep : 1;
    return least < r->n ? least : r->n;
}

static void top_p(Chain *chain, ChainRun *r) {
    if (chain->p.top_p >= 1.0f) return;
    const CandidateScale s = scale_of(r);
    r->n                   = rp_candidates_top_p(r->c, r->n, &s, chain->p.top_p, 0.0f, keep_at_least(chain, r));
    r->sorted              = true;
}

static void min_p(Chain *chain, ChainRun *r) {
    const double least = fmax((double)chain->p.min_p, 0x1p-40);
    if (chain->p.min_p == 0.0f) return;
    const CandidateScale s    = scale_of(r);
    const int32_t        keep = keep_at_least(chain, r);
    int32_t              n    = 0;
    for (int32_t i = 0; i < r->n && keep > 1; i++) n += exp(log_probability(&s, r->c[i].logit)) >= least;
    if (n >= keep || keep == 1) {
        r->n = rp_candidates_drop(r->c, r->n, &s, least);
        return;
    }
    if (!r->sorted) rp_candidates_top_k(r->c, r->n, keep);
    r->n = keep;
}

/* Exclude top choices (p-e-w, github.com/oobabooga/text-generation-webui/pull/6335): with a probability, drops all
 * candidates of at least the threshold but the least probable one of them. */
static void xtc(Chain *chain, ChainRun *r) {
    const RpSamplerParams *p = &chain->p;
    if (p->xtc_probability == 0.0f || p->xtc_threshold > 0.5f || r->n < 2) return;
    if (uniform(r) >= p->xtc_probability) return;
    const CandidateScale s     = scale_of(r);
    const double         least = (double)p->xtc_threshold * sum_of(r, &s);
    int32_t              above = 0, last = -1, kept = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (exp(log_probability(&s, r->c[i].logit)) < least) continue;
        above++;
        if (last < 0 || rp_candidate_before(r->c[last], r->c[i])) last = i;
    }
    if (above < 2 || r->n - (above - 1) < p->min_keep) return;
    for (int32_t i = 0; i < r->n; i++)
        if (i == last || exp(log_probability(&s, r->c[i].logit)) < least) r->c[kept++] = r->c[i];
    r->n = kept;
}

/* Mirostat 2 (Basu et al. 2021, arXiv:2007.14966): drops candidates whose surprise in bits exceeds mu. */
static void mirostat(Chain *chain, ChainRun *r) {
    const CandidateScale s    = scale_of(r);
    const double         sum  = sum_of(r, &s);
    const Candidate      best = rp_candidates_first(r->c, r->n);
    int32_t              kept = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (!(-log2(exp(log_probability(&s, r->c[i].logit)) / sum) > (double)chain->mu)) r->c[kept++] = r->c[i];
    if (kept == 0) r->c[kept++] = best;
    r->n = kept;
}

/* ---- their order ---- */

typedef struct Step {
    const char *name;
    bool        drops; /* takes settled candidates */
    void (*run)(Chain *chain, ChainRun *r);
} Step;

enum { N_STEPS = 10, MIROSTAT = N_STEPS - 1, TEMPERATURE = MIROSTAT - 1 };

/* In the default order; mirostat has an order of its own. */
static const Step steps[N_STEPS] = {
    {"penalties",   false, penalties  },
    {"dry",         false, dry        },
    {"top_n_sigma", true,  top_n_sigma},
    {"top_k",       true,  top_k      },
    {"typ_p",       true,  typical_p  },
    {"top_p",       true,  top_p      },
    {"min_p",       true,  min_p      },
    {"xtc",         true,  xtc        },
    {"temperature", true,  temperature},
    {"",            true,  mirostat   }
};

/* Other names that llama.cpp has for the steps, and its steps that do nothing here: what they need is never set. */
static const char *const other_names[][2] = {
    {"top-k",       "top_k"      },
    {"top-p",       "top_p"      },
    {"nucleus",     "top_p"      },
    {"min-p",       "min_p"      },
    {"temp",        "temperature"},
    {"typ",         "typ_p"      },
    {"typ-p",       "typ_p"      },
    {"typical",     "typ_p"      },
    {"typical-p",   "typ_p"      },
    {"infill",      ""           },
    {"adaptive_p",  ""           },
    {"adaptive-p",  ""           },
    {"top-n-sigma", "top_n_sigma"},
};

/* Its number; MIROSTAT, whose name is empty: it is left out; N_STEPS: there is none. */
static int8_t step_of(const char *name, size_t len) {
    for (size_t k = 0; k < sizeof other_names / sizeof other_names[0]; k++) {
        if (strlen(other_names[k][0]) != len || memcmp(other_names[k][0], name, len) != 0) continue;
        name = other_names[k][1];
        len  = strlen(name);
        if (len == 0) return MIROSTAT;
    }
    int8_t i = 0;
    while (i < MIROSTAT && (strlen(steps[i].name) != len || memcmp(steps[i].name, name, len) != 0)) i++;
    return i < MIROSTAT ? i : N_STEPS;
}

int rp_chain_order(const char *text, int8_t order[MAX_STEPS], RpStatus *st) {
    int  n             = 0;
    bool seen[N_STEPS] = {false};
    *st                = RP_OK;
    for (int8_t i = 0; text == NULL && i < MIROSTAT; i++) order[n++] = i;
    while (text != NULL && *text != '\0') {
        const size_t len = strcspn(text, ";");
        const int8_t i   = step_of(text, len);
        if (i == N_STEPS)
            *st = rp_fail(RP_E_ARG,
                          "samplers: `%.*s` is none of penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, "
                          "temperature",
                          (int)(len < 64 ? len : 64), text);
        else if (seen[i])
            *st = rp_fail(RP_E_ARG, "samplers: `%s` twice", steps[i].name);
        if (*st != RP_OK) return 0;
        text += len + (text[len] == ';');
        if (i == MIROSTAT) continue;
        seen[i]    = true;
        order[n++] = i;
    }
    return n;
}

void rp_chain_mirostat_order(Chain *chain) {
    chain->order[0] = TEMPERATURE;
    chain->order[1] = MIROSTAT;
    chain->n_steps  = 2;
}

/* Every token that the mask allows, with its bias. NaN counts as -inf. */
static void fill(const Chain *chain, ChainRun *r) {
    const int32_t n = chain->n_vocab;
    for (int32_t i = 0; i < n; i++) r->c[i] = (Candidate){.logit = r->logits[i], .id = i};
    for (size_t i = 0; i < chain->n_bias; i++) r->c[chain->bias[i].token].logit += chain->bias[i].bias;
    for (int32_t i = 0; r->mask != NULL && i < n; i++)
        if ((r->mask[i / 32] >> (i % 32) & 1) == 0) r->c[i].logit = -INFINITY;
    r->n           = n;
    r->temperature = 1.0f;
    r->dense       = true;
    r->sorted = r->greedy = false;
}

static void settle(ChainRun *r) {
    int32_t kept = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->c[i].logit > -INFINITY) r->c[kept++] = r->c[i];
    r->n     = kept;
    r->dense = false;
}

int32_t rp_chain_filter(Chain *chain, ChainRun *r) {
    fill(chain, r);
    for (int i = 0; i < chain->n_steps && r->n > 0; i++) {
        const Step *step = &steps[chain->order[i]];
        if (step->drops && r->dense) settle(r);
        if (r->n > 0) step->run(chain, r);
    }
    settle(r); /* penalties may have come last */
    return r->n;
}

double rp_chain_probability(const ChainRun *r, int32_t i) {
    const CandidateScale s = scale_of(r);
    return exp(log_probability(&s, r->c[i].logit)) / sum_of(r, &s);
}

static void learn(Chain *chain, double probability) {
    chain->mu -= chain->p.mirostat_eta * ((float)-log2(probability) - chain->p.mirostat_tau);
}

void rp_chain_observe(Chain *chain, const ChainRun *r, int32_t i) {
    if (chain->p.mirostat != 0) learn(chain, rp_chain_probability(r, i));
}

int32_t rp_chain_choose(Chain *chain, ChainRun *r) {
    int32_t              i     = 0;
    const CandidateScale s     = scale_of(r);
    const double         sum   = chain->p.mirostat != 0 ? sum_of(r, &s) : 0.0; /* the choice changes r->c */
    const int32_t        token = r->greedy ? r->c[0].id : rp_candidates_choose(r->c, r->n, &s, uniform(r), r->sorted);
    if (chain->p.mirostat == 0) return token;
    while (r->c[i].id != token) i++;
    learn(chain, exp(log_probability(&s, r->c[i].logit)) / sum);
    return token;
}
