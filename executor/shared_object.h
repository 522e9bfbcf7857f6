/* shared_object.h - shared objects whose code is run: backends (reprise/backend.h) and plugins (reprise/plugin.h). */
#ifndef EXECUTOR_SHARED_OBJECT_H
#define EXECUTOR_SHARED_OBJECT_H

#include "reprise/status.h"

/* Loads the shared object of a path with a '/', after a check of owner, mode and machine. `what` is "backend" or
 * "plugin", for errors. RP_E_NOT_AVAILABLE if there is none, RP_E_ARG if it may not be loaded, RP_E_UNSUPPORTED for
 * another machine. The same file has the same handle again; dlclose does not unload it. On failure *handle is NULL. */
RP_NODISCARD RpStatus rp_shared_object_load(const char *what, const char *path, void **handle);

/* The address of a symbol, NULL if there is none. */
void *rp_shared_object_symbol(void *handle, const char *name);

/* The member `fail` of RpBackendHost and RpPluginHost: rp_fail with a text. RP_OK becomes RP_E_ARG. */
RpStatus rp_shared_object_fail(RpStatus status, const char *text);

#endif
