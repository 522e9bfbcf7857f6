/* literal.h - arguments as Python and Gemma write them, made JSON byte by byte (call_literal.c).
 *
 *     Python  (a=1, b='x', c=[True, None])         Gemma  {a:1,b:<|"|>x<|"|>,c:[true,null]} */
#ifndef MODEL_CALLS_LITERAL_H
#define MODEL_CALLS_LITERAL_H

#include <stdbool.h>
#include <stdint.h>

enum { LITERAL_DEPTH = 32, LITERAL_BARE = 256 };

typedef enum LiteralState {
    LITERAL_VALUE,
    LITERAL_FIRST_VALUE, /* of a list, which may be empty */
    LITERAL_KEY,
    LITERAL_FIRST_KEY,
    LITERAL_BARE_KEY,
    LITERAL_COLON,
    LITERAL_BARE_VALUE, /* a number or a word */
    LITERAL_STRING,
    LITERAL_ESCAPE,
    LITERAL_HEX,
    LITERAL_BEHIND
} LiteralState;

typedef struct Literal {
    LiteralState state;
    int          depth;
    char         open[LITERAL_DEPTH]; /* the brackets */
    bool         comma;               /* a comma was read, whose JSON is written with what follows */
    bool         gemma, key;          /* key: the string is the name of a member */
    char         quote;               /* '\0': a mark */
    int          missing;             /* hex digits */
    uint32_t     code;
    char         bare[LITERAL_BARE];
    unsigned     n_bare;
} Literal;

#endif
