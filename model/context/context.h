/* context.h - contexts in files: the tokens of a sequence, their keys and values, and the recurrent state after the
 * last one. Sessions and engines read each other's files. */
#ifndef MODEL_CONTEXT_CONTEXT_H
#define MODEL_CONTEXT_CONTEXT_H

#include "reprise/executor.h"
#include "reprise/gguf.h"
#include "reprise/model.h"

/* The place of a sequence's keys, values and recurrent states in an executor. Position i of a session is row i of a
 * cache. Position i of an engine is row i % block of block number blocks[i / block]. Layers with a window may have only
 * the positions from window_from on. */
typedef struct ContextPlace {
    const char         *owner; /* "session" or "engine", for errors */
    const RpModel      *model;
    const char         *passes;
    const ComputeGraph *graph; /* whose nodes "state" they are */
    RpExecutor         *executor;
    int32_t             n_ctx;
    const int32_t      *blocks;  /* or NULL: a session */
    const int32_t      *windows; /* or NULL: of layers with a window, where they have blocks of their own; -1: none */
    int32_t             block;
    int32_t             window_from;
    int32_t             slot; /* row of the recurrent states */
} ContextPlace;

/* Writes the first n tokens and their states. The file is replaced as a whole, or stays as it was. RP_E_ARG for a file
 * that is no context, RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_context_write(const ContextPlace *p, const int32_t *tokens, int32_t n, const char *note,
                                       const char *path);

typedef struct ContextFile {
    RpGgufFile *file;
    int32_t    *tokens; /* [n], a copy: another process may write to the file */
    int32_t     n;
    int32_t     window_from; /* the first position that layers with a window have; 0: they have all */
} ContextFile;

/* Opens a file and checks all of it: that it is of this model, these passes and this type of cache, that no byte is
 * damaged, and that its tokens fit. Errors of rp_session_restore; nothing is to be closed then. */
RP_NODISCARD RpStatus rp_context_open(const ContextPlace *p, const char *path, ContextFile *out);
void                  rp_context_close(ContextFile *f);

/* Copies the keys and values of positions [from, end), both multiples of `block` if there are blocks, and with
 * `recurrent` the recurrent states. Layers with a window get all positions that the file has and `windows` name, up to
 * `end`. Only the device can fail. */
RP_NODISCARD RpStatus rp_context_read(const ContextPlace *p, const ContextFile *f, int32_t from, int32_t end,
                                      bool recurrent);

/* A copy of its note, which the caller frees, and its tokens, which replace `tokens`. RP_E_NOMEM, and RP_E_FORMAT
 * without a note: then nothing has changed. `note` may be NULL. */
RP_NODISCARD RpStatus rp_context_text(const ContextFile *f, RpTokenList *tokens, char **note);

#endif
