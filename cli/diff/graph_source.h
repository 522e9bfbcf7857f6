/* graph_source.h - builds the graph that the options of `reprise graph` describe. */
#ifndef CLI_DIFF_GRAPH_SOURCE_H
#define CLI_DIFF_GRAPH_SOURCE_H

#include "reprise/reprise.h"

typedef struct GraphSource {
    const char *model;       /* a file or, for cli_graph_source_open, a preset of `reprise synth` */
    const char *type;        /* of a preset's weights; NULL: Q8_0 */
    const char *passes;      /* passes to switch off; NULL: REPRISE_PASSES */
    const char *after;       /* the last pass to run; NULL: all */
    const char *kv;          /* type of the KV cache; NULL: f16 */
    int32_t     tokens, ctx; /* tokens of a step, positions of the KV cache; ctx 0: the default */
    bool        raw;         /* run no pass */
} GraphSource;

/* Opens the file, or the preset if there is no file of that name. RP_E_ARG for a type with a file. */
RP_NODISCARD RpStatus cli_graph_source_open(const GraphSource *s, RpModel **out);

/* One line of description of a graph: the name of the model, its architecture and layers, tokens and context. */
void cli_graph_title(const RpModel *m, int32_t tokens, int32_t ctx, char *title, size_t size);

/* Builds the graph, runs the passes that the source selects, and writes one line of description to `title`.
 * The caller frees the graph, before the model. */
RP_NODISCARD RpStatus cli_graph_source_build(const GraphSource *s, const RpModel *m, char *title, size_t title_size,
                                             ComputeGraph **out);

#endif
