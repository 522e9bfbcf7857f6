/* api.h - runtime calls whose signatures differ between CUDA 12 and 13. */
#ifndef EXECUTOR_CUDA_API_H
#define EXECUTOR_CUDA_API_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* Whether edges of a graph have data, as those of PDL do: with drivers from CUDA 12.3 on. */
static inline bool rp_cuda_has_edge_data(void) {
    int driver = 0;
    return CUDART_VERSION >= 13000 || (cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12030);
}

/* *node: the node that the latest launch on a capturing stream has become; *n_nodes: nodes captured so far. Either may
 * be NULL. The next launch will depend on the stream's current dependencies, and on a stream without forks that is
 * exactly one node, the latest. */
static inline cudaError_t rp_cuda_captured(cudaStream_t stream, cudaGraphNode_t *node, size_t *n_nodes) {
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t       *deps  = NULL;
    cudaGraph_t                  graph = NULL;
    size_t                       n     = 0;
    /* Edge data must be asked for: without them the call fails once an edge has any, as PDL edges do. Drivers before
     * CUDA 12.3 have none, and lack the call. */
    const cudaGraphEdgeData *edges = NULL;
#if CUDART_VERSION >= 13000
    cudaError_t e = cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &deps, &edges, &n);
#else
    cudaError_t e = rp_cuda_has_edge_data()
                        ? cudaStreamGetCaptureInfo_v3(stream, &status, NULL, &graph, &deps, &edges, &n)
                        : cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &deps, &n);
#endif
    if (e != cudaSuccess) return e;
    if (status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
    if (node != NULL && n != 1) return cudaErrorStreamCaptureInvalidated;
    if (node != NULL) *node = deps[0];
    return n_nodes != NULL ? cudaGraphGetNodes(graph, NULL, n_nodes) : cudaSuccess;
}

/* Adds a node without dependencies. */
static inline cudaError_t rp_cuda_add_node(cudaGraphNode_t *node, cudaGraph_t graph, struct cudaGraphNodeParams *p) {
#if CUDART_VERSION >= 13000
    return cudaGraphAddNode(node, graph, NULL, NULL, 0, p);
#else
    return cudaGraphAddNode(node, graph, NULL, 0, p);
#endif
}

#endif
