/* Prints eight tokens after a text, sampled greedily:   decode MODEL.gguf [TEXT]
 *
 * Flow: tokenize -> prefill -> sample from the logits -> print -> step, which appends the token and gives new
 * logits. */
#include "reprise/session.h"

#include <stdio.h>
#include <string.h>

static RpStatus decode(const RpModel *m, const char *text) {
    const RpTokenizer *tk      = rp_model_tokenizer(m);
    RpTokenList        prompt  = {0};
    RpSession         *session = NULL;
    RpSampler         *sampler = NULL;
    RpSamplerParams    params  = rp_sampler_defaults();
    int32_t            token;

    if (tk == NULL) return rp_fail(RP_E_UNSUPPORTED, "the model has no tokenizer");
    RpStatus st = rp_tokenize(tk, text, strlen(text), RP_TOK_ADD_SPECIAL, &prompt);
    if (st == RP_OK) st = rp_sampler_new(&params, rp_model_info(m)->n_vocab, &sampler);
    if (st == RP_OK) st = rp_session_open(m, &(RpSessionOptions){.n_ctx = 128}, &session);
    if (st == RP_OK) st = rp_session_prefill(session, prompt.ids, prompt.n, NULL, NULL);
    for (int i = 0; i < 8 && st == RP_OK; i++) {
        RpGgufString piece = {"", 0};
        st                 = rp_sampler_sample(sampler, rp_session_logits(session), &token);
        if (st == RP_OK) st = rp_token_bytes(tk, token, true, &piece);
        printf("%.*s", (int)piece.len, piece.ptr);
        if (st == RP_OK) st = rp_session_step(session, token);
    }
    printf("\n");
    rp_session_free(session);
    rp_sampler_free(sampler);
    rp_token_list_free(&prompt);
    return st;
}

int main(int argc, char **argv) {
    RpModel *m  = NULL;
    RpStatus st = argc > 1 ? rp_model_open(argv[1], NULL, &m) : rp_fail(RP_E_ARG, "decode MODEL.gguf [TEXT]");
    if (st == RP_OK) st = decode(m, argc > 2 ? argv[2] : "Hello");
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    rp_model_free(m);
    return st != RP_OK;
}
