/* graph_source.h - a graph as the options of `reprise graph` describe it. */
#ifndef CLI_GRAPH_SOURCE_H
#define CLI_GRAPH_SOURCE_H

#include "reprise/reprise.h"

typedef struct GraphSource {
    const char *model;  /* a file or, for cli_graph_source_open, a preset of `reprise synth` */
    const char *type;   /* of a preset's weights, or NULL */
    const char *passes; /* to switch off */
    const char *after;  /* the last pass to run, or NULL */
    const char *kv;     /* or NULL */
    int32_t     tokens, ctx;
    bool        raw; /* before any pass */
} GraphSource;

RP_NODISCARD RpStatus cli_graph_source_open(const GraphSource *s, Model **out);

/* The graph, optimised as far as the source says, and a line that names it. */
RP_NODISCARD RpStatus cli_graph_source_build(const GraphSource *s, const Model *m, char *title,
                                             size_t title_size, ComputeGraph **out);

#endif
