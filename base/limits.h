/* limits.h - numbers that kernels, checks of ops and models share. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include "reprise/tensor.h"

/* Smallest scale of a q8_0 block in the KV cache and of a q8_act block: 2^-126, the smallest normal float. Further
 * below 1/scale would overflow, so blocks with a smaller scale get quants 0. */
#define RP_SMALLEST_SCALE 1.17549435e-38f

/* Most elements of a head in op attention, and most rotated elements of a row in rope and qkv: the kernels hold them in
 * arrays of fixed size. */
enum { RP_ATTENTION_MAX_DIM = 512, RP_ROPE_MAX_DIMS = 1024 };

/* Most elements of the rotated part of a head in latent_attention; the latent vectors have RP_ATTENTION_MAX_DIM. */
enum { RP_LATENT_MAX_ROPE = 64 };

/* Most taps of causal_conv, most elements of a head in gated_delta, and longest state of a channel in ssm_scan, which
 * the kernels hold in arrays. */
enum { RP_CONV_MAX_TAPS = 8, RP_DELTA_MAX_DIM = 256, RP_SSM_MAX_STATE = 256 };

/* Scratch of sample_rows, f32: the candidates of each token [2n], then RpStepState of each token. */
enum { RP_SAMPLE_ROWS_STATE = 16 };

/* Most experts of a token in route_backward: the kernels hold their gradients in an array. */
enum { RP_ROUTE_BACKWARD_MAX = 256 };

static inline bool rp_dtype_is_float(RpDtype t) { return t == RP_F32 || t == RP_F16 || t == RP_BF16; }

#endif
