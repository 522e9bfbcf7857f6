/* users.h - users that talk to a server at the same time, and how long they wait. */
#ifndef CLI_USERS_USERS_H
#define CLI_USERS_USERS_H

#include "cli/users/client.h"
#include "cli/users/scenario.h"

enum { MAX_USERS = 256 };

/* Seconds, in the order in which they came. */
typedef struct Times {
    double *s;
    size_t  n, room;
} Times;

typedef struct UsersResult {
    Times    first; /* from a request to the first piece of its text */
    Times    gaps;  /* between pieces of text */
    double   seconds;
    long     requests, prompt_tokens, cached_tokens, tokens;
    RpStatus status; /* the first failure of any user, with its text */
    char     error[512];
} UsersResult;

typedef struct UsersOptions {
    const Url  *url;
    const char *model, *key; /* or NULL */
    double      seconds;     /* without a byte from the server */
} UsersOptions;

/* Runs n users, each in a thread. The caller frees the result, also after a failure. */
RP_NODISCARD RpStatus cli_users_run(const UsersOptions *o, const Scenario *scenario, int n, UsersResult *out);
void                  cli_users_free(UsersResult *r);

/* The p-th percentile; 0 without times. Sorts them. */
double cli_times_percentile(Times *t, double p);

#endif
