/* params.h - the parameters of samplers that are plain numbers, and the kinds of grammars, by their names in a
 * manifest. */
#ifndef MANIFEST_PARAMS_H
#define MANIFEST_PARAMS_H

#include "manifest/manifest.h"

typedef struct ManifestParam {
    const char *name;
    size_t      offset; /* in RpSamplerParams */
    bool        is_int; /* int32_t, else float */
} ManifestParam;

#define MANIFEST_INFINITY "inf" /* a bias of infinity */

enum { MANIFEST_N_PARAMS = 22 };
extern const ManifestParam manifest_params[MANIFEST_N_PARAMS];

extern const char *const manifest_grammar_kinds[MANIFEST_GRAMMAR_COUNT]; /* MANIFEST_FREE: NULL */

#endif
