/* api.h - calls whose form differs between versions of the toolkit. */
#ifndef EXECUTOR_CUDA_API_H
#define EXECUTOR_CUDA_API_H

#include <cuda_runtime_api.h>

/* The node that the latest launch on a capturing stream has become, and the number of nodes so far; either
 * may be NULL. */
static inline cudaError_t rp_cuda_captured(cudaStream_t stream, cudaGraphNode_t *node, size_t *n_nodes) {
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t       *deps  = NULL;
    cudaGraph_t                  graph = NULL;
    size_t                       n     = 0;
    const cudaGraphEdgeData     *edges =
        NULL; /* asked for, as without them a call where there are any is an error */
#if CUDART_VERSION >= 13000
    cudaError_t e = cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &deps, &edges, &n);
#else
    cudaError_t e = cudaStreamGetCaptureInfo_v3(stream, &status, NULL, &graph, &deps, &edges, &n);
#endif
    if (e != cudaSuccess) return e;
    if (status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
    if (node != NULL && n != 1) return cudaErrorStreamCaptureInvalidated;
    if (node != NULL) *node = deps[0];
    return n_nodes != NULL ? cudaGraphGetNodes(graph, NULL, n_nodes) : cudaSuccess;
}

static inline cudaError_t rp_cuda_add_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                           struct cudaGraphNodeParams *p) {
#if CUDART_VERSION >= 13000
    return cudaGraphAddNode(node, graph, NULL, NULL, 0, p);
#else
    return cudaGraphAddNode(node, graph, NULL, 0, p);
#endif
}

#endif
