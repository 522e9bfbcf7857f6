/* expression.h - regular expressions of tokenizers, by PCRE2. */
#ifndef MODEL_TOKENIZER_EXPRESSION_H
#define MODEL_TOKENIZER_EXPRESSION_H

#include "reprise/gguf.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options for expressions of a Hugging Face directory. Their syntax is that of Onigmo as Ruby uses it: ^ and $
 * stand at each line. */
#define RP_EXPRESSION_OF_FILE (PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C)

/* `name` stands in errors: "pre-tokenizer 'gpt-2'". The caller frees *out with pcre2_code_free. RP_E_NOT_AVAILABLE:
 * this PCRE2 does not compile it; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_expression_compile(const char *name, RpGgufString text, uint32_t options, pcre2_code **out);

typedef struct ExpressionMatch {
    size_t from, to; /* bytes of the text, from < to */
    bool   found;
} ExpressionMatch;

/* The first match that is not empty at or behind byte `at`. RP_E_UNSUPPORTED: PCRE2 gave up; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_expression_next(const pcre2_code *e, const char *text, size_t len, size_t at,
                                         pcre2_match_data *room, ExpressionMatch *out);

#endif
