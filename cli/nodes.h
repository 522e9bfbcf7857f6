/* nodes.h - notes on the nodes of a graph (RpDumpNote), which its dumps print. */
#ifndef CLI_NODES_H
#define CLI_NODES_H

#include "reprise/reprise.h"

/* An empty note for each node, indexed by rp_node_number. The caller frees the array; NULL: out of memory. */
RpDumpNote *cli_new_notes(const ComputeGraph *g);

/* Plans the graph and writes the GPU launch of each step into the note of its node. RP_E_NOT_AVAILABLE in a
 * build without the CUDA toolkit. */
RP_NODISCARD RpStatus cli_note_launches(const ComputeGraph *g, RpDumpNote *notes);

#endif
