/* Logits of every token of a batch of sequences: logits[b][t][v], f32, from an empty context for each b. */
#include "reprise/session.h"

#include "base/argument.h"

#include <string.h>

typedef struct Sink {
    float *logits;
    size_t n_vocab;
} Sink;

static void store_logits(size_t i, const float *logits, void *user) {
    const Sink *s = user;
    memcpy(s->logits + i * s->n_vocab, logits, s->n_vocab * sizeof *logits);
}

RpStatus rp_model_logits(const RpModel *m, const int32_t *ids, size_t batch, size_t seq, float *logits) {
    RP_NOT_NULL(m, "m");
    RP_NOT_NULL(ids, "ids");
    RP_NOT_NULL(logits, "logits");

    const size_t n_vocab = (size_t)rp_model_info(m)->n_vocab;
    RpSession   *s;
    if (seq > (size_t)rp_model_info(m)->n_ctx_train)
        return rp_fail(RP_E_ARG, "sequences of %zu tokens: the model was trained for %d", seq,
                       rp_model_info(m)->n_ctx_train);
    if (batch == 0 || seq == 0) return RP_OK;
    /* The scoring runner does all the work; chunk length 1 keeps the session from planning others. */
    RP_TRY(rp_session_open(m, &(RpSessionOptions){.n_ctx = (int32_t)seq, .prefill_chunk = 1}, &s));
    RpStatus st = RP_OK;
    for (size_t b = 0; b < batch && st == RP_OK; b++) {
        Sink sink = {logits + b * seq * n_vocab, n_vocab};
        st        = rp_session_rewind(s, 0);
        if (st == RP_OK) st = rp_session_score(s, ids + b * seq, seq, store_logits, &sink);
    }
    rp_session_free(s);
    return st;
}
