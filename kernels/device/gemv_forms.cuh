/* gemv_forms.cuh - the three forms of a GEMV, by the types of weights and columns, and the choice among them. A GEMV op
 * has one kernel template <class Form>, which the launcher instantiates for each form:
 *
 *     form           weights       columns                          launched as
 *     QuantForm      quantised     q8_act, or quantised in a block  quant_kernel
 *     DequantForm    quantised     f32                              dequant_kernel
 *     FloatForm      f32,f16,bf16  f32                              float_kernel */
#ifndef KERNELS_DEVICE_GEMV_FORMS_CUH
#define KERNELS_DEVICE_GEMV_FORMS_CUH

#include "kernels/device/gemv_float.cuh"
#include "kernels/device/gemv_quant.cuh"

/* A form has
 *
 *     NAME                          of the kernel in dumps
 *     STAGED                        columns are staged to dynamic shared memory
 *     FLOAT                         weights are float
 *     LARGE                         fragments of two runs (K types): the most registers
 *     ANY_TYPE                      one kernel for weights of any quantised type
 *     MAX_COLUMNS                   that a block can multiply at a time
 *     min_blocks(c)                 resident blocks per multiprocessor for __launch_bounds__, with c columns
 *     matrix(w, work, i2, i3)       Weights: two rows of matrix w[:,:,i2,i3]
 *     matrices(a, b, work, i2)      Weights: one row of a[:,:,i2] and the same row of b[:,:,i2]
 *     product(work, w, cols, put)   the GEMV */
template <RpDtype T> struct QuantForm {
    static constexpr const char *NAME   = "quant_kernel";
    static constexpr bool        STAGED = true, FLOAT = false, LARGE = (int)Blocks<T>::RUNS == 2, ANY_TYPE = false;
    static constexpr int         MAX_COLUMNS = RP_GEMV_COLUMNS;
    static constexpr int         min_blocks(int columns) { return rp_gemv_blocks(T, columns); }

    __device__ static OneMatrix<T> matrix(const RpTensorView &w, const GemvWork &work, int64_t i2 = 0, int64_t i3 = 0) {
        return {rp_planes<T>(w), (i2 + w.ne[2] * i3) * w.ne[1], work.rows, work.n / QuantType<T>::FRAG};
    }
    __device__ static TwoMatrices<T> matrices(const RpTensorView &a, const RpTensorView &b, const GemvWork &work,
                                              int64_t i2) {
        return {
            {rp_planes<T>(a), rp_planes<T>(b)},
            i2 * (int64_t)work.rows, work.rows, work.n / QuantType<T>::FRAG
        };
    }
    template <class Weights, class Columns, class Put>
    __device__ static void product(const GemvWork &work, const Weights &w, const Columns &columns, const Put &put) {
        rp_gemv_quant<T>(work, w, columns, put);
    }
};

/* Weights of any quantised type: the kernel reads the type of the tensor. */
struct DequantForm {
    static constexpr const char *NAME   = "dequant_kernel";
    static constexpr bool        STAGED = false, FLOAT = false, LARGE = false, ANY_TYPE = true;
    static constexpr int         MAX_COLUMNS = 1;
    static constexpr int         min_blocks(int) { return 2; }

    __device__ static DequantMatrix matrix(const RpTensorView &w, const GemvWork &work, int64_t i2 = 0,
                                           int64_t i3 = 0) {
        return {w.dtype, rp_planes_of(w), (i2 + w.ne[2] * i3) * w.ne[1], work.rows, rp_fragments(w.dtype, work.n)};
    }
    __device__ static TwoDequantMatrices matrices(const RpTensorView &a, const RpTensorView &b, const GemvWork &work,
                                                  int64_t i2) {
        return {
            a.dtype,
            {rp_planes_of(a), rp_planes_of(b)},
            i2 * (int64_t)work.rows,
            work.rows,
            rp_fragments(a.dtype, work.n)
        };
    }
    template <class Weights, class Columns, class Put>
    __device__ static void product(const GemvWork &work, const Weights &w, const Columns &columns, const Put &put) {
        rp_gemv_dequant(work, w, columns, put);
    }
};

template <RpDtype T> struct FloatForm {
    static constexpr const char *NAME   = "float_kernel";
    static constexpr bool        STAGED = false, FLOAT = true, LARGE = false, ANY_TYPE = false;
    static constexpr int         MAX_COLUMNS = RP_GEMV_COLUMNS;
    static constexpr int         min_blocks(int columns) { return columns > 1 ? 2 : 3; }

    __device__ static FloatMatrix matrix(const RpTensorView &w, const GemvWork &work, int64_t i2 = 0, int64_t i3 = 0) {
        return {rp_row_at(w, 0, i2, i3), w.nb[1], work.rows};
    }
    __device__ static TwoFloatMatrices matrices(const RpTensorView &a, const RpTensorView &b, const GemvWork &work,
                                                int64_t i2) {
        return {
            {rp_row_at(a, 0,   i2, 0), rp_row_at(b, 0, i2, 0)},
            {a.nb[1],         b.nb[1]},
            work.rows
        };
    }
    template <class Weights, class Columns, class Put>
    __device__ static void product(const GemvWork &work, const Weights &w, const Columns &columns, const Put &put) {
        rp_gemv_float<T>(work, w, columns, put);
    }
};

template <RpDtype T, class Launch> static RpStatus rp_quant_form(const Launch &launch) {
    return launch(QuantForm<T>());
}

/* launch(form) with the form for f32, f16 or bf16 weights. `launch` is a generic lambda:
 *
 *     [&](auto form) { return RP_LAUNCH_FORM("linear", ctx, shape, form, linear_kernel<decltype(form)>, p); } */
template <class Launch> static RpStatus rp_for_float_form(RpDtype type, const Launch &launch) {
    if (type == RP_F32) return launch(FloatForm<RP_F32>());
    if (type == RP_F16) return launch(FloatForm<RP_F16>());
    if (type == RP_BF16) return launch(FloatForm<RP_BF16>());
    return rp_fail(RP_E_DTYPE, "no kernel for %s", rp_dtype_name(type));
}

/* The same for quantised weights and q8_act columns. */
template <class Launch> static RpStatus rp_for_quant_form(RpDtype type, const Launch &launch) {
    return RP_FOR_QUANT(type, rp_quant_form, launch);
}

/* The same for any weights; q8: quantised ones are multiplied by q8_act columns, else by f32 columns. */
template <class Launch> static RpStatus rp_for_form(RpDtype type, bool q8, const Launch &launch) {
    if (!rp_dtype_is_quant(type)) return rp_for_float_form(type, launch);
    if (q8) return rp_for_quant_form(type, launch);
    return launch(DequantForm());
}

template <class Form> static inline LaunchShape rp_form_shape(LaunchShape shape) {
    shape.any_type = shape.any_type || Form::ANY_TYPE;
    return shape;
}

/* RP_LAUNCH of a kernel of this form. */
#define RP_LAUNCH_FORM(op, ctx, shape, form, kernel, ...)                                                              \
    RP_LAUNCH_AS(op, ctx, rp_form_shape<decltype(form)>(shape), decltype(form)::NAME, kernel, __VA_ARGS__)

#endif
