/* status.h - result codes and the text of the latest failure.
 *
 * Every call that can fail returns RpStatus: RP_OK is 0, failures are negative. rp_last_error() is the text of the
 * latest failure on the calling thread; it names the file, tensor or op concerned.
 *
 *   if (rp_model_open("m.gguf", NULL, &model) != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
 */
#ifndef REPRISE_STATUS_H
#define REPRISE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text of rp_status_text) */
#define RP_STATUS_LIST(X)                                                                                              \
    X(OK, 0, "ok")                                                                                                     \
    X(E_NOMEM, -1, "out of memory")                                                                                    \
    X(E_IO, -2, "file could not be read or written")                                                                   \
    X(E_FORMAT, -3, "file is malformed")                                                                               \
    X(E_SHAPE, -4, "tensor shapes do not fit")                                                                         \
    X(E_DTYPE, -5, "data type not accepted here")                                                                      \
    X(E_UNSUPPORTED, -6, "not supported")                                                                              \
    X(E_ARG, -7, "invalid argument")                                                                                   \
    X(E_STATE, -8, "call not allowed in this state")                                                                   \
    X(E_CONTEXT_FULL, -9, "context is full")                                                                           \
    X(E_CANCELLED, -10, "cancelled by the caller")                                                                     \
    X(E_NOT_AVAILABLE, -11, "not available in this build or here")                                                     \
    X(E_CUDA, -12, "CUDA call failed")

typedef enum RpStatus {
#define X(name, value, text) RP_##name = value,
    RP_STATUS_LIST(X)
#undef X
} RpStatus;

/* RP_API: exported by the shared library. Functions are otherwise private to it.
 *
 * A function NAME_sized gets the size of a struct of the caller, so that the struct can grow (docs/api.md). Programs
 * call NAME, an inline function that passes sizeof. Bindings of other languages call NAME_sized. */
#if defined(__GNUC__)
#define RP_API               __attribute__((visibility("default")))
#define RP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RP_NODISCARD         __attribute__((warn_unused_result))
#else
#define RP_API
#define RP_PRINTF(fmt, args)
#define RP_NODISCARD
#endif

/* The fixed description of a code, "unknown status" for any other number. Never NULL; static storage. */
RP_API const char *rp_status_text(RpStatus status);

/* The text of the latest failure on this thread; "" before the first. Borrowed: valid until the next failing call on
 * the same thread. A call that succeeds does not clear it. */
RP_API const char *rp_last_error(void);

/* Records the text for rp_last_error and returns `status`, so that an error path is one line. The text is cut after
 * 1023 bytes. Control characters become \xNN: names in it come from files, and a terminal would obey them. Arguments
 * may point into rp_last_error(). */
RP_API RpStatus rp_fail(RpStatus status, const char *fmt, ...) RP_PRINTF(2, 3);

/* Returns from the calling function with the status of `expr` unless it is RP_OK. */
#define RP_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        const RpStatus rp_try_ = (expr);                                                                               \
        if (rp_try_ != RP_OK) return rp_try_;                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
