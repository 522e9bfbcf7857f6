/* A date as text (time.h): strftime of the C library would use the names of the locale. */
#include "template/time.h"

#include <stdio.h>

static void put_number(TplText *t, int value, int width, char pad) {
    char text[16];
    if (pad == '-')
        snprintf(text, sizeof text, "%d", value);
    else if (pad == ' ')
        snprintf(text, sizeof text, "%*d", width, value);
    else
        snprintf(text, sizeof text, "%0*d", width, value);
    rp_tpl_put_text(t, text);
}

static bool put_name(TplText *t, char letter, const struct tm *now) {
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    static const char *const days[]   = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    const char              *name     = letter == 'A' || letter == 'a' ? days[now->tm_wday] : months[now->tm_mon];
    char                     text[16];
    if (letter == 'p') {
        rp_tpl_put_text(t, now->tm_hour < 12 ? "AM" : "PM");
        return true;
    }
    if (letter != 'A' && letter != 'a' && letter != 'B' && letter != 'b' && letter != 'h') return false;
    snprintf(text, sizeof text, letter == 'A' || letter == 'B' ? "%s" : "%.3s", name);
    rp_tpl_put_text(t, text);
    return true;
}

static bool put_directive(TplText *t, char letter, char pad, const struct tm *now) {
    const int hour = now->tm_hour % 12 == 0 ? 12 : now->tm_hour % 12;
    const struct {
        char letter;
        int  value, width;
    } numbers[] = {
        {'Y', now->tm_year + 1900, 4},
        {'y', now->tm_year % 100,  2},
        {'m', now->tm_mon + 1,     2},
        {'d', now->tm_mday,        2},
        {'e', now->tm_mday,        2},
        {'H', now->tm_hour,        2},
        {'I', hour,                2},
        {'M', now->tm_min,         2},
        {'S', now->tm_sec,         2},
        {'j', now->tm_yday + 1,    3}
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].letter == letter) {
            put_number(t, numbers[i].value, numbers[i].width, letter == 'e' && pad != '-' ? ' ' : pad);
            return true;
        }
    return put_name(t, letter, now);
}

char rp_tpl_put_time(TplText *t, TplString format, const struct tm *now) {
    for (size_t i = 0; i < format.n; i++) {
        if (format.p[i] != '%') {
            rp_tpl_put(t, rp_tpl_cut(format, i, i + 1));
            continue;
        }
        i++;
        const char pad = i < format.n && format.p[i] == '-' ? '-' : '0';
        i += pad == '-';
        const char letter = i < format.n ? format.p[i] : ' ';
        if (letter == '%') {
            rp_tpl_put(t, rp_tpl_cut(format, i, i + 1));
        } else if (letter == 'F' || letter == 'T') {
            const TplString parts = letter == 'F' ? rp_tpl_word("%Y-%m-%d").s : rp_tpl_word("%H:%M:%S").s;
            (void)rp_tpl_put_time(t, parts, now);
        } else if (!put_directive(t, letter, pad, now)) {
            return letter;
        }
    }
    return '\0';
}
