/* sampler.c - a sampler from the options of a command. */
#include "cli/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "15043+1", "15043-2.5", "15043-inf" */
static RpStatus parse_bias(const char *text, RpLogitBias *out) {
    char *sign, *end;
    errno            = 0;
    const long token = strtol(text, &sign, 10);
    out->token       = (int32_t)token;
    out->bias        = *sign == '+' || *sign == '-' ? strtof(sign, &end) : 0.0f;
    if (sign == text || text[0] == '-' || errno == EINVAL || token > INT32_MAX || (*sign != '+' && *sign != '-') ||
        end == sign || *end != '\0')
        return rp_fail(RP_E_ARG, "--logit-bias %s: must be a token id, then + or - and a number", text);
    return RP_OK;
}

RpStatus cli_open_sampler(const SamplerArgs *a, const RpModel *m, RpSampler **out) {
    RpSamplerParams p    = a->p;
    RpLogitBias    *bias = calloc(a->bias.n + 1, sizeof *bias);
    if (bias == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu biases", a->bias.n);
    const bool none = a->breakers.n == 1 && strcmp(a->breakers.items[0], "none") == 0;
    RpStatus   st   = RP_OK;
    for (size_t i = 0; i < a->bias.n && st == RP_OK; i++) st = parse_bias(a->bias.items[i], &bias[i]);
    p.logit_bias     = bias;
    p.n_logit_bias   = a->bias.n;
    p.tokenizer      = none ? NULL : rp_model_tokenizer(m);
    p.dry_breakers   = none ? NULL : a->breakers.items;
    p.n_dry_breakers = none ? 0 : a->breakers.n;
    if (st == RP_OK) st = rp_sampler_new(&p, rp_model_info(m)->n_vocab, out);
    free(bias);
    return st;
}

void cli_free_sampler_args(SamplerArgs *a) {
    free(a->bias.items);
    free(a->breakers.items);
}

void cli_report_host_sampling(const RpGenerateResult *r) {
    if (r->host_sampling != NULL)
        cli_say("reprise", "the GPU does not sample: %s; the logits of each token are copied to the host",
                r->host_sampling);
}
