/* The sampler on the host: a step state in host memory, and the CPU kernel of the op `sample` run on it. A
 * device runs the same op on its own copy of the step state. Steps that the op does not have run as a chain (chain.h).
 *
 *     words:  RpStepState [RP_STEP_WORDS] (parameters, random counter), recent tokens [repeat_last_n] as a ring
 */
#include "reprise/sampler.h"

#include "base/argument.h"

#include "base/sized.h"
#include "model/sampler/chain.h"
#include "model/sampler/sampler.h"
#include "reprise/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct RpSampler {
    int32_t         n_vocab;
    int32_t        *words;   /* the step state */
    void           *scratch; /* [2 * n_vocab] f32: candidates of one call; behind them [n_vocab] f32: masked logits */
    const uint32_t *mask;    /* bits of n_vocab, borrowed; NULL: every token is allowed */
    uint32_t       *allowed; /* bits of all tokens but suppressed ones, then room for those of mask_of; or NULL */
    RpTensorView    step, candidates;
    Chain           chain;

    bool    used;  /* it has accepted a token since it was made or reset */
    bool    ended; /* the token accepted last ended a reply, and has this position */
    int32_t end_token;
    size_t  end_pos;

    RpSampleObserver *observer; /* or NULL */
    void             *user;     /* of it */
};

void rp_sampler_defaults_sized(RpSamplerParams *out, size_t out_bytes) {
    const RpSamplerParams p = {.top_p              = 1.0f,
                               .repeat_penalty     = 1.0f,
                               .repeat_last_n      = 64,
                               .dry_base           = 1.75f,
                               .dry_allowed_length = 2,
                               .dry_penalty_last_n = 64,
                               .xtc_threshold      = 0.1f,
                               .mirostat_tau       = 5.0f,
                               .mirostat_eta       = 0.1f,
                               .dynatemp_exponent  = 1.0f};
    rp_sized_out(out, out_bytes, &p, sizeof p);
}

static RpStepState *state(RpSampler *s) { return (RpStepState *)(void *)s->words; }

static void set_state(RpStepState *s, const RpSamplerParams *p) {
    *s = (RpStepState){.temperature    = p->temperature,
                       .top_k          = p->top_k,
                       .top_p          = p->top_p,
                       .min_p          = p->min_p,
                       .repeat_penalty = p->repeat_penalty,
                       .repeat_last_n  = p->repeat_last_n,
                       .seed_low       = (uint32_t)p->seed,
                       .seed_high      = (uint32_t)(p->seed >> 32)};
}

RpStatus rp_sampler_new_sized(const RpSamplerParams *params, size_t params_bytes, int32_t n_vocab, RpSampler **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(params, "params");

    RpSamplerParams p;
    RP_TRY(rp_sized_in(&p, sizeof p, params, params_bytes, "RpSamplerParams"));
    RpStepState first;
    set_state(&first, &p);
    if (n_vocab < 1) return rp_fail(RP_E_ARG, "sampler: a vocabulary of %d tokens", n_vocab);
    RP_TRY(rp_step_check(&first, NULL, MAX_LAST_N, n_vocab));
    RP_TRY(rp_chain_check(&p, n_vocab));
    const int64_t n_words = RP_STEP_WORDS + p.repeat_last_n;
    RpSampler    *s       = calloc(1, sizeof *s);
    if (s != NULL) {
        s->n_vocab    = n_vocab;
        s->words      = calloc((size_t)n_words, sizeof *s->words);
        s->scratch    = malloc(3 * (size_t)n_vocab * sizeof(float));
        s->step       = rp_view_contiguous(RP_I32, (int64_t[]){n_words, 1, 1, 1}, s->words);
        s->candidates = rp_view_contiguous(RP_F32, (int64_t[]){2 * (int64_t)n_vocab, 1, 1, 1}, s->scratch);
    }
    if (s == NULL || s->words == NULL || s->scratch == NULL) {
        rp_sampler_free(s);
        return rp_fail(RP_E_NOMEM, "out of memory for a sampler of %d tokens", n_vocab);
    }
    const RpStatus st = rp_chain_open(&s->chain, &p, n_vocab);
    if (st != RP_OK) {
        rp_sampler_free(s);
        return st;
    }
    *state(s) = first;
    *out      = s;
    return RP_OK;
}

void rp_sampler_free(RpSampler *s) {
    if (s == NULL) return;
    rp_chain_close(&s->chain);
    free(s->words);
    free(s->scratch);
    free(s->allowed);
    free(s);
}

int32_t rp_sampler_n_vocab(const RpSampler *s) { return s != NULL ? s->n_vocab : 0; }

/* The ring is empty and the random sequence starts again; the parameters stay. */
void rp_sampler_reset(RpSampler *s) {
    if (s == NULL) return;
    RpStepState *st = state(s);
    st->n_recent = st->next_recent = 0;
    st->drawn_low = st->drawn_high = 0;
    s->used = s->ended = false;
    rp_chain_reset(&s->chain);
}

void rp_sampler_accept(RpSampler *s, int32_t token) {
    if (s == NULL) return;
    if (token < 0 || token >= s->n_vocab) return;
    rp_step_accept(state(s), s->words + RP_STEP_WORDS, token);
    rp_chain_accept(&s->chain, token);
    s->used  = true;
    s->ended = false;
}

bool rp_sampler_is_new(const RpSampler *s) { return !s->used; }

void rp_sampler_end_reply(RpSampler *s, size_t pos, int32_t token) {
    s->ended     = true;
    s->end_token = token;
    s->end_pos   = pos;
}

int32_t rp_sampler_reply_end(const RpSampler *s, size_t pos) {
    return s->ended && s->end_pos == pos ? s->end_token : -1;
}

void rp_sampler_observe(RpSampler *s, RpSampleObserver *observer, void *user) {
    if (s == NULL) return;
    s->observer = observer;
    s->user     = user;
}

bool rp_sampler_is_observed(const RpSampler *s) { return s->observer != NULL; }

static void tell(const RpSampler *s, const float *logits, int32_t token, bool forced) {
    if (s->observer == NULL) return;
    s->observer(&(RpSampledToken){.token   = token,
                                  .n_vocab = s->n_vocab,
                                  .logits  = logits,
                                  .forced  = forced,
                                  .masked  = !forced && s->mask != NULL},
                s->user);
}

void rp_sampler_force(RpSampler *s, const float *logits, int32_t token) {
    rp_sampler_accept(s, token);
    tell(s, logits, token, true);
}

const char *rp_sampler_host_only(const RpSampler *s) { return s == NULL ? "" : s->chain.why; }

/* Repeats on the host what the device did when it sampled `token`: one random number unless greedy, and the
 * ring. */
void rp_sampler_follow(RpSampler *s, int32_t token) {
    if (s == NULL) return;
    RpStepState *st = state(s);
    if (st->temperature != 0.0f && st->top_k != 1 && ++st->drawn_low == 0) st->drawn_high++;
    rp_sampler_accept(s, token);
}

const int32_t *rp_sampler_state(const RpSampler *s, size_t *n_words) {
    if (s == NULL || n_words == NULL) return NULL;
    *n_words = (size_t)s->step.ne[0];
    return s->words;
}

void rp_sampler_set_mask(RpSampler *s, const uint32_t *bits) {
    if (s != NULL) s->mask = bits;
}

static size_t mask_words(const RpSampler *s) { return ((size_t)s->n_vocab + 31) / 32; }

RpStatus rp_sampler_suppress(RpSampler *s, const RpTokenizer *tk) {
    RP_NOT_NULL(s, "s");

    size_t         n;
    const int32_t *tokens  = rp_tokenizer_suppressed(tk, &n);
    uint32_t      *allowed = n > 0 ? malloc(2 * mask_words(s) * sizeof *allowed) : NULL;
    if (n > 0 && allowed == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a mask of %d tokens", s->n_vocab);
    if (n > 0) memset(allowed, 0xff, mask_words(s) * sizeof *allowed);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < s->n_vocab) allowed[tokens[i] / 32] &= ~(1u << (tokens[i] % 32));
    free(s->allowed);
    s->allowed = allowed;
    return RP_OK;
}

/* The tokens that the caller's mask allows, without suppressed ones; NULL: all. Not kept from token to token, since the
 * caller changes the bits of a mask. */
static const uint32_t *mask_of(const RpSampler *s) {
    if (s->allowed == NULL) return s->mask;
    if (s->mask == NULL) return s->allowed;
    uint32_t *both = s->allowed + mask_words(s);
    for (size_t i = 0; i < mask_words(s); i++) both[i] = s->allowed[i] & s->mask[i];
    return both;
}

const uint32_t *rp_sampler_extra(const RpSampler *s, RpSampleExtra *out) {
    const uint32_t *mask = mask_of(s);
    *out                 = (RpSampleExtra){.masked            = mask != NULL,
                                           .frequency_penalty = s->chain.p.frequency_penalty,
                                           .presence_penalty  = s->chain.p.presence_penalty};
    return mask;
}

/* The logits, -inf where the mask has a 0: the caller's array if there is no mask, else a copy. */
static const float *masked(RpSampler *s, const float *logits) {
    float          *out  = (float *)s->scratch + 2 * (size_t)s->n_vocab;
    const uint32_t *mask = mask_of(s);
    if (mask == NULL) return logits;
    for (int32_t i = 0; i < s->n_vocab; i++) out[i] = (mask[i / 32] >> (i % 32) & 1) != 0 ? logits[i] : -INFINITY;
    return out;
}

static RpStatus sample_chain(RpSampler *s, const float *logits, int32_t *token) {
    ChainRun r = {
        .state = state(s), .recent = s->words + RP_STEP_WORDS, .logits = logits, .mask = mask_of(s), .c = s->scratch};
    if (rp_chain_filter(&s->chain, &r) == 0)
        return rp_fail(RP_E_ARG, "nothing to sample: each of the %d logits is NaN or -inf", s->n_vocab);
    *token = rp_chain_choose(&s->chain, &r);
    state(s)->pos++;
    rp_sampler_accept(s, *token);
    return RP_OK;
}

static RpStatus sample_op(RpSampler *s, const float *logits, int32_t *token) {
    logits              = masked(s, logits);
    const RpOpArgs args = {
        .dst = s->step,
        .src = {rp_view_contiguous(RP_F32, (int64_t[]){s->n_vocab, 1, 1, 1}, (void *)(uintptr_t)logits), s->step,
                s->candidates}
    };
    RP_TRY(rp_cpu_kernel(RP_OP_SAMPLE)(&args, &(RpKernelCtx){.nth = 1}));
    *token   = state(s)->token;
    s->used  = true;
    s->ended = false;
    return RP_OK;
}

RpStatus rp_sampler_sample(RpSampler *s, const float *logits, int32_t *token) {
    RP_NOT_NULL(s, "s");
    RP_NOT_NULL(logits, "logits");
    RP_NOT_NULL(token, "token");

    RP_TRY(s->chain.used ? sample_chain(s, logits, token) : sample_op(s, logits, token));
    tell(s, logits, *token, false);
    return RP_OK;
}

float rp_random_uniform(uint64_t seed, uint64_t counter) { return rp_philox_uniform(seed, counter); }
