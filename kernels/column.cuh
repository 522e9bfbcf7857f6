/* column.cuh - the column of a product of one token (ColumnParams): normed and rounded by every block for itself, by the
 * arithmetic and in the order of rms_norm.cu and quantize.cu, so that the bits are theirs. */
#ifndef KERNELS_COLUMN_CUH
#define KERNELS_COLUMN_CUH

#include "kernels/gemv.cuh"
#include "kernels/quantize.cuh"
#include "kernels/rms_norm.cuh"

static_assert((int)RP_GEMV_THREADS == (int)RP_NORM_THREADS, "the norm is one block's");

enum {
    RP_COLUMN_BLOCKS = 1024
}; /* with more blocks each takes several turns, so that fewer make the column */

struct ColumnSource {
    const char  *x;
    const float *weight; /* of the norm, or NULL */
    int64_t      n;
    float        eps;
    bool         rounded, norm, round; /* rounded: x is q8_act */
};

static inline ColumnSource rp_column_source(const TensorView &x, const TensorView &norm,
                                            const ColumnParams &p) {
    return {(const char *)x.data,
            (const float *)norm.data,
            x.ne[0],
            p.eps,
            x.dtype == RP_Q8_ACT,
            p.norm != 0,
            p.round != 0 || x.dtype == RP_Q8_ACT};
}

/* How many rows of blocks a block takes, by the shape of the launch only. */
static inline int64_t rp_column_turns(const ColumnSource &c, int64_t blocks) {
    return c.norm && blocks > RP_COLUMN_BLOCKS ? blocks / RP_COLUMN_BLOCKS : 1;
}

/* The blocks of a launch for `results`, `each` a warp. */
struct ColumnGrid {
    int     split;
    int64_t turns, blocks;
};

static inline ColumnGrid rp_column_grid(const ColumnSource &c, int64_t results, int each, int split,
                                        int64_t times) {
    const int64_t all   = rp_blocks(results, (int64_t)each * RP_GEMV_WARPS / split),
                  turns = rp_column_turns(c, all * times);
    return {split, turns, (all + turns - 1) / turns};
}

/* Of a launch over staged columns: its shared memory. */
static inline unsigned rp_column_shared(const ColumnSource &c) {
    return c.round ? (unsigned)rp_gemv_shared<1>(c.n) : 0;
}

/* Columns of gemv.cuh. */
struct MadeColumn {
    ColumnSource c;
    float        scale;

    __device__ explicit MadeColumn(const ColumnSource &source) : c(source), scale(1.0f) {}

    __device__ int together() const { return 1; }
    __device__ int first() const { return 0; }

    __device__ void open() {
        RP_SHARED(float, sums, [RP_WARP]);
        if (c.norm) scale = rp_rms_scale<false>((const float *)c.x, c.n, c.eps, sums);
    }

    __device__ float normed(float v, int64_t i) const {
        return c.norm ? v * scale * (c.weight != nullptr ? c.weight[i] : 1.0f) : v;
    }

    __device__ void stage(int64_t from, int len, char *to) const {
        if (c.rounded) return rp_stage_rounded(c.x, c.n, from, len, to);
        const int fours = len / 4, lane = (int)threadIdx.x % RP_WARP;
#pragma unroll 1
        for (int i = (int)threadIdx.x; i - lane < fours; i += RP_GEMV_THREADS) { /* whole warps */
            const bool    keep = i < fours;
            const int64_t at   = from + 4 * (int64_t)(keep ? i : 0);
            float4        v    = rp_four<false>((const float *)c.x, at, c.n);
            if (c.norm) {
                v.x *= scale, v.y *= scale, v.z *= scale, v.w *= scale;
                if (c.weight != nullptr) {
                    const float4 w = rp_four<false>(c.weight, at, c.n);
                    v.x *= w.x, v.y *= w.y, v.z *= w.z, v.w *= w.w;
                }
            }
            rp_quantize_four(v, to, len, i, keep);
        }
    }

    __device__ bool aligned() const { return ((uintptr_t)c.x | (uintptr_t)c.weight) % 16 == 0; }

    __device__ float at(int64_t i) const { return normed(((const float *)c.x)[i], i); }

    template <bool ALIGNED>
    __device__ void eight(int, int64_t i, int64_t left, float (&v)[RP_FLOAT_UNIT]) const {
        rp_eight<ALIGNED>((const float *)c.x + i, left, v);
        if (!c.norm) return;
        float w[RP_FLOAT_UNIT];
        for (int k = 0; k < RP_FLOAT_UNIT; k++) w[k] = 1.0f;
        if (c.weight != nullptr) rp_eight<ALIGNED>(c.weight + i, left, w);
        for (int k = 0; k < RP_FLOAT_UNIT; k++) v[k] = v[k] * scale * w[k];
    }
};

#endif
