/* recording.c - writes recordings. recording_read.c reads them. */
#include "cli/diverge/recording.h"

#include "cli/diverge/recording_file.h"

#include <stdlib.h>
#include <string.h>

static void put_record(uint32_t kind, const void *payload, uint64_t n, unsigned char *frame, FILE *out) {
    memcpy(frame, &kind, sizeof kind);
    memcpy(frame + sizeof kind, &n, sizeof n);
    memcpy(frame + RECORD_FRONT, payload, n);
    const uint64_t sum = rp_xxh64(frame, RECORD_FRONT + n);
    if (!ferror(out)) fwrite(frame, 1, RECORD_FRONT + n, out); /* a signal has ended a write, or the disk is full */
    if (!ferror(out)) fwrite(&sum, 1, sizeof sum, out);
}

void cli_node_recording_head(const RecordingHead *h, FILE *out) {
    unsigned char frame[RECORD_FRONT + sizeof *h];
    fputs(RECORDING_MAGIC, out);
    put_record(RECORD_HEAD, h, sizeof *h, frame, out);
}

void cli_node_recording_step(const int32_t *tokens, int32_t n, FILE *out) {
    unsigned char frame[RECORD_FRONT + MAX_STEP_TOKENS * sizeof *tokens];
    put_record(RECORD_STEP, tokens, (uint64_t)n * sizeof *tokens, frame, out);
}

RpStatus cli_node_recording_node(const char *key, const NodeValues *v, FILE *out) {
    const uint32_t length = (uint32_t)strlen(key), dtype = (uint32_t)v->dtype;
    const size_t   n       = sizeof length + length + sizeof dtype + sizeof v->ne + v->n_bytes;
    unsigned char *payload = malloc(n), *frame = malloc(RECORD_FRONT + n), *p = payload;
    if (payload == NULL || frame == NULL) {
        free(payload);
        free(frame);
        return rp_fail(RP_E_NOMEM, "out of memory for a record of %zu bytes", n);
    }
    memcpy(p, &length, sizeof length), p += sizeof length;
    memcpy(p, key, length), p += length;
    memcpy(p, &dtype, sizeof dtype), p += sizeof dtype;
    memcpy(p, v->ne, sizeof v->ne), p += sizeof v->ne;
    memcpy(p, v->bytes, v->n_bytes);
    put_record(RECORD_NODE, payload, n, frame, out);
    free(payload);
    free(frame);
    return RP_OK;
}

void cli_node_recording_end(uint64_t n_nodes, FILE *out) {
    unsigned char frame[RECORD_FRONT + sizeof n_nodes];
    put_record(RECORD_END, &n_nodes, sizeof n_nodes, frame, out);
}
