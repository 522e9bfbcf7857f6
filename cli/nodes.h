/* nodes.h - notes on the nodes of a graph, for its dumps. */
#ifndef CLI_NODES_H
#define CLI_NODES_H

#include "reprise/reprise.h"

/* One a node, with nothing to say. The caller frees it; NULL when out of memory. */
DumpNote *cli_new_notes(const ComputeGraph *g);

/* What each step of the graph's plan would launch on a GPU, into its node's note. */
RP_NODISCARD RpStatus cli_note_launches(const ComputeGraph *g, DumpNote *notes);

#endif
