/* repeat.h - runs a manifest again and compares.
 *
 *     manifest -> model, sampler, session or engine as it says -> each token and the hash of its logits -> Parting */
#ifndef CLI_REPEAT_REPEAT_H
#define CLI_REPEAT_REPEAT_H

#include "cli/repeat/held.h"

/* The first token that is not as it was. */
typedef struct Parting {
    bool     parts;
    size_t   turn, step; /* from 0 */
    int32_t  then, now;  /* tokens */
    uint64_t logits_then, logits_now;
} Parting;

/* The state of a repeated run. */
typedef struct Repeat {
    const Manifest *m;
    RpModel        *model, *draft;
    RpSampler      *sampler;
    RpSession      *session; /* or the engine */
    RpEngine       *engine;
    RpTokenList     context; /* of the session */
    uint32_t       *mask;    /* bits of the vocabulary: all tokens but one are off */
    RpGrammarVocab *vocab;   /* of grammars; NULL: there was none yet */
    Held            held;    /* what holds the turn, if `is_held` */
    bool            is_held;
    size_t          turn, step;
    Parting         parting;
    size_t          n_equal, n_held; /* tokens; n_held: of these, held by what the manifest does not have */
    RpStatus        status;          /* of a callback */
} Repeat;

typedef struct RepeatOptions {
    const char *model, *draft; /* in place of those of the manifest, or NULL */
    DeviceArgs  device;        /* its adapters are in place of those of the manifest, if there are any */
    int32_t     threads;       /* 0: those of the manifest */
    bool        anyway, quiet;
} RepeatOptions;

/* Opens everything. `now` gets what this run has: the texts live as long as *r and the options. A failure means that
 * the manifest cannot be run here; RP_E_STATE: a file has another hash. The caller closes *r, also then. */
RP_NODISCARD RpStatus cli_repeat_open(Repeat *r, const Manifest *m, const RepeatOptions *o, Manifest *now);
void                  cli_repeat_close(Repeat *r);

/* Runs all turns, up to the first token that parts. */
RP_NODISCARD RpStatus cli_repeat_run(Repeat *r);

/* One fact that is not as it was. */
typedef void RepeatDifference(const char *what, const char *then, const char *now, void *user);

/* Calls back for each difference of the environment: program, files, device, CPU, plan, options. */
void cli_repeat_compare(const Manifest *then, const Manifest *now, RepeatDifference *callback, void *user);

#endif
