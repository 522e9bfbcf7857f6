/* value.h - values of templates. They are Python's, as templates are written for it, and never change after they
 * were made; a namespace is the exception. All memory is borrowed: from the arena of a rendering, the template, or the
 * JSON that the input was read from.
 *
 * A string knows for each of its bytes where it came from: from the template, or from a message. Bytes of messages
 * never become control tokens (rp_tokenize_masked). */
#ifndef TEMPLATE_VALUE_H
#define TEMPLATE_VALUE_H

#include "template/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum TplType {
    TPL_ABSENT, /* an argument that was not passed */
    TPL_UNDEFINED,
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_BIG, /* an integer beyond 64 bits, by its text */
    TPL_FLOAT,
    TPL_STRING,
    TPL_LIST,
    TPL_TUPLE,
    TPL_ITERATOR, /* walked once, as Python's generators */
    TPL_DICT,
    TPL_NAMESPACE,
    TPL_LOOP,
    TPL_FUNCTION, /* a global or a method of a value */
    TPL_MACRO,
} TplType;

/* `from` has an element for each byte, true: from the template. NULL: all are as `of_template` says. */
typedef struct TplString {
    const char *p;
    const bool *from;
    size_t      n;
    bool        of_template;
} TplString;

typedef struct TplValue TplValue;

typedef struct TplList {
    TplValue *items;
    size_t    n, room;
    size_t    next;  /* of an iterator: items before it are used up */
    int       depth; /* of the values in it: 0 for a list of strings */
} TplList;

typedef struct TplPair TplPair;

typedef struct TplDict {
    TplPair *pairs; /* in the order of insertion */
    size_t   n, room;
    int      depth;
} TplDict;

/* Functions that walk values recurse. */
enum { TPL_MAX_VALUE_DEPTH = 100 };

/* Why a value is undefined: the name of a variable, or of an attribute of a value of type `owner`. */
typedef struct TplMissing {
    const char *name;
    size_t      n;
    const char *owner; /* NULL: a variable */
} TplMissing;

struct TplValue {
    TplType type;
    union {
        bool                b;
        int64_t             i;
        double              f;
        TplString           s; /* also the digits of TPL_BIG */
        TplList            *list;
        TplDict            *dict; /* also of TPL_NAMESPACE */
        TplMissing          missing;
        struct TplLoop     *loop;
        struct TplFunction *function;
        struct TplMacro    *macro;
    };
};

struct TplPair {
    TplValue key, value;
};

static inline TplValue rp_tpl_none(void) { return (TplValue){.type = TPL_NONE}; }
static inline TplValue rp_tpl_bool(bool b) { return (TplValue){.type = TPL_BOOL, .b = b}; }
static inline TplValue rp_tpl_int(int64_t i) { return (TplValue){.type = TPL_INT, .i = i}; }
static inline TplValue rp_tpl_float(double f) { return (TplValue){.type = TPL_FLOAT, .f = f}; }
static inline TplValue rp_tpl_string(TplString s) { return (TplValue){.type = TPL_STRING, .s = s}; }

/* Borrow the text; a word is of the template. */
TplValue rp_tpl_word(const char *text);
TplValue rp_tpl_text(const char *p, size_t n, bool of_template);

TplString rp_tpl_cut(TplString s, size_t first, size_t end); /* bytes first..end-1; shares memory */
bool      rp_tpl_is(TplString s, const char *text);
bool      rp_tpl_same_text(TplString a, TplString b);
size_t    rp_tpl_characters(TplString s);                /* UTF-8 characters; an ill-formed byte is one */
size_t    rp_tpl_byte_of(TplString s, size_t character); /* byte where it begins; s.n behind the last one */
bool      rp_tpl_is_sequence(TplType t);                 /* list, tuple, iterator */

RpStatus rp_tpl_list_new(TplArena *a, TplType type, size_t room, TplValue *out);
RpStatus rp_tpl_list_push(TplArena *a, TplList *list, TplValue v);
RpStatus rp_tpl_dict_new(TplArena *a, TplValue *out);
RpStatus rp_tpl_dict_set(TplArena *a, TplDict *d, TplValue key, TplValue v); /* replaces, or appends */
/* Appends a pair without a look for the same key. */
RpStatus        rp_tpl_dict_append(TplArena *a, TplDict *d, TplValue key, TplValue v);
const TplValue *rp_tpl_dict_get(const TplDict *d, const TplValue *key); /* NULL: not there */
const TplValue *rp_tpl_dict_text(const TplDict *d, TplString key);

bool        rp_tpl_truth(const TplValue *v);
bool        rp_tpl_equal(const TplValue *a, const TplValue *b);
const char *rp_tpl_type_name(const TplValue *v); /* Python's, for errors */

/* The undefined value of an attribute that `of` lacks. */
TplValue rp_tpl_missing(const TplValue *of, TplString name);
bool     rp_tpl_is_number(const TplValue *v); /* bool, int, float */
double   rp_tpl_as_double(const TplValue *v);

/* -1, 0, 1; false: these types have no order. */
bool rp_tpl_compare(const TplValue *a, const TplValue *b, int *out);

#endif
