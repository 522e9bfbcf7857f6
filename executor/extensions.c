/* Plugins: shared objects that register ops, patterns and types (reprise/plugin.h). */
#include "reprise/plugin.h"

#include "base/argument.h"
#include "executor/shared_object.h"
#include "reprise/quants.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const RpPluginHost host = {.bytes              = sizeof host,
                                  .abi                = RP_PLUGIN_ABI,
                                  .op_register        = rp_op_register_sized,
                                  .pattern_register   = rp_pattern_register_sized,
                                  .dtype_register     = rp_dtype_register_sized,
                                  .fail               = rp_shared_object_fail,
                                  .view_contiguous    = rp_view_contiguous,
                                  .view_is_contiguous = rp_view_is_contiguous,
                                  .dtype_info         = rp_dtype_info,
                                  .match_node         = rp_match_node,
                                  .node_params        = rp_node_params,
                                  .node_source        = rp_node_source,
                                  .node_view          = rp_node_view,
                                  .dequantize_row     = rp_dequantize_row};

typedef struct Loaded {
    struct Loaded *next;
    void          *handle; /* a file has the same one again */
} Loaded;

static Loaded         *loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A failure that reports no text leaves an old one. */
static RpStatus call_entry(const char *path, void *handle) {
    RpPluginEntry *entry  = NULL;
    void          *symbol = rp_shared_object_symbol(handle, RP_PLUGIN_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry);
    if (entry == NULL) return rp_fail(RP_E_UNSUPPORTED, "plugin '%s': it has no function %s", path, RP_PLUGIN_SYMBOL);
    const RpStatus st = entry(&host);
    return st == RP_OK ? RP_OK : rp_fail(st, "plugin '%s': %s", path, rp_last_error());
}

static bool is_loaded(const void *handle) {
    const Loaded *l = loaded;
    while (l != NULL && l->handle != handle) l = l->next;
    return l != NULL;
}

static RpStatus load(const char *path) {
    void *handle;
    RP_TRY(rp_shared_object_load("plugin", path, &handle));
    if (is_loaded(handle)) return RP_OK;
    Loaded *l = malloc(sizeof *l);
    if (l == NULL) return rp_fail(RP_E_NOMEM, "plugin '%s': out of memory", path);
    const RpStatus st = call_entry(path, handle);
    if (st != RP_OK) {
        free(l);
        return st;
    }
    *l     = (Loaded){.next = loaded, .handle = handle};
    loaded = l;
    return RP_OK;
}

RpStatus rp_plugin_load(const char *path) {
    RP_NOT_NULL(path, "path");

    pthread_mutex_lock(&lock);
    const RpStatus st = load(path);
    pthread_mutex_unlock(&lock);
    return st;
}
