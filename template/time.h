/* time.h - a date as text. */
#ifndef TEMPLATE_TIME_H
#define TEMPLATE_TIME_H

#include "template/text.h"

#include <time.h>

/* Appends strftime(format) of Python in the C locale, with the directives %Y %y %m %d %e %H %I %M %S %p %B %b %A %a %j
 * %F %T %% and %-d without the leading zero. Returns the letter of an unknown directive, else 0. */
char rp_tpl_put_time(TplText *t, TplString format, const struct tm *now);

#endif
