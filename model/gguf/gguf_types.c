/* gguf_types.c - the types that values of the metadata may have. */
#include "model/gguf/gguf_file.h"

static const struct {
    const char *name;
    size_t      bytes; /* of an element; 0: strings and arrays, whose length varies */
} types[RP_GGUF_TYPE_COUNT] = {
    [RP_GGUF_U8] = {"u8",     1},
      [RP_GGUF_I8] = {"i8",     1},
      [RP_GGUF_U16] = {"u16",    2},
    [RP_GGUF_I16] = {"i16",    2},
      [RP_GGUF_U32] = {"u32",    4},
      [RP_GGUF_I32] = {"i32",    4},
    [RP_GGUF_F32] = {"f32",    4},
      [RP_GGUF_BOOL] = {"bool",   1},
      [RP_GGUF_STRING] = {"string", 0},
    [RP_GGUF_ARRAY] = {"array",  0},
      [RP_GGUF_U64] = {"u64",    8},
      [RP_GGUF_I64] = {"i64",    8},
    [RP_GGUF_F64] = {"f64",    8},
};

const char *rp_gguf_value_type_name(RpGgufType type) {
    return (unsigned)type < RP_GGUF_TYPE_COUNT ? types[type].name : "?";
}

size_t rp_gguf_value_type_bytes(RpGgufType type) { return (unsigned)type < RP_GGUF_TYPE_COUNT ? types[type].bytes : 0; }
