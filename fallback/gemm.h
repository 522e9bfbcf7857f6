/* gemm.h - blocks of a product by the loops of op gemm (gemm.c), for ops that gather their operands. Every result
 * has the same bits whatever its block is, as long as the terms of the slices are the same. */
#ifndef FALLBACK_GEMM_H
#define FALLBACK_GEMM_H

#include "ops/rules.h"

/* The most rows and columns of a block; the terms of a slice; blocks of a multiple of RP_GEMM_STRIP rows leave no
 * rows idle. */
enum { RP_GEMM_ROWS = 240, RP_GEMM_COLS = 256, RP_GEMM_TERMS = 128, RP_GEMM_STRIP = 12 };

/* y[j,i] = [y[j,i] +] sum_k a(i,k) * b[j,k] for all elements of y [columns,rows], f32. a(i,k) is
 * a[i * row + k * term], one of the strides being 1; b is f32 [columns,terms] with adjacent columns. A slice of
 * RP_GEMM_TERMS terms is summed before it is added, so a call for each slice gives the bits of one call for all. */
void rp_gemm_block(const float *a, int64_t row, int64_t term, const RpTensorView *b, bool add, const RpTensorView *y);

#endif
