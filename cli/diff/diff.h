/* diff.h - comparison of two graphs for `reprise graph --diff`: read, match, print.
 *
 *     diff_open.c      opens a saved dump, or a graph that graph_source.c builds
 *     diff_members.c   walks through the JSON, value by value
 *     diff_read.c      checks the fields of each node and fills DiffGraph
 *     diff_match.c     pairs the nodes (align.h) and finds the fields in which a pair differs
 *     diff_text.c, diff_times.c, diff_json.c, diff_label.c print
 *
 * Both graphs are JSON dumps. A graph that is built on the spot is dumped to memory and read back, so that
 * saved and new graphs are compared by the same fields.
 */
#ifndef CLI_DIFF_DIFF_H
#define CLI_DIFF_DIFF_H

#include "cli/diff/graph_source.h"

#include <jansson.h>

enum { DIFF_MAX_SRC = 16 };

typedef struct DiffNode {
    const char *op, *name, *dtype;     /* borrowed from DiffGraph.strings */
    const char *params;                /* borrowed, as JSON; NULL in dumps of older versions */
    const char *parts, *note, *colour; /* borrowed, for a page; NULL: not in the dump */
    const char *roles;                 /* borrowed: the names of the sources, each before a comma */
    int         id, layer, n_src;
    int         src[DIFF_MAX_SRC]; /* indices into DiffGraph.nodes; -1: an optional source that is absent */
    int64_t     ne[RP_MAX_DIMS], nb[RP_MAX_DIMS];
    int64_t     bytes; /* 0: not in the dump */
    double      us;    /* time of the step in microseconds; 0: not known */
    bool        kernel, output, leaf;
    int         partner; /* index of the matching node in the other graph; -1: none */
} DiffNode;

typedef struct DiffGraph {
    const char *label; /* its argument on the command line */
    char        title[256];
    json_t     *strings; /* an object whose keys are the strings of the nodes, each once */
    DiffNode   *nodes;
    int         n, room, n_kernels, last_layer;
    int        *sorted; /* the nodes by layer, then in their order */
    int        *starts; /* [last_layer + 3] where those of layer l - 1 begin in `sorted`; the last one is n */
    double      us;     /* sum over all nodes; 0: not known */
} DiffGraph;

/* Parses the n bytes of a dump. RP_E_FORMAT begins with `where` and gives line and column, or the node. */
RP_NODISCARD RpStatus cli_diff_read(const char *text, size_t n, const char *where, DiffGraph *out);

/* The nodes of a layer in order, -1: those outside the layers; *n: their number. */
const int *cli_diff_layer(const DiffGraph *g, int layer, int *n);

/* Reads a saved dump, or builds the graph "[MODEL][:SETTING]..."; fields that it leaves unset come from
 * `defaults`. */
RP_NODISCARD RpStatus cli_diff_open(const char *text, const GraphSource *defaults, DiffGraph *out);
void                  cli_diff_free(DiffGraph *g);

/* Sets the partners: ops within a layer by op and name, in the order of both graphs; then all other nodes by
 * name. */
RP_NODISCARD RpStatus cli_diff_match(DiffGraph *a, DiffGraph *b);

enum {
    DIFF_OP      = 1 << 0,
    DIFF_DTYPE   = 1 << 1,
    DIFF_SHAPE   = 1 << 2,
    DIFF_STRIDES = 1 << 3, /* only if dtype and shape are equal */
    DIFF_SOURCES = 1 << 4,
    DIFF_PARAMS  = 1 << 5, /* only if the ops are equal */
    DIFF_OUTPUT  = 1 << 6,
    DIFF_LAYER   = 1 << 7
};

/* DIFF_ bits of all fields that differ between node k of b and its partner; 0 without a partner. Ignores times. */
unsigned cli_diff_changes(const DiffGraph *a, const DiffGraph *b, int k);

typedef struct DiffCounts {
    int added, removed, changed;
} DiffCounts;

DiffCounts cli_diff_count(const DiffGraph *a, const DiffGraph *b);

RP_NODISCARD RpStatus cli_diff_print(const DiffGraph *a, const DiffGraph *b, FILE *out);
RP_NODISCARD RpStatus cli_diff_print_json(const DiffGraph *a, const DiffGraph *b, FILE *out);
RP_NODISCARD RpStatus cli_diff_print_times(const DiffGraph *a, const DiffGraph *b, FILE *out);

/* Writes a label of node i: op and name. A node without a name also gets those of its first source: "rope blk.0.q",
 * "view of copy blk.0.k_store". Leaves have their name only. */
void cli_diff_label(const DiffGraph *g, int i, char *buf, size_t size);

#endif
