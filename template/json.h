/* json.h - values as JSON, and JSON as values. */
#ifndef TEMPLATE_JSON_H
#define TEMPLATE_JSON_H

#include "base/text/json_read.h"
#include "template/text.h"

typedef struct TplJsonStyle {
    TplString indent;    /* in front of a line, once for each level; p == NULL: all in one line */
    TplString item, key; /* what separates items, and a name from its value */
    bool      ascii, sort;
} TplJsonStyle;

/* Appends json.dumps(v) of Python. Returns NULL, or the value inside of v that has no JSON. */
const TplValue *rp_tpl_put_json(TplText *t, const TplValue *v, const TplJsonStyle *style);

/* Strings and names are of a message, but those members of objects whose text this function says are of the template;
 * NULL: none. */
typedef struct TplJsonOrigin {
    bool (*of_template)(RpGgufString name, TplString text);
} TplJsonOrigin;

/* The value of a node. Integers beyond 64 bits keep their digits. Borrows the texts of `j`. */
RpStatus rp_tpl_from_json(TplArena *a, const Json *j, const JsonNode *node, const TplJsonOrigin *origin, TplValue *out);

#endif
