/* lines.h - the lines of a text, as splitlines() of Python finds them. */
#ifndef TEMPLATE_LINES_H
#define TEMPLATE_LINES_H

#include "template/value.h"

/* The line that begins at byte *at, without its end; *at moves behind the end. True: a line end was behind it. */
bool rp_tpl_next_line(TplString s, size_t *at, TplString *line);

#endif
