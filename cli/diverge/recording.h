/* recording.h - the values of all nodes of a run in a file, for a run of another build or machine to be compared with.
 * Little endian, a sequence of records; the checksum is XXH64 of kind, length and payload:
 *
 *     "reprise recording 1\n"
 *     record:   kind u32 | length of the payload u64 | payload | checksum u64
 *     HEAD      prompt, decode steps, layers, embedding, vocabulary: i32 each | architecture, 32 bytes | description
 *     STEP      tokens of the step, i32 each
 *     NODE      length of the key u32 | key (walk_list.h) | dtype u32 | ne i64[4] | elements, f32 or i32
 *     END       number of nodes u64 */
#ifndef CLI_DIVERGE_RECORDING_H
#define CLI_DIVERGE_RECORDING_H

#include "cli/provenance/values.h"

#include <stdio.h>

typedef struct RecordingHead {
    int32_t n_prompt, n_decode, n_layer, n_embd, n_vocab;
    char    arch[32];
    char    description[256]; /* of the run, for reports */
} RecordingHead;

/* ---- writing; errors of the stream are left to its owner ---- */

void cli_node_recording_head(const RecordingHead *h, FILE *out);
void cli_node_recording_step(const int32_t *tokens, int32_t n, FILE *out);
/* RP_E_NOMEM */
RP_NODISCARD RpStatus cli_node_recording_node(const char *key, const NodeValues *v, FILE *out);
void                  cli_node_recording_end(uint64_t n_nodes, FILE *out);

/* ---- reading ---- */

typedef struct Recording Recording;

/* Reads the whole file once and checks it. RP_E_IO; RP_E_FORMAT for another file, another version, one that is cut off
 * or damaged, with the byte; RP_E_NOMEM. The caller frees *out. */
RP_NODISCARD RpStatus cli_node_recording_open(const char *path, Recording **out);
void                  cli_node_recording_free(Recording *r);

const RecordingHead *cli_node_recording_head_of(const Recording *r);

/* The tokens of a step: of the prompt, or one. */
const int32_t *cli_node_recording_tokens(const Recording *r, int32_t step);

/* Number of nodes of a step. */
int cli_node_recording_n(const Recording *r, int32_t step);

/* Reads a node; *found is false if the step has none of this key. The caller frees *out with cli_values_free. */
RP_NODISCARD RpStatus cli_node_recording_read(const Recording *r, int32_t step, const char *key, NodeValues *out,
                                              bool *found);

#endif
