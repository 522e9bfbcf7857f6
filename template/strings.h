/* strings.h - what the lexer, filters and methods share: white space and stripping. */
#ifndef TEMPLATE_STRINGS_H
#define TEMPLATE_STRINGS_H

#include "template/text.h"

/* True if the character at byte `at` is white space for Python; *len are its bytes. */
bool rp_tpl_is_space(TplString s, size_t at, size_t *len);

/* The string without `chars` at its ends; NULL: white space. */
TplString rp_tpl_strip(TplString s, const TplString *chars, bool left, bool right);

#endif
