/* api.h - calls whose form differs between versions of the toolkit. */
#ifndef EXECUTOR_CUDA_API_H
#define EXECUTOR_CUDA_API_H

#include <cuda_runtime_api.h>

/* The node that the latest launch on a capturing stream has become. */
static inline cudaError_t rp_cuda_latest_node(cudaStream_t stream, cudaGraphNode_t *node) {
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t       *deps = NULL;
    size_t                       n    = 0;
#if CUDART_VERSION >= 13000
    const cudaError_t e = cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &deps, NULL, &n);
#else
    const cudaError_t e = cudaStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &deps, &n);
#endif
    if (e != cudaSuccess) return e;
    if (status != cudaStreamCaptureStatusActive || n != 1) return cudaErrorStreamCaptureInvalidated;
    *node = deps[0];
    return cudaSuccess;
}

static inline cudaError_t rp_cuda_add_node(cudaGraphNode_t *node, cudaGraph_t graph, struct cudaGraphNodeParams *p) {
#if CUDART_VERSION >= 13000
    return cudaGraphAddNode(node, graph, NULL, NULL, 0, p);
#else
    return cudaGraphAddNode(node, graph, NULL, 0, p);
#endif
}

#endif
