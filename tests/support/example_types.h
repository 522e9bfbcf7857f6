/* example_types.h - the types of examples/dtypes.c, for tests. */
#ifndef TESTS_EXAMPLE_TYPES_H
#define TESTS_EXAMPLE_TYPES_H

#include "tests/support/golden.h"

int dtypes_main(void);
#define main dtypes_main
#include "examples/dtypes.c"
#undef main

typedef enum ExampleType { NF4, TERNARY, FP8 } ExampleType;

/* The type, registered once in a process. */
static inline RpDtype example_type(ExampleType i) {
    static RpDtype types[N_TYPES];
    if (types[0] == 0) OK(register_types(types));
    return types[i];
}

/* NF4 without `dot`: the library dequantises. */
static inline RpDtype type_without_dot(void) {
    static RpDtype     type;
    RpDtypeDescription d = nf4;
    d.name               = "nf4_slow";
    d.gguf_type          = 20101;
    d.dot                = NULL;
    if (type == 0) OK(rp_dtype_register(&d, &type));
    return type;
}

#endif
