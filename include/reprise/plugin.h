/* plugin.h - a shared object that registers ops, patterns and types (extend.h) in a program that was built without
 * them: `reprise --plugin FILE`, REPRISE_PLUGINS, or rp_plugin_load. It need not link to the library, whose functions
 * it gets in a table (examples/dtypes.c).
 *
 *   RpStatus rp_plugin(const RpPluginHost *host) {         // RP_API, if other symbols are hidden
 *       RpDtype type;
 *       return host->dtype_register(&fp8, sizeof fp8, &type);
 *   }
 *
 * Shared object and folder must belong to root or to the user and be writable by nobody else, and the last part of the
 * path must not be a symbolic link, because loading runs its code. */
#ifndef REPRISE_PLUGIN_H
#define REPRISE_PLUGIN_H

#include "reprise/extend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Members at the end of the struct may come without a new one: look at `bytes`. */
enum { RP_PLUGIN_ABI = 1 };

/* The name of the function of a shared object that is called once. */
#define RP_PLUGIN_SYMBOL "rp_plugin"

/* Functions of the library, valid as long as the process. The first three are those of extend.h with the size of the
 * struct; the others have the names and the meaning of functions of the library, and `fail` is rp_fail with a text. */
typedef struct RpPluginHost {
    uint32_t bytes, abi; /* size of this struct, RP_PLUGIN_ABI */
    RpStatus (*op_register)(const RpOpDescription *description, size_t description_bytes, TensorOp *out);
    RpStatus (*pattern_register)(const RpGraphPattern *pattern, size_t pattern_bytes);
    RpStatus (*dtype_register)(const RpDtypeDescription *description, size_t description_bytes, RpDtype *out);
    RpStatus (*fail)(RpStatus status, const char *text);
    /* For shape rules and patterns. */
    RpTensorView (*view_contiguous)(RpDtype dtype, const int64_t ne[RP_MAX_DIMS], void *data);
    bool (*view_is_contiguous)(const RpTensorView *v);
    const RpDtypeInfo *(*dtype_info)(RpDtype dtype);
    const TensorNode *(*match_node)(const RpPatternMatch *m, const char *name);
    const RpOpParams *(*node_params)(const TensorNode *node);
    const TensorNode *(*node_source)(const TensorNode *node, int i);
    RpTensorView (*node_view)(const TensorNode *node);
    /* For kernels of ops. */
    void (*dequantize_row)(RpDtype dtype, const void *row, int64_t n, float *out);
} RpPluginHost;

/* The type of the function. A failure is reported with the path in front of its text; earlier registrations of the
 * function stay. */
typedef RpStatus RpPluginEntry(const RpPluginHost *host);

/* Loads the shared object at a path with a '/', and calls its function. It stays loaded; loading the file again does
 * nothing. RP_E_NOT_AVAILABLE if there is none or it cannot be loaded, RP_E_ARG if it may not be loaded,
 * RP_E_UNSUPPORTED for another machine or a file without the function; failures of the function. Load plugins from one
 * thread, before graphs are built. */
RP_API RP_NODISCARD RpStatus rp_plugin_load(const char *path);

#ifdef __cplusplus
}
#endif
#endif
