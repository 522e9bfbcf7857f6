/* The checks of RpCudaSource (reprise/source.h) that need no compiler. */
#include "base/op_table.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_BLOCK = 256, MAX_BLOCK = 1024 };

static RpStatus refuse(const char *name, const char *why) { return rp_fail(RP_E_ARG, "source of '%s': %s", name, why); }

static RpStatus check(const RpCudaSource *s, const char *name) {
    if (s->text == NULL || s->kernel == NULL || s->kernel[0] == '\0')
        return refuse(name, "must have a text and the name of a kernel");
    if (s->file != NULL && s->file[0] == '\0') return refuse(name, "the file's name must not be empty");
    if (s->n_options < 0 || s->n_options > RP_SOURCE_MAX_OPTIONS || (s->n_options > 0 && s->options == NULL))
        return rp_fail(RP_E_ARG, "source of '%s': must have at most %d options", name, RP_SOURCE_MAX_OPTIONS);
    for (int i = 0; i < s->n_options; i++)
        if (s->options[i] == NULL) return refuse(name, "no option must be NULL");
    if ((unsigned)s->grid > RP_GRID_ROWS || (s->grid == RP_GRID_NONE) == (s->launch == NULL))
        return refuse(name, "must have either a launch rule or a grid");
    if (s->block > MAX_BLOCK)
        return rp_fail(RP_E_ARG, "source of '%s': must have at most %d threads a block", name, MAX_BLOCK);
    if ((s->flags & ~(unsigned)RP_SOURCE_WAITS) != 0 || s->unused != 0)
        return refuse(name, "must have no flags but RP_SOURCE_WAITS");
    return RP_OK;
}

RpStatus rp_source_complete(RpCudaSource *s, const char *name, char file[RP_SOURCE_FILE_BYTES]) {
    RP_TRY(check(s, name));
    if (s->block == 0) s->block = DEFAULT_BLOCK;
    if (s->file != NULL) return RP_OK;
    snprintf(file, RP_SOURCE_FILE_BYTES, "%.100s.cu", name);
    s->file = file;
    return RP_OK;
}
