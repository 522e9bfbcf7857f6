/* info.h - the properties of models that clients get, also of a file that has not been loaded. */
#ifndef SERVER_JOBS_INFO_H
#define SERVER_JOBS_INFO_H

#include "server/jobs/work.h"

/* Describes a model that is loaded, for as long as the server runs. */
void info_keep(Model *m);
void info_free(Model *m);

void info_models(Work *w, Bytes *out);                                  /* /v1/models */
bool info_model(Work *w, const char *name, Bytes *out);                 /* /v1/models/NAME; false: there is none */
void info_tags(Work *w, Bytes *out);                                    /* /api/tags */
bool info_show(Work *w, const char *name, Bytes *out, ApiError *error); /* /api/show */

#endif
