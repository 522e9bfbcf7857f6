/* report.h - what a reply cost. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/common.h"

typedef struct Report {
    const Session        *session;
    const GenerateResult *result;
    double load_s;        /* from the start of the program until the session was open; 0: a later reply */
    double first_token_s; /* from the start of the program; of a later reply from its message */
} Report;

/* Bytes read for one decoded token: weights once, and the cache up to the mean position of the reply. Layers
 * with a sliding window count in full. */
typedef struct TokenBytes {
    double weights, kv;
} TokenBytes;

TokenBytes cli_token_bytes(const Session *s, double mean_position);

/* "2 threads, avx2" or "cuda:0, NVIDIA H200, reply"; returns buf. */
const char *cli_device_text(const Session *s, char *buf, size_t size);

/* The members "device" to "threads", with a comma behind. */
void cli_device_json(const Session *s, FILE *out);

/* Tokens a second of the prefill and of the steps after the first token; 0 where there were none. */
double cli_prefill_rate(const GenerateResult *r);
double cli_decode_rate(const GenerateResult *r);

/* A block of lines on stderr. */
void cli_report(const Report *r);

/* The members "prompt_tokens" to "gb_s" of a JSON object, without braces. */
void cli_report_json(const Report *r, FILE *out);

#endif
