/* diff.h - two graphs side by side: what `reprise graph --diff` reads, pairs and prints.
 *
 * A graph is what its JSON dump says; one that is built on the spot is dumped and read as a saved one is, so that
 * both are compared by the same facts.
 */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "cli/graph_source.h"

#include <jansson.h>

enum { DIFF_MAX_SRC = 16 };

typedef struct DiffNode {
    const char *op, *name, *dtype; /* the graph's json has them */
    json_t     *params;            /* likewise; NULL in a dump without */
    int         id, layer, n_src;
    int         src[DIFF_MAX_SRC]; /* places in DiffGraph.nodes, -1: an optional one, left out */
    int64_t     ne[RP_MAX_DIMS], nb[RP_MAX_DIMS];
    double      us; /* 0: not known */
    bool        kernel, output, leaf;
    int         partner; /* its place in the other graph, or -1 */
} DiffNode;

typedef struct DiffGraph {
    const char *label; /* as on the command line */
    char        title[256];
    json_t     *json;
    DiffNode   *nodes;
    int         n, n_kernels, last_layer;
    double      us; /* of all nodes; 0: not known */
} DiffGraph;

/* The text of a dump. `where` stands for it in errors: RP_E_FORMAT with line and column, or the node. */
RP_NODISCARD RpStatus cli_diff_read(const char *text, size_t n, const char *where, DiffGraph *out);

/* A saved dump, or a graph to be built: "[MODEL][:WORD]..."; what it leaves out is taken from `defaults`. */
RP_NODISCARD RpStatus cli_diff_open(const char *text, const GraphSource *defaults, DiffGraph *out);
void                  cli_diff_free(DiffGraph *g);

/* Fills in the partners: leaves by name; the nodes of a layer by op and name in the order of both graphs. */
RP_NODISCARD RpStatus cli_diff_match(DiffGraph *a, DiffGraph *b);

enum {
    DIFF_OP      = 1 << 0,
    DIFF_DTYPE   = 1 << 1,
    DIFF_SHAPE   = 1 << 2,
    DIFF_STRIDES = 1 << 3, /* of the same dtype and shape */
    DIFF_SOURCES = 1 << 4,
    DIFF_PARAMS  = 1 << 5, /* of the same op */
    DIFF_OUTPUT  = 1 << 6,
    DIFF_LAYER   = 1 << 7
};

/* What is not the same in node k of b and its partner; 0 for one without. Times are no change. */
unsigned cli_diff_changes(const DiffGraph *a, const DiffGraph *b, int k);

typedef struct DiffCounts {
    int added, removed, changed;
} DiffCounts;

/* Of one layer (-1: outside the layers), or of all with `layer` -2. */
DiffCounts cli_diff_count(const DiffGraph *a, const DiffGraph *b, int layer);

RP_NODISCARD RpStatus cli_diff_print(const DiffGraph *a, const DiffGraph *b, FILE *out);
RP_NODISCARD RpStatus cli_diff_print_json(const DiffGraph *a, const DiffGraph *b, FILE *out);
void                  cli_diff_print_times(const DiffGraph *a, const DiffGraph *b, FILE *out);

/* The name of a node, or what it is of: "rope blk.0.q", "view of copy blk.0.k_store". */
void cli_diff_label(const DiffGraph *g, int i, char *buf, size_t size);

#endif
