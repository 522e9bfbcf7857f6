/* The parameters of a chain: their ranges, and what of them is in use. */
#include "model/sampler/chain.h"

#include "reprise/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Range {
    const char *name;
    float       value, least, most;
    const char *text;
} Range;

static RpStatus check_arrays(const RpSamplerParams *p, int32_t n_vocab) {
    if (p->n_dry_breakers > 0 && p->dry_breakers == NULL)
        return rp_fail(RP_E_ARG, "dry_breakers: %zu strings at NULL", p->n_dry_breakers);
    if (p->n_dry_breakers > 0 && p->tokenizer == NULL)
        return rp_fail(RP_E_ARG, "dry_breakers: the sampler has no tokenizer to find their tokens");
    for (size_t i = 0; i < p->n_dry_breakers; i++)
        if (p->dry_breakers[i] == NULL || p->dry_breakers[i][0] == '\0' || strlen(p->dry_breakers[i]) > 40)
            return rp_fail(RP_E_ARG, "dry_breakers: string %zu must have from 1 to 40 bytes", i);
    if (p->tokenizer != NULL && rp_tokenizer_n_vocab(p->tokenizer) > n_vocab)
        return rp_fail(RP_E_ARG, "the tokenizer has %d tokens, the sampler %d", rp_tokenizer_n_vocab(p->tokenizer),
                       n_vocab);
    if (p->n_logit_bias > 0 && p->logit_bias == NULL)
        return rp_fail(RP_E_ARG, "logit_bias: %zu pairs at NULL", p->n_logit_bias);
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const RpLogitBias *b = &p->logit_bias[i];
        if (b->token < 0 || b->token >= n_vocab)
            return rp_fail(RP_E_ARG, "logit_bias: token %d: must be from 0 to %d", b->token, n_vocab - 1);
        if (isnan(b->bias)) return rp_fail(RP_E_ARG, "logit_bias: the bias of token %d is NaN", b->token);
    }
    return RP_OK;
}

/* Each condition is written so that NaN fails it (I11). */
RpStatus rp_chain_check(const RpSamplerParams *p, int32_t n_vocab) {
    const float dry      = p->dry_multiplier != 0.0f ? 1.0f : 0.0f; /* a program that knows no DRY leaves a base of 0 */
    const Range ranges[] = {
        {"typical_p",         p->typical_p,         0.0f,  1.0f, "from 0 to 1"     },
        {"top_n_sigma",       p->top_n_sigma,       0.0f,  1e6f, "from 0 to 1e6"   },
        {"frequency_penalty", p->frequency_penalty, -1e6f, 1e6f, "from -1e6 to 1e6"},
        {"presence_penalty",  p->presence_penalty,  -1e6f, 1e6f, "from -1e6 to 1e6"},
        {"dry_multiplier",    p->dry_multiplier,    0.0f,  1e6f, "from 0 to 1e6"   },
        {"dry_base",          p->dry_base,          dry,   1e6f, "from 1 to 1e6"   },
        {"xtc_probability",   p->xtc_probability,   0.0f,  1.0f, "from 0 to 1"     },
        {"xtc_threshold",     p->xtc_threshold,     0.0f,  1.0f, "from 0 to 1"     },
        {"mirostat_tau",      p->mirostat_tau,      0.0f,  1e6f, "from 0 to 1e6"   },
        {"mirostat_eta",      p->mirostat_eta,      0.0f,  1e6f, "from 0 to 1e6"   },
        {"dynatemp_range",    p->dynatemp_range,    0.0f,  1e6f, "from 0 to 1e6"   },
        {"dynatemp_exponent", p->dynatemp_exponent, 0.0f,  1e6f, "from 0 to 1e6"   },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most))
            return rp_fail(RP_E_ARG, "%s %g: must be %s", ranges[i].name, (double)ranges[i].value, ranges[i].text);
    if (p->dry_allowed_length < 0)
        return rp_fail(RP_E_ARG, "dry_allowed_length %d: must be at least 0", p->dry_allowed_length);
    if (p->dry_penalty_last_n < 0 || p->dry_penalty_last_n > MAX_LAST_N)
        return rp_fail(RP_E_ARG, "dry_penalty_last_n %d: must be from 0 to %d", p->dry_penalty_last_n, MAX_LAST_N);
    if (p->min_keep < 0) return rp_fail(RP_E_ARG, "min_keep %d: must be at least 0", p->min_keep);
    if (p->mirostat != 0 && p->mirostat != 2) return rp_fail(RP_E_ARG, "mirostat %d: must be 0 or 2", p->mirostat);
    return check_arrays(p, n_vocab);
}

static void add_why(Chain *chain, bool used, const char *name) {
    const size_t n = strlen(chain->why);
    if (used) snprintf(chain->why + n, sizeof chain->why - n, "%s%s", n > 0 ? ", " : "", name);
}

static void find_why(Chain *chain, const RpSamplerParams *p) {
    add_why(chain, p->logit_bias != NULL && p->n_logit_bias > 0, "logit_bias");
    add_why(chain, p->dry_multiplier > 0.0f && p->dry_penalty_last_n > 0, "dry_multiplier");
    add_why(chain, p->top_n_sigma > 0.0f, "top_n_sigma");
    add_why(chain, p->typical_p > 0.0f && p->typical_p < 1.0f, "typical_p");
    add_why(chain, p->xtc_probability > 0.0f, "xtc_probability");
    add_why(chain, p->dynatemp_range > 0.0f, "dynatemp_range");
    add_why(chain, p->min_keep > 1, "min_keep");
    add_why(chain, p->mirostat != 0, "mirostat");
    add_why(chain, p->samplers != NULL, "samplers");
    /* the op has these two, but counts by comparing all pairs of recent tokens */
    chain->used = chain->why[0] != '\0' || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f;
}

RpStatus rp_chain_open(Chain *chain, const RpSamplerParams *p, int32_t n_vocab) {
    RpStatus st;
    *chain         = (Chain){.p = *p, .n_vocab = n_vocab, .n_bias = p->n_logit_bias, .mu = 2.0f * p->mirostat_tau};
    chain->n_steps = rp_chain_order(p->samplers, chain->order, &st);
    if (p->mirostat != 0) rp_chain_mirostat_order(chain);
    chain->p.dry_breakers = NULL;
    chain->p.tokenizer    = NULL;
    chain->p.logit_bias   = NULL;
    chain->p.samplers     = NULL;
    RP_TRY(st);
    find_why(chain, p);
    if (!chain->used) return RP_OK;
    chain->counts = calloc((size_t)n_vocab, sizeof *chain->counts);
    chain->logits = malloc((size_t)n_vocab * sizeof *chain->logits);
    chain->bias   = malloc((chain->n_bias + 1) * sizeof *chain->bias);
    if (chain->counts == NULL || chain->logits == NULL || chain->bias == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for a sampler of %d tokens", n_vocab);
    if (chain->n_bias > 0) memcpy(chain->bias, p->logit_bias, chain->n_bias * sizeof *chain->bias);
    return rp_dry_open(&chain->dry, p);
}

void rp_chain_close(Chain *chain) {
    free(chain->counts);
    free(chain->logits);
    free(chain->bias);
    rp_dry_close(&chain->dry);
}

void rp_chain_reset(Chain *chain) {
    chain->dry.n = chain->dry.next = 0;
    chain->mu                      = 2.0f * chain->p.mirostat_tau;
}

void rp_chain_accept(Chain *chain, int32_t token) { rp_dry_accept(&chain->dry, token); }
