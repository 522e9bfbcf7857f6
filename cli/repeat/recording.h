/* recording.h - --manifest: a command records its replies (manifest/manifest.h). */
#ifndef CLI_REPEAT_RECORDING_H
#define CLI_REPEAT_RECORDING_H

#include "cli/sampler.h"

#include "manifest/manifest.h"

typedef struct ManifestArgs {
    const char *path;
    bool        no_text;
} ManifestArgs;

#define OPTIONS_MANIFEST(v)                                                                                            \
    CLI_FILE(FILE_WRITTEN, "manifest", 0, (v).path, "FILE",                                                            \
             "write what `reprise repeat` needs to run this again and compare every bit"),                             \
        CLI_FLAG("manifest-no-text", 0, (v).no_text,                                                                   \
                 "the manifest has the tokens as numbers only, and not the arguments")

/* A recording. Zero-initialise it; without --manifest all functions do nothing. */
typedef struct Recording {
    RpNewFile   *file;
    Manifest     m;
    RpLogitBias *bias;
    char        *lora_paths[MANIFEST_LORAS];
    char         begun[32];
    size_t       room;   /* of m.turns */
    bool         reused; /* the sampler has the state of an earlier turn */
} Recording;

/* Opens the file and hashes the model, the adapters and the draft model (or NULL), which takes as long as reading them.
 * All texts are borrowed until cli_recording_close. */
RP_NODISCARD RpStatus cli_recording_open(Recording *r, const ManifestArgs *a, const char *command, const char *model,
                                         const TextList *adapters, const char *draft);

/* The same without a file: the part of a manifest that does not depend on the run. `model` may be NULL. */
RP_NODISCARD RpStatus cli_recording_begin(Recording *r, bool no_text, const char *command, const char *model,
                                          const TextList *adapters, const char *draft);

static inline bool cli_recording_is_on(const Recording *r) { return r->file != NULL; }

/* The sources of a recording: session or engine, and the options of sampling. */
typedef struct RecordingOf {
    const RpSession   *session; /* or NULL: the engine */
    const RpEngine    *engine;
    const char        *kv, *passes; /* of --kv and --passes */
    const SamplerArgs *sampler;
    const TextList    *stop; /* or NULL */
    int32_t            max_tokens;
    bool               ignore_end, no_text;
    double             load_s;
    int32_t            n_ctx, n_draft, n_mtp; /* with an engine */
} RecordingOf;

RP_NODISCARD RpStatus cli_recording_run(Recording *r, const RecordingOf *of);

/* Begins a turn, which gets each token of the sampler from here on; NULL: out of memory. */
RP_NODISCARD RpStatus cli_recording_turn(Recording *r, RpSampler *sampler);

/* The sampler was reset. */
void cli_recording_reset(Recording *r);

/* Ends the turn. The first `kept` tokens of the context were there before it. A turn without a token is removed. The
 * sampler no longer reports its tokens. */
RP_NODISCARD RpStatus cli_recording_end_turn(Recording *r, RpSampler *sampler, const int32_t *prompt, size_t n,
                                             int32_t kept, const RpGenerateResult *result);

/* Call it before cli_recording_end_turn: records what held the reply (manifest_turn_held). */
void cli_recording_held(Recording *r, ManifestGrammarKind kind, const char *text, size_t n, const char *chat_template,
                        int32_t reasoning_budget);

/* Leaves out a turn that has failed. */
void cli_recording_drop_turn(Recording *r, RpSampler *sampler);

/* Writes the file if `st` is RP_OK and there is a turn, and frees everything. Returns `st`, or the failure to write. */
RP_NODISCARD RpStatus cli_recording_close(Recording *r, RpStatus st);

#endif
