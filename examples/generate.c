/* A reply, printed as it is generated.   generate MODEL.gguf [TEXT]
 *
 * rp_generate runs the prompt, samples token by token and calls back with whole UTF-8 characters. Returning false from
 * the callback ends the reply. */
#include <reprise/reprise.h>

#include <stdio.h>
#include <string.h>

static bool print(const char *text, size_t len, void *user) {
    (void)user;
    fwrite(text, 1, len, stdout);
    fflush(stdout);
    return true;
}

static RpStatus reply(RpSession *s, RpSampler *sampler, const char *text) {
    const RpTokenizer      *tk      = rp_model_tokenizer(rp_session_model(s));
    const RpGenerateOptions options = {.max_tokens = 32, .on_text = print};
    RpTokenList             prompt  = {0};
    RpGenerateResult        result;

    if (tk == NULL) return rp_fail(RP_E_UNSUPPORTED, "the model has no tokenizer");
    RpStatus st = rp_tokenize(tk, text, strlen(text), RP_TOK_ADD_SPECIAL, &prompt);
    if (st == RP_OK) st = rp_generate(s, sampler, prompt.ids, prompt.n, &options, &result);
    if (st == RP_OK) printf("\n[%d tokens, stopped by %s]\n", result.n_generated, rp_stop_reason_name(result.reason));
    rp_token_list_free(&prompt);
    return st;
}

int main(int argc, char **argv) {
    RpModel        *model   = NULL;
    RpSession      *session = NULL;
    RpSampler      *sampler = NULL;
    RpSamplerParams params  = rp_sampler_defaults();
    params.temperature      = 0.8f;

    RpStatus st = argc > 1 ? rp_model_open(argv[1], NULL, &model) : rp_fail(RP_E_ARG, "generate MODEL.gguf [TEXT]");
    if (st == RP_OK) st = rp_session_open(model, &(RpSessionOptions){.n_ctx = 256}, &session);
    if (st == RP_OK) st = rp_sampler_new(&params, rp_model_info(model)->n_vocab, &sampler);
    if (st == RP_OK) st = reply(session, sampler, argc > 2 ? argv[2] : "Hello");
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    rp_sampler_free(sampler);
    rp_session_free(session);
    rp_model_free(model);
    return st != RP_OK;
}
