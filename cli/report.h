/* report.h - timings and memory traffic of a reply. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/common.h"

typedef struct Report {
    const RpSession        *session; /* NULL: an engine made the reply */
    const RpGenerateResult *result;
    double                  load_s; /* from the start of the program until the session was open; 0: not reported */
    double                  first_token_s;      /* from the start of the program; in a chat from the message on */
    const RpExecutorInfo   *device;             /* of the engine */
    int32_t                 n_guessed, n_right; /* tokens that the engine guessed */
} Report;

/* Bytes that one decode step reads: the weights once, and the KV cache at the mean position of the reply. */
typedef struct TokenBytes {
    double weights, kv;
} TokenBytes;

TokenBytes cli_token_bytes(const RpSession *s, double mean_position);

/* Writes "2 threads, avx2" or "cuda:0, NVIDIA H200, loop"; returns buf. */
const char *cli_device_text(const RpSession *s, char *buf, size_t size);
const char *cli_device_of(const RpExecutorInfo *info, char *buf, size_t size);

/* Prints the JSON members "device" to "repack_s", with a comma after each. */
void cli_device_json(const RpExecutorInfo *info, FILE *out);

/* Tokens per second of the prefill and of the decode steps after the first token; 0 if there were none. */
double cli_prefill_rate(const RpGenerateResult *r);
double cli_decode_rate(const RpGenerateResult *r);

/* Prints the report on stderr, one line per phase. */
void cli_report(const Report *r);

/* Prints the JSON members "prompt_tokens" to "timings", without braces. Times are in seconds from the start of the
 * program. */
void cli_reply_json(const RpGenerateResult *g, const RpExecutorInfo *info, int32_t n_ctx, double load_s,
                    double first_token_s, FILE *out);

/* Prints the JSON members "prompt_tokens" to "gb_s", without braces. */
void cli_report_json(const Report *r, FILE *out);

#endif
