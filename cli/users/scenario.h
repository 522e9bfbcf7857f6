/* scenario.h - what simulated users send: the same words in every run, no tokenizer needed. */
#ifndef CLI_USERS_SCENARIO_H
#define CLI_USERS_SCENARIO_H

#include "reprise/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct Scenario {
    const char *name, *help;
    int         system, first, more; /* words of the system message, of the first message, and of each later one */
    bool        shared;              /* all users have the same system message */
    int         turns, tokens;       /* messages of a user; tokens of each reply */
} Scenario;

/* The i-th; NULL behind the last one. */
const Scenario *cli_scenario(int i);

/* The body of a request: `history` are the messages before, to which the message of this turn is added. The caller
 * frees it; NULL: out of memory. */
char *cli_scenario_body(const Scenario *s, int user, int turn, const char *model, json_t *history);

#endif
