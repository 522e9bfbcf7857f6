/* external.h - external memory as weights, inputs and outputs without a copy, and memory of this library for other
 * programs. Both directions support DLPack, as NumPy, PyTorch, JAX and CuPy do.
 *
 *   RpExternalTensor *w, *x;
 *   RP_TRY(rp_external_from_dlpack(managed, "w", &w));                     // takes `managed` over, also if it fails
 *   TensorNode *node = rp_graph_weight_external(g, "w", w);                // the graph holds it
 *   const RpExternalMemory mine = {.name = "x", .view = view, .bytes = sizeof *floats};
 *   RP_TRY(rp_external_new(&mine, &x));
 *   RP_TRY(rp_executor_tensor_bind(exec, input, x));                       // the executor holds it, and reads *floats
 *   rp_external_free(w);
 *   rp_external_free(x);
 *
 * An external tensor counts those that hold it: the caller who made it, each graph that has it as a weight, each
 * executor that it is bound to, each DLPack tensor that was made from it. When the last one lets go, its owner is told:
 * the deleter of DLPack, or RpExternalMemory.release, is called exactly once, by the thread that let go. Any thread may
 * hold and free it.
 */
#ifndef REPRISE_EXTERNAL_H
#define REPRISE_EXTERNAL_H

#include "reprise/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The structs of DLPack's own header dlpack.h: versions before 1.0, and 1.x. */
typedef struct DLManagedTensor          DLManagedTensor;
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;

typedef struct RpExternalTensor RpExternalTensor;

enum { RP_EXTERNAL_READ_ONLY = 1 }; /* nothing may write to the memory */

/* Memory by its address. Texts are copied. */
typedef struct RpExternalMemory {
    const char  *name;           /* in the texts of errors; NULL: none */
    RpTensorView view;           /* f32, f16, bf16 or i32; if every nb is 0, it is contiguous */
    size_t       bytes;          /* of the memory behind view.data, which must contain the view; 0: unknown */
    const char  *device;         /* NULL or "cpu": memory of the host; "cuda:N": of a GPU */
    void (*release)(void *user); /* or NULL: told once when nothing uses the memory any more, also after a failure */
    void    *user;
    uint64_t flags; /* RP_EXTERNAL_READ_ONLY */
} RpExternalMemory;

/* The caller frees *out; on failure it is NULL, and `release` has been called, unless `memory` is NULL or has members
 * that this library does not know. Every check is made here: RP_E_DTYPE for another type; RP_E_SHAPE for dimensions
 * below 1 and for a size beyond 64 bits or `bytes`; RP_E_ARG for NULL data, an address or strides that are not
 * multiples of an element, another device or an unknown flag; RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus        rp_external_new_sized(const RpExternalMemory *memory, size_t memory_bytes,
                                                          RpExternalTensor **out);
RP_NODISCARD static inline RpStatus rp_external_new(const RpExternalMemory *memory, RpExternalTensor **out) {
    return rp_external_new_sized(memory, sizeof *memory, out);
}

/* The same from DLPack; `name` is for the texts of errors, NULL: none. Takes `tensor` over: its deleter is called once,
 * also after a failure. The first dimension of DLPack is the last of ne; at most four, in memory of the host or CUDA.
 * RP_E_UNSUPPORTED for another device, strides that are not positive (but for dimensions of 1) or another major version
 * than 1; else as rp_external_new. */
RP_API RP_NODISCARD RpStatus rp_external_from_dlpack(DLManagedTensor *tensor, const char *name, RpExternalTensor **out);
RP_API RP_NODISCARD RpStatus rp_external_from_dlpack_versioned(DLManagedTensorVersioned *tensor, const char *name,
                                                               RpExternalTensor **out);

/* The caller no longer holds it. NULL is allowed. */
RP_API void rp_external_free(RpExternalTensor *t);

RP_API RpTensorView rp_external_view(const RpExternalTensor *t);
RP_API const char  *rp_external_device(const RpExternalTensor *t); /* "cpu" or "cuda:N"; owned by the tensor */
RP_API bool         rp_external_read_only(const RpExternalTensor *t);

/* Makes a DLPack tensor for another library, which calls the deleter of *out. *out holds the tensor. On failure it is
 * NULL: RP_E_NOMEM, or RP_E_UNSUPPORTED for read-only memory, which only the versioned struct can express. */
RP_API RP_NODISCARD RpStatus rp_external_to_dlpack(RpExternalTensor *t, DLManagedTensor **out);
RP_API RP_NODISCARD RpStatus rp_external_to_dlpack_versioned(RpExternalTensor *t, DLManagedTensorVersioned **out);

/* ---- graphs ---- */

/* As rp_graph_weight; the graph holds the tensor until it is freed. The memory may be read only; kernels read the
 * values that it has when they run. On a GPU the weight is copied when it is first bound. Sticky: also RP_E_SHAPE if
 * elements of a row, or rows, do not follow one another as ne says, RP_E_UNSUPPORTED for memory of a GPU. */
RP_API TensorNode *rp_graph_weight_external(ComputeGraph *g, const char *name, RpExternalTensor *t);

/* The tensor of a weight, borrowed from the graph; NULL for other nodes. */
RP_API RpExternalTensor *rp_node_external(const TensorNode *node);

/* ---- executors ---- */

/* Binds the input or output `node` to the memory of `t`, without a copy; NULL: to memory of the executor again. Nothing
 * is captured again: the captured nodes are repointed, as with bound states. The executor holds the tensor. `t` must be
 * contiguous, have the type and the shape of the node, and lie on the device of the executor. On a GPU its address must
 * be a multiple of 64, work of other streams on it must be finished before a run, and rp_executor_data gives NULL for
 * the node. Outputs must not overlap other memory of the executor. RP_E_DTYPE, RP_E_SHAPE, RP_E_ARG for a node that is
 * neither an input nor an output, another device, an output in memory for reading, or memory that overlaps;
 * RP_E_UNSUPPORTED for an output that is a view of another node. After a failure the earlier binding stays. */
RP_API RP_NODISCARD RpStatus rp_executor_tensor_bind(RpExecutor *exec, const TensorNode *node, RpExternalTensor *t);

/* The memory of an input or output as a tensor, without a copy: its own or that which is bound to it. It outlives the
 * executor, and holds the values of the latest run. RP_E_UNSUPPORTED for memory that an executor on a GPU has itself,
 * RP_E_ARG for other nodes. The caller frees *out. */
RP_API RP_NODISCARD RpStatus rp_executor_tensor(RpExecutor *exec, const TensorNode *node, RpExternalTensor **out);

#ifdef __cplusplus
}
#endif
#endif
