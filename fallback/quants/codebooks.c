/* The codebooks of the IQ types (base/codebooks). */
#include "fallback/quants/expand.h"

#include "base/codebooks/iq1.h"
#include "base/codebooks/iq2_s.h"
#include "base/codebooks/iq2_xs.h"
#include "base/codebooks/iq2_xxs.h"
#include "base/codebooks/iq3_s.h"
#include "base/codebooks/iq3_xxs.h"

const uint64_t rp_codebook_iq1[2048]    = {RP_CODEBOOK_IQ1};
const uint64_t rp_codebook_iq2_s[1024]  = {RP_CODEBOOK_IQ2_S};
const uint64_t rp_codebook_iq2_xs[512]  = {RP_CODEBOOK_IQ2_XS};
const uint64_t rp_codebook_iq2_xxs[256] = {RP_CODEBOOK_IQ2_XXS};
const uint32_t rp_codebook_iq3_s[512]   = {RP_CODEBOOK_IQ3_S};
const uint32_t rp_codebook_iq3_xxs[256] = {RP_CODEBOOK_IQ3_XXS};
