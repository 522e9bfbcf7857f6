/* strip.h - loops over lanes whose arrays stay in vector registers while rows go by. */
#ifndef FALLBACK_RECURRENT_STRIP_H
#define FALLBACK_RECURRENT_STRIP_H

enum { STRIP = 16 };

/* Compilers keep float a[STRIP] in registers only if each loop over it is unrolled completely. */
#define EACH_LANE(l) _Pragma("GCC unroll 16") for (int l = 0; l < STRIP; l++)

#endif
