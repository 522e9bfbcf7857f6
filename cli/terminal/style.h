/* style.h - colours of a stream, the width of its terminal, and the width of texts in columns. */
#ifndef CLI_TERMINAL_STYLE_H
#define CLI_TERMINAL_STYLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum Style {
    STYLE_PLAIN, /* ends any other style */
    STYLE_HEADING,
    STYLE_ERROR,
    STYLE_WARNING,
    STYLE_GOOD,
    STYLE_DIM,
    STYLE_COUNT
} Style;

/* Sets when colours are printed: "always", "never", or "auto" (the default), which means on a terminal, unless
 * NO_COLOR is set and not empty (https://no-color.org) or TERM is dumb. False for any other word. */
bool cli_set_color(const char *when);

/* The escape sequence that starts a style on this stream; "" without colours. Static storage. */
const char *cli_style(FILE *out, Style style);

/* True if the stream is a terminal that can move its cursor. */
bool cli_is_terminal(FILE *out);

/* Columns of the terminal behind the stream; 0 if it is none or its size is not known. */
int cli_columns(FILE *out);

/* Columns that a UTF-8 text occupies: 0 for combining characters, 2 for East Asian wide ones and emoji. */
int cli_text_width(const char *text);

/* Bytes of the longest beginning of the text that occupies at most `columns` columns. */
size_t cli_text_fit(const char *text, int columns);

/* Prints a text of which lines break at spaces before column `width`. The first line begins at column `column`, the
 * others at `indent`. Ends with a newline. */
void cli_wrap(FILE *out, const char *text, int column, int indent, int width);

#endif
