/* other.c - reads the values of side B.
 *
 * Two runs walk together: B runs as far as the node that A has just computed. Passes may have changed the order, so
 * nodes of B that are passed on the way are saved if A computes them later; each is freed when it has been compared. So
 * only these few are in memory, not all nodes of both runs. */
#include "cli/diverge/other.h"

#include "cli/provenance/npy.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void close_step(Other *o) {
    for (int i = 0; o->saved != NULL && i < o->list.n; i++) cli_values_free(&o->saved[i]);
    free(o->saved);
    free(o->wanted);
    cli_walk_list_free(&o->list);
    o->saved  = NULL;
    o->wanted = NULL;
}

void cli_other_close(Other *o) { close_step(o); }

RpStatus cli_other_begin(Other *o, int32_t step, const int32_t *tokens, int32_t n, const WalkList *a) {
    close_step(o);
    o->step    = step;
    o->n_found = o->cursor = 0;
    if (o->run == NULL) return RP_OK;
    cli_step_run_begin(o->run, tokens, n);
    RP_TRY(cli_walk_list(o->run->now->graph, o->run->now->plan, &o->list));
    o->wanted = calloc((size_t)o->list.n + 1, sizeof *o->wanted);
    o->saved  = calloc((size_t)o->list.n + 1, sizeof *o->saved);
    if (o->wanted == NULL || o->saved == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a comparison");
    for (int i = 0; i < o->list.n; i++) o->wanted[i] = cli_walk_find(a, o->list.items[i].key) >= 0;
    return RP_OK;
}

/* Runs until item i is computed, and reads it. */
static RpStatus read_item(Other *o, int i, NodeValues *out) {
    const WalkNode *w = &o->list.items[i];
    RP_TRY(cli_step_run_to(o->run, w->step + 1));
    RP_TRY(cli_values_read(o->run->now->exec, w->node, out));
    return cli_values_to_f32(out);
}

static RpStatus read_run(Other *o, const WalkNode *a, NodeValues *out, bool *found) {
    const int i = cli_walk_find(&o->list, a->key);
    *found      = i >= 0;
    if (i < 0) return RP_OK;
    o->wanted[i] = false;
    if (i < o->cursor) {
        *out        = o->saved[i];
        o->saved[i] = (NodeValues){0};
        return RP_OK;
    }
    for (; o->cursor < i; o->cursor++)
        if (o->wanted[o->cursor]) RP_TRY(read_item(o, o->cursor, &o->saved[o->cursor]));
    o->cursor = i + 1;
    return read_item(o, i, out);
}

/* The path of the file of a node; "" if there is none. */
static void find_file(const Other *o, const WalkNode *a, char *path, size_t size) {
    const char *name = rp_node_name(a->node);
    char        folder[1024];
    path[0] = '\0';
    if (name[0] == '\0' || strchr(name, '/') != NULL) return;
    snprintf(folder, sizeof folder, "%s", o->folder);
    if (o->step > 0) snprintf(folder, sizeof folder, "%s/step-%d", o->folder, o->step);
    int n = snprintf(path, size, "%s/%s:%s.npy", folder, name, rp_node_built_op(a->node));
    if (n > 0 && (size_t)n < size && access(path, F_OK) == 0) return;
    n = snprintf(path, size, "%s/%s.npy", folder, name);
    if (!a->last || n < 0 || (size_t)n >= size || access(path, F_OK) != 0) path[0] = '\0';
}

static RpStatus read_folder(const Other *o, const WalkNode *a, NodeValues *out, bool *found) {
    char     path[1400];
    NpyArray array;
    find_file(o, a, path, sizeof path);
    *found = path[0] != '\0';
    if (!*found) return RP_OK;
    RP_TRY(cli_npy_read(path, &array));
    *out = (NodeValues){
        .dtype   = RP_F32,
        .ne      = {(int64_t)array.n, 1, 1, 1},
        .bytes   = array.values,
        .n_bytes = array.n * sizeof *array.values
    };
    return RP_OK;
}

RpStatus cli_other_read(Other *o, const WalkNode *a, NodeValues *out, bool *found) {
    *out        = (NodeValues){0};
    RpStatus st = o->run != NULL         ? read_run(o, a, out, found)
                  : o->recording != NULL ? cli_node_recording_read(o->recording, o->step, a->key, out, found)
                                         : read_folder(o, a, out, found);
    if (st != RP_OK) cli_values_free(out);
    o->n_found += st == RP_OK && *found;
    return st;
}

RpStatus cli_other_end(Other *o, int *n_only) {
    int32_t next;
    *n_only = -1;
    if (o->recording != NULL) *n_only = cli_node_recording_n(o->recording, o->step) - o->n_found;
    if (o->run == NULL) return RP_OK;
    *n_only = o->list.n - o->n_found;
    return cli_step_run_end(o->run, &next);
}
