/* quant_mix_low.h - the mixes of IQ1_S to IQ3_M, a part of quant_mix.c. */
#ifndef MODEL_CONVERT_QUANT_MIX_LOW_H
#define MODEL_CONVERT_QUANT_MIX_LOW_H

#include "model/convert/quant_mix.h"

/* The mixes by their numbers here: X(NAME, base, output, file_type) in this order. */
#define RP_LOW_MIXES(X)                                                                                                \
    X(IQ1_S, IQ1_S, Q5_K, 24)                                                                                          \
    X(IQ1_M, IQ1_M, Q5_K, 31)                                                                                          \
    X(IQ2_XXS, IQ2_XXS, Q5_K, 19)                                                                                      \
    X(IQ2_XS, IQ2_XS, Q5_K, 20)                                                                                        \
    X(IQ2_S, IQ2_XS, Q5_K, 28)                                                                                         \
    X(IQ2_M, IQ2_S, Q5_K, 29)                                                                                          \
    X(IQ3_XXS, IQ3_XXS, Q5_K, 23)                                                                                      \
    X(IQ3_XS, IQ3_S, Q6_K, 22)                                                                                         \
    X(IQ3_S, IQ3_S, Q6_K, 26)                                                                                          \
    X(IQ3_M, IQ3_S, Q6_K, 27)

/* The type of a matrix with rows of n elements, in a layer. `before`: as for rp_quant_mix_type. */
RpDtype rp_low_mix_type(int number, const QuantMixModel *m, RpGgufString name, int64_t n, int32_t layer,
                        int32_t before);

/* `type`, or one in blocks of 32 for rows that are not whole blocks of 256, or f16. */
RpDtype rp_low_mix_for_rows(RpDtype type, int64_t n);

#endif
