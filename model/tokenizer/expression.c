/* Compiling and matching (expression.h). JIT matching with too small a stack is repeated by the interpreter. */
#include "model/tokenizer/expression.h"

RpStatus rp_expression_compile(const char *name, RpGgufString text, uint32_t options, pcre2_code **out) {
    int        error;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)text.ptr, text.len, PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | options,
                         &error, &at, NULL);
    if (*out == NULL) {
        if (error == PCRE2_ERROR_HEAP_FAILED) return rp_fail(RP_E_NOMEM, "%s: out of memory", name);
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: this PCRE2 does not compile its expressions (error %d at %zu)", name,
                       error, at);
    }
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT matching is slower, not different */
    return RP_OK;
}

RpStatus rp_expression_next(const pcre2_code *e, const char *text, size_t len, size_t at, pcre2_match_data *room,
                            ExpressionMatch *out) {
    int n = pcre2_match(e, (PCRE2_SPTR)text, len, at, PCRE2_NOTEMPTY, room, NULL);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(e, (PCRE2_SPTR)text, len, at, PCRE2_NOTEMPTY | PCRE2_NO_JIT, room, NULL);
    *out = (ExpressionMatch){.found = n >= 0};
    if (n == PCRE2_ERROR_NOMATCH) return RP_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return rp_fail(RP_E_NOMEM, "out of memory while pre-tokenising");
    if (n < 0)
        return rp_fail(RP_E_UNSUPPORTED, "pre-tokenising %zu bytes failed at byte %zu (PCRE2 error %d)", len, at, n);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(room);
    out->from              = ends[0];
    out->to                = ends[1];
    if (out->from >= at && out->to > out->from) return RP_OK; /* else \K in a look-around */
    return rp_fail(RP_E_UNSUPPORTED, "pre-tokenising: an expression matches outside of what is left of the text");
}
