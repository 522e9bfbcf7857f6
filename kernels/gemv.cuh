/* gemv.cuh - a matrix of weights times one or a few columns: mul_mat, mul_mat_id, and the products that passes make, which
 * have columns (column.cuh), weights and places of their results of their own.
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
    RP_GEMV_EARLY   = 512,      /* blocks that may be there while those before them end */
    RP_CACHE_LINE   = 128,
    RP_FLOAT_UNIT   = 8
};

/* What the blocks of a launch do, and which of them this is. */
struct GemvJob {
    int64_t rows, n; /* results of a column; terms of each */
    int     columns, split;
    int     each  = RP_GEMV_ROWS; /* results of a warp: two rows of one matrix, or 1: a row of each of two */
    int     side  = 1;            /* so many have the same results, for other matrices and columns */
    bool    idle  = false;        /* this warp only keeps the others company */
    bool    early = false; /* the kernel has not waited yet: weights are fetched before, columns after */
    int64_t block = 0;     /* this one, */
    int64_t turns = 1, step = 0; /* which also does as many, so many blocks apart, while there are rows */
};

static inline int rp_gemv_split(int64_t rows, int64_t units) {
    int split = 1;
    while (split < RP_GEMV_WARPS && (rows + 1) / 2 * split < RP_GEMV_BUSY && units >= 2 * split * RP_WARP)
        split *= 2;
    return split;
}

/* Elements that a lane takes at a time. */
static inline int rp_gemv_unit_of(RpDtype type) {
    return rp_dtype_is_quant(type) ? (int)RP_UNIT : (int)RP_FLOAT_UNIT;
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

/* The first result of the block's turn, and of the warp. */
__device__ static inline int64_t rp_gemv_begin(const GemvJob &job, int64_t turn) {
    return (job.block + turn * job.step) * (RP_GEMV_WARPS / (job.split * job.side)) * job.each;
}

__device__ static inline int64_t rp_gemv_row(const GemvJob &job, int64_t turn) {
    return rp_gemv_begin(job, turn) +
           (int64_t)((int)threadIdx.x / RP_WARP / (job.split * job.side)) * job.each;
}

/* What a kernel begins with: `early` says that its weights are, as far as it knows them by now, nobody's result. */
__device__ static inline void rp_gemv_open(bool early) {
    rp_let_next_begin();
    if (!early) rp_wait_for_earlier();
}

/* The warp's rows into L2, `bytes` of each, while there is nothing else to do; then waits. */
__device__ static inline void rp_gemv_wait(const GemvJob &job, const uint8_t *a, const uint8_t *b,
                                           int64_t bytes) {
    if (!job.early) return;
    if (job.block < RP_GEMV_EARLY) {
        const int lanes = RP_WARP * job.split, lane = (int)threadIdx.x % lanes;
        for (int64_t at = (int64_t)lane * RP_CACHE_LINE; at < bytes; at += (int64_t)lanes * RP_CACHE_LINE) {
            rp_prefetch(a + at);
            rp_prefetch(b + at);
        }
    }
    rp_wait_for_earlier();
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

/* Where results go: put(m, c, v) gets the sums of both rows of a warp, from one thread; m may be past the last. This one
 * writes them. */
struct GemvRows {
    char           *y;
    size_t          y_stride;
    int64_t         rows;
    int             columns;
    __device__ void operator()(int64_t m, int c, const float (&v)[RP_GEMV_ROWS]) const {
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < rows && c < columns) ((float *)(y + (size_t)c * y_stride))[m + r] = v[r];
    }
};

/* Adds the lanes, then the warps that share rows, and hands the sums out. Every thread of the block calls it. */
template <int C, class Put>
__device__ static inline void rp_gemv_finish(const GemvJob &job, int64_t                     turn,
                                             const float (&acc)[RP_GEMV_ROWS][C], const Put &put) {
    enum { RESULTS = RP_GEMV_WARPS * RP_GEMV_ROWS * C };
    RP_SHARED(float, both, [2 * RESULTS]); /* by turns: the one before may still be read */
    const int     lane = (int)threadIdx.x % RP_WARP, warp = (int)threadIdx.x / RP_WARP;
    const int64_t m     = rp_gemv_row(job, turn);
    float        *parts = both + turn % 2 * RESULTS;
    for (int c = 0; c < C; c++) {
        float sum[RP_GEMV_ROWS];
        for (int r = 0; r < RP_GEMV_ROWS; r++) sum[r] = rp_warp_sum(acc[r][c]);
        if (lane != 0) continue;
        if (job.split == 1)
            put(m, c, sum);
        else
            for (int r = 0; r < RP_GEMV_ROWS; r++) parts[(warp * C + c) * RP_GEMV_ROWS + r] = sum[r];
    }
    if (job.split == 1) return;
    __syncthreads();
    if (warp % job.split != 0 || lane >= C)
        return; /* the first of the warps that share rows: a lane a column */
    float sum[RP_GEMV_ROWS] = {};
    for (int s = 0; s < job.split; s++)
        for (int r = 0; r < RP_GEMV_ROWS; r++) sum[r] += parts[((warp + s) * C + lane) * RP_GEMV_ROWS + r];
    put(m, lane, sum);
}

/* ---- quantised weights, q8_act columns ---- */

/* Elements [from, from + len) of a row of n, their scales and their sums, each part aligned for 16 bytes. */
__device__ static inline void rp_stage_rounded(const char *x, int64_t n, int64_t from, int len, char *to) {
    const int *q = (const int *)(x + from), *scale = (const int *)(x + n) + from / 32,
              *sum = (const int *)(x + n) + n / 32 + from / 16;
    const int n_q = len / 4, n_scale = len / 32, tid = (int)threadIdx.x;
    if ((uintptr_t)q % 16 == 0 && n_q % 4 == 0)
        for (int i = tid; i < n_q / 4; i += RP_GEMV_THREADS) rp_put16(to + 16 * i, rp_get16(q + 4 * i));
    else
        for (int i = tid; i < n_q; i += RP_GEMV_THREADS) ((int *)to)[i] = q[i];
    for (int i = tid; i < n_scale; i += RP_GEMV_THREADS) ((int *)to)[n_q + i] = scale[i];
    for (int i = tid; i < 2 * n_scale; i += RP_GEMV_THREADS) ((int *)to)[n_q + n_scale + i] = sum[i];
}

/* Eight floats, of which `left` are there; ALIGNED: from an address of whole 16 bytes. What an earlier kernel has written is
 * read as such, not by __ldg. */
template <bool ALIGNED>
__device__ static inline void rp_eight(const float *x, int64_t left, float (&v)[RP_FLOAT_UNIT]) {
    if (ALIGNED && left >= RP_FLOAT_UNIT) {
        for (int h = 0; h < 2; h++) {
            const uint4 w = rp_get16(x + 4 * h);
            for (int i = 0; i < 4; i++) v[4 * h + i] = __uint_as_float(rp_word(w, i));
        }
        return;
    }
    for (int i = 0; i < RP_FLOAT_UNIT; i++) v[i] = i < left ? x[i] : 0.0f;
}

/* Columns as they lie in memory, `stride` bytes apart. Columns of another kind have the same functions: open() by every
 * thread of the block before the others; stage() by every thread, between barriers, of together() columns, of which the warp
 * takes C from first() on; the rest where there are floats. */
template <int C> struct GemvColumns {
    const char     *x;
    size_t          stride;
    int64_t         n;
    int             columns;
    __device__ int  together() const { return C; }
    __device__ int  first() const { return 0; }
    __device__ void open() {}
    __device__ void stage(int64_t from, int len, char *to) const {
        for (int c = 0; c < C && c < columns; c++)
            rp_stage_rounded(x + (size_t)c * stride, n, from, len, to + c * rp_staged_bytes(len));
    }
    __device__ bool  aligned() const { return ((uintptr_t)x | (C > 1 ? stride : 0)) % 16 == 0; }
    __device__ float at(int64_t i) const { return ((const float *)x)[i]; }
    template <bool ALIGNED>
    __device__ void eight(int c, int64_t i, int64_t left, float (&v)[RP_FLOAT_UNIT]) const {
        rp_eight<ALIGNED>((const float *)(x + (size_t)(c < columns ? c : 0) * stride) + i, left, v);
    }
};

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

/* The rows of a warp: where they begin, in units of their tensors. */
template <RpDtype T> struct QuantRows {
    Planes          planes[RP_GEMV_ROWS];
    int64_t         unit[RP_GEMV_ROWS];
    __device__ void wait(const GemvJob &job, int64_t units) const {
        const int64_t bytes = Blocks<T>::FIRST_PLANE;
        rp_gemv_wait(job, planes[0].data + unit[0] * bytes, planes[1].data + unit[1] * bytes, units * bytes);
    }
    __device__ typename Blocks<T>::Raw load(int r, int64_t u) const {
        return Blocks<T>::load(planes[r], unit[r] + u);
    }
};

/* Weights say which rows those are for the result m: two of one matrix from row `first` of the tensor on, */
template <RpDtype T> struct OneMatrix {
    Planes     planes;
    int64_t    first, rows, units;
    __device__ QuantRows<T> at(int64_t m) const {
        const int64_t last = rows - 1;
        return {
            {planes,                                  planes                                         },
            {(first + (m < last ? m : last)) * units, (first + (m + 1 < last ? m + 1 : last)) * units}
        };
    }
};

/* or one of each of two. */
template <RpDtype T> struct TwoMatrices {
    Planes     planes[RP_GEMV_ROWS];
    int64_t    first, rows, units;
    __device__ QuantRows<T> at(int64_t m) const {
        const int64_t unit = (first + (m < rows ? m : rows - 1)) * units;
        return {
            {planes[0], planes[1]},
            {unit,      unit     }
        };
    }
};

/* The first units are on their way while the columns are staged. */
template <RpDtype T, int C, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_quant(const GemvJob &job, const Weights &weights, Columns columns,
                                            const Put &put) {
    typedef typename Blocks<T>::Raw Raw;
    RP_SHARED_DYNAMIC(char, staged);
    enum { AHEAD = C > 1 && T == RP_Q8_0 ? 1 : Blocks<T>::AHEAD }; /* by the registers there are */
    const int units = (int)(job.n / RP_UNIT), piece = RP_GEMV_STAGED / columns.together() / RP_UNIT;
    const int step = job.split * RP_WARP, first = rp_gemv_first(job);
    int       held = -1; /* the piece of the columns that is staged */
    for (int64_t turn = 0; turn < job.turns; turn++) {
        if (turn > 0 && rp_gemv_begin(job, turn) >= job.rows) break; /* the whole block */
        const QuantRows<T> rows                 = weights.at(rp_gemv_row(job, turn));
        float              acc[RP_GEMV_ROWS][C] = {};
        Raw                raw[AHEAD][RP_GEMV_ROWS];
        const auto         load = [&](int u) {
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
#pragma unroll
                for (int r = 0; r < RP_GEMV_ROWS; r++)
                    raw[k][r] = rows.load(r, u + k * step < units ? u + k * step : units - 1);
        };
        for (int u0 = 0; u0 < units; u0 += piece) {
            const int end = units - u0 < piece ? units : u0 + piece, len = (end - u0) * RP_UNIT;
            int       u = job.idle ? end : u0 + first;
            if (!job.idle) load(u);
            if (held < 0) {
                rows.wait(job, C == 1 ? units : 0); /* more columns leave no registers for it */
                columns.open();
            }
            if (held != u0) {
                if (held >= 0) __syncthreads(); /* the piece before has been read by all */
                columns.stage((int64_t)u0 * RP_UNIT, len, staged);
                __syncthreads();
                held = u0;
            }
            const char *mine = staged + columns.first() * rp_staged_bytes(len);
#pragma unroll 1
            while (u < end) {
#pragma unroll
                for (int k = 0; k < AHEAD; k++)
                    if (u + k * step < end) rp_gemv_unit<T, C>(job, raw[k], mine, len, u + k * step, u0, acc);
                u += AHEAD * step;
                if (u < end) load(u);
            }
        }
        rp_gemv_finish<C>(job, turn, acc, put);
    }
}

/* ---- quantised weights, unrounded columns ---- */

template <RpDtype T, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_wide(const GemvJob &job, const Weights &weights, Columns columns,
                                           const Put &put) {
    const int64_t units = job.n / RP_UNIT;
    weights.at(rp_gemv_row(job, 0)).wait(job, units);
    columns.open();
    for (int64_t turn = 0; turn < job.turns; turn++) {
        if (turn > 0 && rp_gemv_begin(job, turn) >= job.rows) break;
        const QuantRows<T> rows                 = weights.at(rp_gemv_row(job, turn));
        float              acc[RP_GEMV_ROWS][1] = {};
        for (int64_t u = job.idle ? units : rp_gemv_first(job); u < units; u += job.split * RP_WARP) {
            const int64_t group = Blocks<T>::first_group(u);
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++) {
                const Unit w = Blocks<T>::unpack(rows.load(r, u), (int)u);
                for (int k = 0; k < 2; k++)
                    for (int i = 0; i < RP_GROUP; i++)
                        acc[r][0] = fmaf(rp_element(w, k, i),
                                         columns.at((group + k * Blocks<T>::STEP) * RP_GROUP + i), acc[r][0]);
            }
        }
        rp_gemv_finish<1>(job, turn, acc, put);
    }
}

/* ---- float weights ---- */

/* The rows of a warp; Weights as above, by at(m). */
struct FloatRows {
    const char *row[RP_GEMV_ROWS];
};

/* Two of one matrix, `stride` bytes apart. */
struct FloatMatrix {
    const char          *w;
    size_t               stride;
    int64_t              rows;
    __device__ FloatRows at(int64_t m) const {
        const int64_t last = rows - 1;
        return {
            {w + (size_t)(m < last ? m : last) * stride, w + (size_t)(m + 1 < last ? m + 1 : last) * stride}
        };
    }
    __device__ bool aligned() const { return ((uintptr_t)w | stride) % 16 == 0; }
};

/* One of each of two. */
struct TwoFloatMatrices {
    const char          *w[RP_GEMV_ROWS];
    size_t               stride[RP_GEMV_ROWS];
    int64_t              rows;
    __device__ FloatRows at(int64_t m) const {
        const size_t row = (size_t)(m < rows ? m : rows - 1);
        return {
            {w[0] + row * stride[0], w[1] + row * stride[1]}
        };
    }
    __device__ bool aligned() const {
        return ((uintptr_t)w[0] | (uintptr_t)w[1] | stride[0] | stride[1]) % 16 == 0;
    }
};

/* Eight weights; ALIGNED: from an address of whole 16 bytes. */
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

/* `length` terms of the sum. Lanes take eight elements at a time. */
template <RpDtype T, int C, bool ALIGNED, class Columns>
__device__ static inline void rp_float_rows(const GemvJob &job, const FloatRows &rows, const Columns &columns,
                                            int64_t length, float (&acc)[RP_GEMV_ROWS][C]) {
    const int64_t step = (int64_t)job.split * RP_WARP * RP_FLOAT_UNIT;
#pragma unroll 2
    for (int64_t i = (int64_t)rp_gemv_first(job) * RP_FLOAT_UNIT; i < length; i += step) {
        Eight<T, ALIGNED> a[RP_GEMV_ROWS];
        float             x[C][RP_FLOAT_UNIT];
#pragma unroll
        for (int r = 0; r < RP_GEMV_ROWS; r++)
            a[r].load(rows.row[r] + (size_t)i * (T == RP_F32 ? 4 : 2), length - i);
#pragma unroll
        for (int c = 0; c < C; c++) columns.template eight<ALIGNED>(c, i, length - i, x[c]);
#pragma unroll
        for (int k = 0; k < RP_FLOAT_UNIT; k++) {
            if (i + k >= length) break;
#pragma unroll
            for (int r = 0; r < RP_GEMV_ROWS; r++)
#pragma unroll
                for (int c = 0; c < C; c++) acc[r][c] = fmaf(a[r].at(k), x[c][k], acc[r][c]);
        }
    }
}

template <RpDtype T, int C, class Weights, class Columns, class Put>
__device__ static inline void rp_gemv_float(const GemvJob &job, const Weights &weights, Columns columns,
                                            int64_t length, const Put &put) {
    const bool      aligned = weights.aligned() && columns.aligned();
    const FloatRows first   = weights.at(rp_gemv_row(job, 0));
    rp_gemv_wait(job, (const uint8_t *)first.row[0], (const uint8_t *)first.row[1],
                 length * (T == RP_F32 ? 4 : 2));
    columns.open();
    for (int64_t turn = 0; turn < job.turns; turn++) {
        if (turn > 0 && rp_gemv_begin(job, turn) >= job.rows) break;
        const FloatRows rows                 = weights.at(rp_gemv_row(job, turn));
        float           acc[RP_GEMV_ROWS][C] = {};
        if (aligned)
            rp_float_rows<T, C, true>(job, rows, columns, length, acc);
        else
            rp_float_rows<T, C, false>(job, rows, columns, length, acc);
        rp_gemv_finish<C>(job, turn, acc, put);
    }
}

#endif
