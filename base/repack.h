/* repack.h - copies of block-quantised weights in which 16 rows are interleaved, for the CPU kernels. The layout is in
 * fallback/products/repack.h. A copy gives the same bits as the rows of the file (I8). */
#ifndef BASE_REPACK_H
#define BASE_REPACK_H

#include "reprise/executor.h"
#include "reprise/kernel.h"

/* Whether the CPU kernel of this step can read a repacked copy of its source k, by op, types, shapes and parameters. */
bool rp_cpu_can_repack(TensorOp op, const RpOpArgs *args, int k);

/* Bytes of the copies of all weights of a plan that can be repacked. `beside`: without those that this plan has too; or
 * NULL. */
size_t rp_plan_repack_bytes(const ExecPlan *plan, const ExecPlan *beside);

/* Whether the instruction set in use has kernels for repacked weights. Others unpack them first, to no gain. */
bool rp_cpu_repack_pays(void);

/* Whether a matrix, or a stack of them, with blocks as in the file can be repacked: a type with a layout, and whole
 * groups of 16 rows that are not too long. */
bool rp_can_repack(const RpTensorView *w);

/* The view of a repacked copy of w at `data`, which is aligned to 64, and its bytes, rounded up to such an address. */
RpTensorView rp_repacked_view(const RpTensorView *w, void *data);
size_t       rp_repacked_copy_bytes(const RpTensorView *w);

/* Writes groups [first, end) of the copy `to`. Group g is rows 16g to 16g + 15, counted over all matrices. */
enum { RP_REPACKED_ROWS = 16 };
void rp_repack(const RpTensorView *w, const RpTensorView *to, int64_t first, int64_t end);

#endif
