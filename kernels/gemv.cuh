/* gemv.cuh - a matrix of weights times one or a few columns; mul_mat and mul_mat_id.
 *
 * A warp takes two rows and up to COLUMNS columns, so that what is loaded of each serves all of the other.
 * Where the matrix has few rows, `split` warps of a block share the rows: warp s of them and lane l take the
 * units 32 s + l, + 32 split, ... of the row; lanes are added by a tree, then the warps in their order.
 * `split` follows from the shape of the weights only, and a column's sum is the same sum beside any others
 * (I8). */
#ifndef KERNELS_GEMV_CUH
#define KERNELS_GEMV_CUH

#include "kernels/quants.cuh"

enum {
    RP_GEMV_WARPS   = 8,
    RP_GEMV_THREADS = RP_GEMV_WARPS * RP_WARP,
    RP_GEMV_ROWS    = 2,
    RP_GEMV_COLUMNS = 4,
    RP_GEMV_BUSY    = 4096,     /* warps that keep a device busy */
    RP_GEMV_STAGED  = 4 * 8192, /* elements of all columns in shared memory: 45056 bytes of q8_act */
    RP_FLOAT_UNIT   = 8
};

/* Rows [first, first + rows) of the tensor times columns. */
struct GemvJob {
    int64_t     first, rows, n;
    const char *x;
    size_t      x_stride;
    char       *y;
    size_t      y_stride;
    int         columns, split;
};

static inline int rp_gemv_split(int64_t rows, int64_t units) {
    int split = 1;
    while (split < RP_GEMV_WARPS && (rows + 1) / 2 * split < RP_GEMV_BUSY && units >= 2 * split * RP_WARP)
        split *= 2;
    return split;
}

static inline LaunchShape rp_gemv_shape(int64_t rows, int split, int64_t y, int64_t z, int64_t shared) {
    return {dim3(rp_blocks(rows, RP_GEMV_ROWS * RP_GEMV_WARPS / split), (unsigned)y, (unsigned)z),
            dim3(RP_GEMV_THREADS), (unsigned)shared};
}

/* Shared memory of a kernel over q8_act columns of n elements. */
__host__ __device__ static inline int64_t rp_staged_bytes(int64_t len) {
    return (len / 32 * 44 + 15) / 16 * 16;
}

template <int C> static inline int64_t rp_gemv_shared(int64_t n) {
    return C * rp_staged_bytes(n < RP_GEMV_STAGED / C ? (int)n : RP_GEMV_STAGED / C);
}

/* The first of the warp's rows. */
__device__ static inline int64_t rp_gemv_row(const GemvJob &job) {
    const int per_block = RP_GEMV_WARPS / job.split, warp = (int)threadIdx.x / RP_WARP;
    return ((int64_t)blockIdx.x * per_block + warp / job.split) * RP_GEMV_ROWS;
}

/* Blocks on a multiprocessor that leave each thread registers enough. */
constexpr int rp_gemv_blocks(RpDtype t, int columns) {
    const bool simple = t == RP_Q4_0 || t == RP_Q4_1 || t == RP_Q5_0 || t == RP_Q5_1;
    return columns > 1 || t == RP_Q8_0 || t == RP_MXFP4 ? 2 : simple ? 4 : 3;
}

/* The unit of a row that the lane takes first; the next is 32 split units on. */
__device__ static inline int rp_gemv_first(const GemvJob &job) {
    return (int)threadIdx.x / RP_WARP % job.split * RP_WARP + (int)threadIdx.x % RP_WARP;
}

template <int C> __device__ static inline void rp_gemv_put(const GemvJob &job, int64_t m, int c, float v) {
    if (m < job.rows && c < job.columns) ((float *)(job.y + (size_t)c * job.y_stride))[m] = v;
}

/* Adds the lanes, then the warps that share rows, and writes. Every thread of the block calls it. */
template <int C>
__device__ static inline void rp_gemv_finish(const GemvJob &job, const float (&acc)[RP_GEMV_ROWS][C]) {
    RP_SHARED(float, parts, [RP_GEMV_WARPS * RP_GEMV_ROWS * C]);
    const int     lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    const int64_t m = rp_gemv_row(job);
    for (int r = 0; r < RP_GEMV_ROWS; r++)
        for (int c = 0; c < C; c++) {
            const float sum = rp_warp_sum(acc[r][c]);
            if (lane != 0) continue;
            if (job.split == 1)
                rp_gemv_put<C>(job, m + r, c, sum);
            else
                parts[(warp * RP_GEMV_ROWS + r) * C + c] = sum;
        }
    if (job.split == 1) return;
    __syncthreads();
    const int at = lane; /* of the first of the warps that share rows: a lane a result */
    if (warp % job.split != 0 || at >= RP_GEMV_ROWS * C) return;
    float sum = 0.0f;
    for (int s = 0; s < job.split; s++) sum += parts[(warp + s) * RP_GEMV_ROWS * C + at];
    rp_gemv_put<C>(job, m + at / C, at % C, sum);
}

/* ---- quantised weights, q8_act columns ---- */

/* Elements [from, from + len) of the columns, their scales and their sums, each part aligned for 16 bytes. */
template <int C>
__device__ static inline void rp_gemv_stage(const GemvJob &job, int64_t from, int len, char *staged) {
    for (int c = 0; c < C && c < job.columns; c++) {
        const char *x  = job.x + (size_t)c * job.x_stride;
        char       *to = staged + c * rp_staged_bytes(len);
        const int  *q = (const int *)(x + from), *scale = (const int *)(x + job.n) + from / 32,
                  *sum = (const int *)(x + job.n) + job.n / 32 + from / 16;
        const int n_q = (int)(len / 4), n_scale = (int)(len / 32), tid = (int)threadIdx.x;
        if ((uintptr_t)q % 16 == 0 && n_q % 4 == 0)
            for (int i = tid; i < n_q / 4; i += RP_GEMV_THREADS) rp_put16(to + 16 * i, rp_get16(q + 4 * i));
        else
            for (int i = tid; i < n_q; i += RP_GEMV_THREADS) ((int *)to)[i] = q[i];
        for (int i = tid; i < n_scale; i += RP_GEMV_THREADS) ((int *)to)[n_q + i] = scale[i];
        for (int i = tid; i < 2 * n_scale; i += RP_GEMV_THREADS) ((int *)to)[n_q + n_scale + i] = sum[i];
    }
}

__device__ static inline int rp_dot16(const int *q, const uint4 &x) {
    return __dp4a(q[0], (int)x.x, __dp4a(q[1], (int)x.y, __dp4a(q[2], (int)x.z, __dp4a(q[3], (int)x.w, 0))));
}

/* Adds unit u of both rows times the staged columns, which begin with unit u0. */
template <RpDtype T, int C>
__device__ static inline void
rp_gemv_unit(const GemvJob &job, const typename Blocks<T>::Raw (&raw)[RP_GEMV_ROWS], const char *staged,
             int len, int u, int u0, float (&acc)[RP_GEMV_ROWS][C]) {
    const int group = Blocks<T>::first_group(u - u0), next = group + Blocks<T>::STEP;
    Unit      w[RP_GEMV_ROWS];
#pragma unroll
    for (int r = 0; r < RP_GEMV_ROWS; r++) w[r] = Blocks<T>::unpack(raw[r], u);
#pragma unroll
    for (int c = 0; c < C; c++) {
        if (c >= job.columns) break;
        const char  *x     = staged + c * rp_staged_bytes(len);
        const float *scale = (const float *)(x + len), *sum = scale + len / 32;
        const uint4  a = rp_get16(x + 16 * group), b = rp_get16(x + 16 * next);
        const float  scale_a = scale[group / 2], scale_b = Blocks<T>::ONE_SCALE ? scale_a : scale[next / 2];
        const float  sum_a = sum[group], sum_b = sum[next];
#pragma unroll
        for (int r = 0; r < RP_GEMV_ROWS; r++) {
            const int dot_a = rp_dot16(w[r].q[0], a), dot_b = rp_dot16(w[r].q[1], b);
            if (Blocks<T>::ONE_SCALE) {
                acc[r][c] = fmaf(w[r].scale[0] * scale_a, (float)(dot_a + dot_b), acc[r][c]);
            } else {
                acc[r][c] = fmaf(w[r].scale[0] * scale_a, (float)dot_a, acc[r][c]);
                acc[r][c] = fmaf(w[r].scale[1] * scale_b, (float)dot_b, acc[r][c]);
            }
            if (T == RP_Q8_0 || T == RP_MXFP4) continue;
            acc[r][c] = fmaf(w[r].min[0], sum_a, acc[r][c]);
            acc[r][c] = fmaf(w[r].min[1], sum_b, acc[r][c]);
        }
    }
}

/* The first units are on their way while the columns are staged. */
template <RpDtype T, int C>
__device__ static inline void rp_gemv_quant(const Planes &planes, const GemvJob &job) {
    typedef typename Blocks<T>::Raw Raw;
    RP_SHARED_DYNAMIC(char, staged);
    enum { AHEAD = Blocks<T>::AHEAD };
    const int     units = (int)(job.n / RP_UNIT), piece = RP_GEMV_STAGED / C / RP_UNIT;
    const int     step = job.split * RP_WARP, first = rp_gemv_first(job);
    const int64_t m = rp_gemv_row(job), last = job.rows - 1;
    int64_t       row[RP_GEMV_ROWS];
    float         acc[RP_GEMV_ROWS][C] = {};
    Raw           raw[AHEAD][RP_GEMV_ROWS];
    for (int r = 0; r < RP_GEMV_ROWS; r++) row[r] = (job.first + (m + r < last ? m + r : last)) * units;
    const auto load = [&](int u) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++)
                raw[k][r] =
                    Blocks<T>::load(planes, row[r] + (u + k * step < units ? u + k * step : units - 1));
    };
    for (int u0 = 0; u0 < units; u0 += piece) {
        const int end = units - u0 < piece ? units : u0 + piece, len = (end - u0) * RP_UNIT;
        int       u = u0 + first;
        load(u);
        if (u0 > 0) __syncthreads(); /* the piece before has been read by all */
        rp_gemv_stage<C>(job, (int64_t)u0 * RP_UNIT, len, staged);
        __syncthreads();
#pragma unroll 1
        while (u < end) {
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (u + k * step < end) rp_gemv_unit<T, C>(job, raw[k], staged, len, u + k * step, u0, acc);
            u += AHEAD * step;
            if (u < end) load(u);
        }
    }
    rp_gemv_finish<C>(job, acc);
}

/* ---- quantised weights, unrounded columns ---- */

template <RpDtype T> __device__ static inline void rp_gemv_wide(const Planes &planes, const GemvJob &job) {
    const int64_t m = rp_gemv_row(job), units = job.n / RP_UNIT, last = job.rows - 1;
    const float  *x                    = (const float *)job.x;
    float         acc[RP_GEMV_ROWS][1] = {};
    for (int64_t u = rp_gemv_first(job); u < units; u += job.split * RP_WARP) {
        const int64_t group = Blocks<T>::first_group(u);
        for (int r = 0; r < RP_GEMV_ROWS; r++) {
            const int64_t row = job.first + (m + r < last ? m + r : last);
            const Unit    w   = Blocks<T>::unpack(Blocks<T>::load(planes, row * units + u), (int)u);
            for (int k = 0; k < 2; k++)
                for (int i = 0; i < RP_GROUP; i++)
                    acc[r][0] =
                        fmaf(rp_element(w, k, i), x[(group + k * Blocks<T>::STEP) * RP_GROUP + i], acc[r][0]);
        }
    }
    rp_gemv_finish<1>(job, acc);
}

/* ---- float weights ---- */

/* Eight elements; ALIGNED: from an address of whole 16 bytes. */
template <RpDtype T, bool ALIGNED> struct Eight {
    uint4           bits[T == RP_F32 ? 2 : 1];
    __device__ void load(const char *p, int64_t n) {
        if (ALIGNED && n >= RP_FLOAT_UNIT) {
            for (int i = 0; i < (T == RP_F32 ? 2 : 1); i++) bits[i] = rp_ldg16(p + 16 * i);
            return;
        }
        unsigned w[8] = {};
        for (int i = 0; i < RP_FLOAT_UNIT; i++) {
            if (i >= n) break;
            if (T == RP_F32)
                w[i] = ((const unsigned *)p)[i];
            else
                w[i / 2] |= (unsigned)((const uint16_t *)p)[i] << (16 * (i % 2));
        }
        bits[0] = make_uint4(w[0], w[1], w[2], w[3]);
        if (T == RP_F32) bits[sizeof bits / 16 - 1] = make_uint4(w[4], w[5], w[6], w[7]);
    }
    __device__ float at(int i) const {
        if (T == RP_F32) return __uint_as_float(rp_word(bits[i / 4 % (sizeof bits / 16)], i % 4));
        const uint16_t h = (uint16_t)(rp_word(bits[0], i / 2 % 4) >> (16 * (i % 2)));
        return T == RP_F16 ? rp_half_bits(h) : rp_bf16_bits(h);
    }
};

/* Float rows from `w`, `w_stride` bytes apart; `length` terms of the sum. Lanes take eight elements at a
 * time. */
template <RpDtype T, int C, bool ALIGNED>
__device__ static inline void rp_float_rows(const char *w, size_t w_stride, const GemvJob &job,
                                            int64_t length, float (&acc)[RP_GEMV_ROWS][C]) {
    const int64_t m = rp_gemv_row(job), last = job.rows - 1,
                  step = (int64_t)job.split * RP_WARP * RP_FLOAT_UNIT;
    const char *row[RP_GEMV_ROWS];
    for (int r = 0; r < RP_GEMV_ROWS; r++) row[r] = w + (size_t)(m + r < last ? m + r : last) * w_stride;
#pragma unroll 2
    for (int64_t i = (int64_t)rp_gemv_first(job) * RP_FLOAT_UNIT; i < length; i += step) {
        Eight<T, ALIGNED>      a[RP_GEMV_ROWS];
        Eight<RP_F32, ALIGNED> x[C];
#pragma unroll
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            a[r].load(row[r] + (size_t)i * (T == RP_F32 ? 4 : 2), length - i);
#pragma unroll
        for (int c = 0; c < C; c++)
            x[c].load(job.x + (size_t)(c < job.columns ? c : 0) * job.x_stride + (size_t)i * 4, length - i);
#pragma unroll
        for (int k = 0; k < RP_FLOAT_UNIT; k++) {
            if (i + k >= length) break;
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++)
#pragma unroll
                for (int c = 0; c < C; c++) acc[r][c] = fmaf(a[r].at(k), x[c].at(k), acc[r][c]);
        }
    }
}

template <RpDtype T, int C>
__device__ static inline void rp_gemv_float(const char *w, size_t w_stride, const GemvJob &job,
                                            int64_t length) {
    float      acc[RP_GEMV_ROWS][C] = {};
    const bool aligned = ((uintptr_t)w | w_stride | (uintptr_t)job.x | (C > 1 ? job.x_stride : 0)) % 16 == 0;
    if (aligned)
        rp_float_rows<T, C, true>(w, w_stride, job, length, acc);
    else
        rp_float_rows<T, C, false>(w, w_stride, job, length, acc);
    rp_gemv_finish<C>(job, acc);
}

#endif
