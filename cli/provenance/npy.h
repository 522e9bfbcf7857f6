/* npy.h - arrays in the format of NumPy, version 1.0:
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef CLI_PROVENANCE_NPY_H
#define CLI_PROVENANCE_NPY_H

#include "reprise/tensor.h"

#include <stdio.h>

/* Writes the head of an array: `descr` is its type ("<f4"), shape[n_dims] its dimensions, the outermost first. The
 * elements follow, the last dimension fastest. */
void cli_npy_head(const char *descr, const size_t *shape, int n_dims, FILE *out);

/* The shape of an array of ne elements: outermost first, at least two dimensions, no further ones of 1. Returns their
 * number. */
int cli_npy_shape(const int64_t ne[RP_MAX_DIMS], size_t shape[RP_MAX_DIMS]);

/* An array that was read; the caller frees `values`. */
typedef struct NpyArray {
    size_t shape[RP_MAX_DIMS]; /* outermost first */
    int    n_dims;
    size_t n;      /* elements */
    float *values; /* converted from f2, f4, f8 or i4 */
} NpyArray;

/* RP_E_IO; RP_E_FORMAT for another format or version, a type that is none of these, the order of Fortran, more than
 * four dimensions, or a length that is not that of the shape; RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_npy_read(const char *path, NpyArray *out);

#endif
