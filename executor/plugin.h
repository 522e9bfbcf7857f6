/* plugin.h - backends in shared objects (reprise/backend.h). Plugins that register ops and types: extensions.c. */
#ifndef EXECUTOR_PLUGIN_H
#define EXECUTOR_PLUGIN_H

#include "executor/backend.h"
#include "reprise/backend.h"

/* A loaded shared object. Executors that share have the same one. */
typedef struct Plugin {
    const RpBackend *backend;
    void            *handle; /* of dlopen */
} Plugin;

/* Opens the backend for the plan of `e`, whose addresses are filled in; closes it. */
RP_NODISCARD RpStatus rp_plugin_open(RpExecutor *e, const char *name);
void                  rp_plugin_close(RpExecutor *e);

RP_NODISCARD RpStatus rp_plugin_run(RpExecutor *e);
RP_NODISCARD RpStatus rp_plugin_bind(RpExecutor *e);
RP_NODISCARD RpStatus rp_plugin_read(RpExecutor *e, const void *memory, size_t bytes);

/* RP_E_UNSUPPORTED for what measures the built-in kernels. */
RP_NODISCARD RpStatus rp_plugin_refuse(const RpExecutor *e, const char *what);

#endif
