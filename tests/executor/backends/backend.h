/* backend.h - what the backend of the test counts, in its symbol backend_calls. */
#ifndef TESTS_EXECUTOR_BACKENDS_BACKEND_H
#define TESTS_EXECUTOR_BACKENDS_BACKEND_H

#include "reprise/backend.h"

typedef struct BackendCalls {
    int         opened, runs, binds, reads, freed, steps;
    int         too_many; /* run asks for steps 0 to this; -1: for those of the plan */
    RpStatus    outside;  /* what run_steps said within open */
    const char *fail_at;  /* "open", "run", "bind" or "eread" (read) */
    const void *first, *read_at;
    size_t      read_bytes;
} BackendCalls;

#endif
