/* page.h - `--html FILE`: a graph, or the differences of two, as one page that needs nothing else.
 *
 *     assets/graph/          document, style and scripts, which CMake joins to page_head and page_tail
 *     page.c                 collects what the page shows: dumps, plan, differences
 *     page_data.c            writes it as one JSON object between page_head and page_tail
 *     page_origin.c          writes the part of it that says where values lie, and where nodes and weights come from
 *
 * The object ("*": an index into "strings"; a node is an index into "nodes"):
 *
 *     {"program": "0.1.0", "times": "cpu, median of 20 runs" or "", "graphs": [GRAPH] or [A, B],
 *      "diff": null or {"partner": [node of A or -1 for each node of B], "changes": [DIFF_ bits]}, "strings": [...]}
 *     GRAPH   {"label", "title", "nodes": [NODE...], "plan": PLAN or null}
 *     NODE    [id, op*, name*, layer, dtype*, ne*, nb*, params*, flags, bytes, parts*, roles*, note*, colour*, us,
 *              [source...]]: flags 1 kernel, 2 output; a source is a node or -1
 *     PLAN    {"arena", "unshared", "state", "weights", "traffic": bytes, "steps": [STEP...], "origins": [ORIGIN...],
 *              "files": [WEIGHT...]}
 *     STEP    [node, state, offset, written, moved, first, last, in_place]: bytes; the steps that use the buffer
 *     ORIGIN  [node, built op*, passes*, op*, name*, ...]: the built nodes whose work the node does
 *     WEIGHT  [node, path* or -1, offset, bytes, xxh64* or -1]
 */
#ifndef CLI_PAGE_PAGE_H
#define CLI_PAGE_PAGE_H

#include "cli/diff/diff.h"
#include "cli/provenance/why.h"

/* The parts of the page before and after the data. Its Content-Security-Policy allows no other scripts and styles. */
extern const char          page_policy[];
extern const unsigned char page_head[], page_tail[];
extern const size_t        page_head_bytes, page_tail_bytes;

typedef struct PageData {
    const DiffGraph *graphs[2]; /* the second is NULL without a difference */
    const Why       *why;       /* the first graph itself, or NULL */
    json_t          *plan;      /* of rp_plan_dump, with `why` */
    const char      *times;     /* how the times of the first graph were measured, or "" */
    bool             base_names;
} PageData;

typedef struct PageOptions {
    const char       *title, *times; /* as in RpDumpOptions and PageData */
    const RpDumpNote *notes;         /* as in RpDumpOptions */
    bool              hash;          /* read the weights, and show their checksums */
    bool              base_names;    /* files without their folders, for others than the owner of the files */
} PageOptions;

/* Writes JSON, with each string once. */
typedef struct PageWriter {
    FILE   *out;
    json_t *index;              /* the index of each string */
    json_t *list;               /* the strings in their order */
    bool    base_names, failed; /* failed: memory was missing */
} PageWriter;

/* A string of JSON, NULL without memory. Each byte of a path that is not UTF-8 becomes U+FFFD. */
json_t *cli_page_new_string(const char *text);

/* The index of a text in "strings". */
int cli_page_string(PageWriter *w, const char *text);

/* Writes PLAN. `g` is the dump of why->graph. */
void cli_page_plan(PageWriter *w, const Why *why, const DiffGraph *g, const json_t *plan);

/* Writes the page. RP_E_NOMEM; errors of `out` stay in it. */
RP_NODISCARD RpStatus cli_page_write(const PageData *data, FILE *out);

/* Writes the page of a graph that the model made to the file at `path`, whole or not at all. */
RP_NODISCARD RpStatus cli_page_graph(const RpModel *m, const ComputeGraph *g, const PageOptions *o, const char *path);

/* Writes the same to a stream, whose errors stay in it. */
RP_NODISCARD RpStatus cli_page_graph_to(const RpModel *m, const ComputeGraph *g, const PageOptions *o, FILE *out);

/* Writes the page of two graphs that are matched. */
RP_NODISCARD RpStatus cli_page_diff(const DiffGraph *a, const DiffGraph *b, const char *path);

#endif
