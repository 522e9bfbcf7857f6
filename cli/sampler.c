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

static bool no_breakers(const SamplerArgs *a) {
    return a->breakers.n == 1 && strcmp(a->breakers.items[0], "none") == 0;
}

/* A number of latest tokens, where -1 stands for all: a sampler keeps at most 1048576. */
static int32_t latest(int32_t n) { return n == -1 ? 1 << 20 : n; }

RpStatus cli_sampler_params(const SamplerArgs *a, RpLogitBias *bias, RpSamplerParams *out) {
    const bool none = no_breakers(a);
    for (size_t i = 0; i < a->bias.n; i++) RP_TRY(parse_bias(a->bias.items[i], &bias[i]));
    *out                    = a->p;
    out->logit_bias         = bias;
    out->n_logit_bias       = a->bias.n;
    out->dry_breakers       = none ? NULL : a->breakers.items;
    out->n_dry_breakers     = none ? 0 : a->breakers.n;
    out->repeat_last_n      = latest(out->repeat_last_n);
    out->dry_penalty_last_n = latest(out->dry_penalty_last_n);
    return RP_OK;
}

RpStatus cli_use_recommended(SamplerArgs *a, const RpModel *m, bool quiet) {
    char said[512];
    RP_TRY(rp_sampler_recommended(rp_model_file(m), &a->p, said, sizeof said));
    if (said[0] != '\0' && !quiet) cli_say("reprise", "sampling as the model recommends: %s", said);
    return RP_OK;
}

RpStatus cli_open_sampler(const SamplerArgs *a, const RpModel *m, RpSampler **out) {
    RpSamplerParams p;
    RpLogitBias    *bias = calloc(a->bias.n + 1, sizeof *bias);
    if (bias == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu biases", a->bias.n);
    RpStatus st = cli_sampler_params(a, bias, &p);
    p.tokenizer = no_breakers(a) ? NULL : rp_model_tokenizer(m);
    if (st == RP_OK) st = rp_sampler_new(&p, rp_model_info(m)->n_vocab, out);
    free(bias);
    return st;
}

void cli_free_sampler_args(SamplerArgs *a) {
    free(a->bias.items);
    free(a->breakers.items);
}

void cli_report_tools(void) {
    cli_say("reprise", "the chat template has no tools: a message describes them, and calls have the format hermes");
}

void cli_report_note(const char *text, void *user) {
    (void)user;
    cli_say("reprise", "note: %s", text);
}

void cli_report_host_sampling(const RpGenerateResult *r) {
    if (r->host_sampling != NULL)
        cli_say("reprise", "the GPU does not sample: %s; the logits of each token are copied to the host",
                r->host_sampling);
}
