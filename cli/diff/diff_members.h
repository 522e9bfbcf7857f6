/* diff_members.h - the nodes of a saved dump, one after the other: the whole as a tree takes 25 times its bytes. */
#ifndef CLI_DIFF_DIFF_MEMBERS_H
#define CLI_DIFF_DIFF_MEMBERS_H

#include "reprise/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct DiffMembers {
    const char *where;                               /* begins every error */
    RpStatus (*node)(void *user, json_t *node);      /* an element of "nodes", borrowed */
    RpStatus (*title)(void *user, const char *text); /* of the object that has "nodes"; not called if there is none */
    void *user;
} DiffMembers;

/* Reads `{"title":..., "nodes":[...], ...}`, or that object as the member "graph" of another. Control characters in
 * strings are made visible: a dump may come from anywhere. RP_E_FORMAT with line and column, RP_E_NOMEM, or what a
 * function returns. */
RP_NODISCARD RpStatus cli_diff_members(const char *text, size_t n, const DiffMembers *m);

#endif
