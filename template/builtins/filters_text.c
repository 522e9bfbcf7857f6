/* Filters of texts. Values that are no strings are converted by str(). */
#include "template/lines.h"
#include "template/run.h"

#include <string.h>

static RpStatus no_arguments(TplRun *r, const TplCall *call, TplString *s) {
    RP_TRY(rp_tpl_arguments(r, call, NULL, 0, NULL));
    return rp_tpl_as_text(r, &call->self, s);
}

static RpStatus trim(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[1];
    TplString s, chars;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "chars"));
    RP_TRY(rp_tpl_as_text(r, &call->self, &s));
    const bool given = in[0].type != TPL_ABSENT && in[0].type != TPL_NONE;
    if (given) RP_TRY(rp_tpl_as_text(r, &in[0], &chars));
    *out = rp_tpl_string(rp_tpl_strip(s, given ? &chars : NULL, true, true));
    return RP_OK;
}

/* upper, lower, capitalize; title */
static RpStatus change_case(TplRun *r, const TplCall *call, TplValue *out) {
    TplString s;
    RP_TRY(no_arguments(r, call, &s));
    return rp_tpl_case(r, s, call->name[0] == 't' ? 'w' : call->name[0], out);
}

static RpStatus string(TplRun *r, const TplCall *call, TplValue *out) {
    TplString s;
    RP_TRY(no_arguments(r, call, &s));
    *out = rp_tpl_string(s);
    return RP_OK;
}

static RpStatus replace(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[3];
    TplString s, old, new;
    RP_TRY(TPL_ARGUMENTS(r, call, in, "old", "new", "count"));
    if (in[0].type == TPL_ABSENT || in[1].type == TPL_ABSENT) return rp_tpl_fail(r, "replace needs two texts");
    RP_TRY(rp_tpl_as_text(r, &call->self, &s));
    RP_TRY(rp_tpl_as_text(r, &in[0], &old));
    RP_TRY(rp_tpl_as_text(r, &in[1], &new));
    return rp_tpl_replace(r, s, old, new, in[2].type == TPL_INT ? in[2].i : -1, out);
}

static RpStatus escape(TplRun *r, const TplCall *call, TplValue *out) {
    static const char        marks[]   = "&<>'\"";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    TplString                s;
    TplText                  t = rp_tpl_new_text(r);
    RP_TRY(no_arguments(r, call, &s));
    for (size_t i = 0; i < s.n; i++) {
        const char *found = s.p[i] != '\0' ? strchr(marks, s.p[i]) : NULL;
        if (found != NULL)
            rp_tpl_put_text(&t, escapes[found - marks]);
        else
            rp_tpl_put(&t, rp_tpl_cut(s, i, i + 1));
    }
    return rp_tpl_end_text(r, &t, out);
}

static RpStatus indent(TplRun *r, const TplCall *call, TplValue *out) {
    TplValue  in[3], by = rp_tpl_int(4);
    TplString s, line;
    TplText   t = rp_tpl_new_text(r);
    RP_TRY(TPL_ARGUMENTS(r, call, in, "width", "first", "blank"));
    RP_TRY(rp_tpl_as_text(r, &call->self, &s));
    if (in[0].type != TPL_ABSENT) by = in[0];
    if (by.type == TPL_INT) {
        const TplValue blank = rp_tpl_word(" ");
        RP_TRY(rp_tpl_binary(r, TPL_O_MUL, &blank, &by, &by));
    }
    if (by.type != TPL_STRING)
        return rp_tpl_fail(r, "indent needs a number or a text, not '%s'", rp_tpl_type_name(&by));
    if (rp_tpl_truth(&in[1])) rp_tpl_put(&t, by.s);
    /* A line end at the end makes a last, empty line. */
    size_t at = 0;
    for (bool first = true, more = true; more; first = false) {
        more = rp_tpl_next_line(s, &at, &line);
        if (!first) rp_tpl_put_text(&t, "\n");
        if (!first && (line.n > 0 || rp_tpl_truth(&in[2]))) rp_tpl_put(&t, by.s);
        rp_tpl_put(&t, line);
    }
    return rp_tpl_end_text(r, &t, out);
}

static RpStatus format(TplRun *r, const TplCall *call, TplValue *out) {
    TplString s;
    if (call->n_keywords > 0) return rp_tpl_fail(r, "format takes no named values");
    RP_TRY(rp_tpl_as_text(r, &call->self, &s));
    return rp_tpl_format(r, s, call->values, call->n, out);
}

static RpStatus wordcount(TplRun *r, const TplCall *call, TplValue *out) {
    TplString s;
    int64_t   n     = 0;
    bool      space = true;
    RP_TRY(no_arguments(r, call, &s));
    for (size_t i = 0, len; i < s.n; i += len) {
        const bool now = rp_tpl_is_space(s, i, &len);
        n += space && !now;
        space = now;
    }
    *out = rp_tpl_int(n);
    return RP_OK;
}

const TplBuiltin rp_tpl_text_filters[] = {
    {"trim",       trim,        false},
    {"upper",      change_case, false},
    {"lower",      change_case, false},
    {"title",      change_case, false},
    {"capitalize", change_case, false},
    {"string",     string,      false},
    {"safe",       string,      false},
    {"replace",    replace,     false},
    {"escape",     escape,      false},
    {"e",          escape,      false},
    {"indent",     indent,      false},
    {"format",     format,      false},
    {"wordcount",  wordcount,   false},
};
const size_t rp_tpl_n_text_filters = sizeof rp_tpl_text_filters / sizeof rp_tpl_text_filters[0];
