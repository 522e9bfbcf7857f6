/* manifest.h - the inputs and the result of a run that can be repeated, as one JSON object in a file
 * (docs/manifests.md).
 *
 *     run  -> manifest_observe, the observer of its sampler -> ManifestTurn
 *          -> manifest_write -> {"reprise_manifest":2, ..., "checksum":"..."} -> manifest_read -> the same run again
 *
 * A turn is a prompt and its reply. `generate` and requests of a server have one turn; a chat has many, which share
 * session and sampler. Texts of a manifest that was read are borrowed from Manifest.json. */
#ifndef MANIFEST_MANIFEST_H
#define MANIFEST_MANIFEST_H

#include "reprise/reprise.h"

enum {
    MANIFEST_FORMAT = 2,        /* format 1 has no grammars */
    MANIFEST_BYTES  = 64 << 20, /* of a file, at most */
    MANIFEST_DEPTH  = 8,        /* of nested values, at most */
    MANIFEST_TURNS  = 4096,
    MANIFEST_LORAS  = 64
};

/* How a token came about: a letter of ManifestTurn.draws. */
enum {
    DRAW_FREE   = 'd', /* from all tokens */
    DRAW_MASKED = 'm', /* from those that a grammar allowed */
    DRAW_FORCED =
        'f', /* forced, not sampled: the end of a budget of reasoning, or of a part of a chat that a grammar holds */
    DRAW_GRAMMAR = 'g' /* not drawn: a grammar allowed no other; it has no logits */
};

typedef struct ManifestFile {
    const char *path;        /* NULL: there is none */
    uint64_t    bytes, hash; /* rp_path_xxh64 */
    double      scale;       /* of an adapter */
} ManifestFile;

/* The grammar or request that held a reply to certain tokens; a repetition is held in the same way. */
typedef enum ManifestGrammarKind {
    MANIFEST_FREE, /* nothing, or the manifest does not have it */
    MANIFEST_SCHEMA,
    MANIFEST_GBNF,
    MANIFEST_REGEX,
    MANIFEST_JSON, /* any object; no text */
    MANIFEST_CHAT, /* the request of a chat: its tools, the format of the answer, the budget of reasoning */
    MANIFEST_GRAMMAR_COUNT
} ManifestGrammarKind;

typedef struct ManifestGrammar {
    ManifestGrammarKind kind;
    char               *text;          /* malloc, as the next one */
    char               *chat_template; /* that a chat was rendered with; NULL: the model's template */
    int32_t             reasoning_budget;
} ManifestGrammar;

typedef struct ManifestTurn {
    bool        fresh;  /* the sampler was new, or reset, before it */
    int32_t     kept;   /* tokens of `prompt` that the session had before */
    RpTokenList prompt; /* all tokens before the reply */
    RpTokenList tokens;
    char       *draws; /* [tokens.n] DRAW_... */
    uint64_t *logits;  /* [tokens.n] XXH64 of the logits, f32 [n_vocab], that a token was drawn from; 0: DRAW_GRAMMAR */
    size_t    room;    /* of these two */
    bool      no_memory; /* a token is missing */
    ManifestGrammar grammar;
    const char     *prompt_text, *reply_text; /* of a manifest that was read; or NULL */
    char            reason[32];
    double          prefill_s, decode_s, first_token_s;
} ManifestTurn;

typedef struct Manifest {
    const char        *version, *commit; /* of the program; commit "": not known */
    const char        *command;          /* "generate" */
    const char *const *arguments;        /* or NULL: they were left out */
    size_t             n_arguments;
    const char *const *environment; /* "REPRISE_ISA=plain": the options of the library that are not the defaults */
    size_t             n_environment;
    const char        *begun; /* "2026-11-26T18:00:00Z" */
    double             load_s;
    ManifestFile       model, draft, loras[MANIFEST_LORAS];
    size_t             n_loras;
    const char        *device, *device_name, *cpu; /* "cpu", "avx512-vnni", "AMD EPYC 9R14"; "cuda:0", "NVIDIA H200" */
    const char        *mode, *kv, *passes;         /* passes, or NULL: REPRISE_PASSES, which is in it then */
    int32_t            threads, n_ctx;
    uint64_t           plan; /* rp_plan_hash of the step with one token */
    /* n_seq 0: a session ran it; else an engine with these options, of RpEngineOptions and RpRequest. */
    int32_t         n_seq, cache_tokens, step_tokens, n_draft, n_mtp;
    RpSamplerParams sampler; /* tokenizer NULL with n_dry_breakers 0 and dry_breakers not NULL: no breakers */
    bool            default_breakers;
    int32_t max_tokens; /* this and the next two: of the request. A repetition takes as many tokens as there are */
    bool    ignore_end;
    const char *const *stop;
    size_t             n_stop;
    ManifestTurn      *turns;
    size_t             n_turns;
    const RpTokenizer *tokenizer; /* gives the texts of the tokens to manifest_text; NULL: they are left out */
    void              *json;      /* of a manifest that was read: what its texts are in */
    void              *memory;    /* and its lists */
} Manifest;

/* Hashes a model, an adapter or a draft model. NULL: there is none, and *out is empty. `path` is borrowed. */
RP_NODISCARD RpStatus manifest_file(const char *path, ManifestFile *out);

/* RP_E_ARG for a path that is not UTF-8: the JSON of a manifest cannot have it. NULL: there is none. */
RP_NODISCARD RpStatus manifest_check_path(const char *path);

/* Fills in version, commit, environment and CPU, whose texts are static. */
void manifest_program(Manifest *m);

/* The model name of /proc/cpuinfo, which AArch64 lacks: "unknown CPU" there. */
void manifest_cpu_name(char *out, size_t n);

/* The time some seconds ago, as Manifest.begun. */
void manifest_now(double ago_s, char out[32]);

/* Fills in `run` from what runs: device, mode, threads and plan. The texts are those of *info. RP_E_NOMEM. */
RP_NODISCARD RpStatus manifest_run(Manifest *m, const RpExecutorInfo *info, const ExecPlan *plan);

/* An RpSampleObserver; `turn` is a ManifestTurn, zero-initialised. */
void manifest_observe(const RpSampledToken *token, void *turn);

/* Records the grammar of a reply that has ended. Copies both texts; `text` has n bytes. A reply whose tokens were all
 * drawn freely needs no grammar, and a text with a NUL or that is no UTF-8 cannot be written: then the turn has none. A
 * lack of memory shows when the manifest is written. */
void manifest_turn_held(ManifestTurn *t, ManifestGrammarKind kind, const char *text, size_t n,
                        const char *chat_template, int32_t reasoning_budget);
void manifest_turn_free(ManifestTurn *t);

/* The manifest as text. The caller frees *out. RP_E_NOMEM, also for a turn that lacks a token;
 * RP_E_UNSUPPORTED for one that would be larger than MANIFEST_BYTES. */
RP_NODISCARD RpStatus manifest_text(const Manifest *m, char **out, size_t *n);

/* Writes it to a file that rp_new_file_open opened, which stays open. */
RP_NODISCARD RpStatus manifest_write(const Manifest *m, RpNewFile *file);

/* Reads a manifest. RP_E_FORMAT for anything but what manifest_text writes, with the path and the member;
 * RP_E_UNSUPPORTED for that of a later version; RP_E_IO; RP_E_NOMEM. The caller frees *out, also after a failure. */
RP_NODISCARD RpStatus manifest_read(const char *path, Manifest *out);

/* The same from n bytes; `path` is for errors. */
RP_NODISCARD RpStatus manifest_parse(const char *text, size_t n, const char *path, Manifest *out);

/* Frees what manifest_parse made. */
void manifest_free(Manifest *m);

#endif
