/* option_number.h - an option of RP_OPTIONS that is a number. */
#ifndef BASE_OPTION_NUMBER_H
#define BASE_OPTION_NUMBER_H

#include "reprise/options.h"
#include "reprise/status.h"

/* The value of the option. RP_E_ARG if it is not a number from 0 to max. */
RpStatus rp_option_number(RpOption option, long max, long *out);

/* The same for a number with a fraction, such as 0.5. */
RpStatus rp_option_double(RpOption option, double max, double *out);

#endif
