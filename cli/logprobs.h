/* logprobs.h - collects the log probabilities of a reply and prints them. */
#ifndef CLI_LOGPROBS_H
#define CLI_LOGPROBS_H

#include "reprise/session.h"

#include <stdio.h>

/* Zero-initialise it. */
typedef struct Logprobs {
    RpTokenLogprob *items; /* [n_tokens][1 + n_top] */
    size_t          n_tokens, n_top;
} Logprobs;

/* Adds a token with its n_top alternatives; n_top is the same at each call. False if there is no memory. */
bool cli_logprobs_add(Logprobs *l, const RpTokenLogprob *chosen, const RpTokenLogprob *top, size_t n_top);
void cli_logprobs_free(Logprobs *l);

/* One line per token: its text as JSON, its log probability, then the alternatives. */
void cli_logprobs_print(const Logprobs *l, const RpTokenizer *tk, FILE *out);

/* Prints ,"logprobs":[{"id":..,"text":..,"logprob":..,"top":[...]}, ...]. */
void cli_logprobs_json(const Logprobs *l, const RpTokenizer *tk, FILE *out);

#endif
