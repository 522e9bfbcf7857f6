/* text.h - texts in the making, and values as text. */
#ifndef TEMPLATE_TEXT_H
#define TEMPLATE_TEXT_H

#include "template/value.h"

/* Grows in the arena, up to `limit` bytes. Failures are sticky: rp_tpl_text_end reports them. Whoever sets a limit that
 * can be reached looks at `too_long` before. */
typedef struct TplText {
    TplArena *arena;
    char     *p;
    bool     *from; /* [n] true: of the template */
    size_t    n, room, limit;
    bool      failed, too_long;
} TplText;

enum { TPL_NUMBER_CHARS = 40 };

void     rp_tpl_put(TplText *t, TplString s);
void     rp_tpl_put_bytes(TplText *t, const char *p, size_t n, bool of_template);
void     rp_tpl_put_text(TplText *t, const char *text);                /* of the template */
void     rp_tpl_put_code(TplText *t, uint32_t code, bool of_template); /* a character, as UTF-8 */
RpStatus rp_tpl_text_end(TplText *t, TplString *out);

/* str(v) and repr(v) of Python. */
void rp_tpl_put_value(TplText *t, const TplValue *v);
void rp_tpl_put_repr(TplText *t, const TplValue *v);

/* repr(x) of Python: the shortest digits that give x again. The point is "." in every locale. */
const char *rp_tpl_float_text(double x, char out[TPL_NUMBER_CHARS]);

/* The number that [p, p+n) spells, if it is one of the form of Python's float() without spaces and underscores. */
bool rp_tpl_float_of(const char *p, size_t n, double *out);

#endif
