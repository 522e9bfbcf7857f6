/* types.h - the files of all types of RP_QUANTS (expand.h). In their blocks d, m and dmin are IEEE half floats.
 *
 * It has no guard: a header of fallback/products defines the name of a part, for instance RP_LOADS_NEON, and includes
 * this once more to get the loads of the types of RP_DIRECT_QUANTS. */
#include "fallback/quants/types/iq1.h"
#include "fallback/quants/types/iq2.h"
#include "fallback/quants/types/iq3.h"
#include "fallback/quants/types/iq4.h"
#include "fallback/quants/types/mxfp4.h"
#include "fallback/quants/types/nvfp4.h"
#include "fallback/quants/types/q1_0.h"
#include "fallback/quants/types/q2_0.h"
#include "fallback/quants/types/q2_k.h"
#include "fallback/quants/types/q3_k.h"
#include "fallback/quants/types/q4.h"
#include "fallback/quants/types/q4_k_q5_k.h"
#include "fallback/quants/types/q5.h"
#include "fallback/quants/types/q6_k.h"
#include "fallback/quants/types/q8_0.h"
#include "fallback/quants/types/tq1_0.h"
#include "fallback/quants/types/tq2_0.h"
