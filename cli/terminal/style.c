/* style.c - colours, width of the terminal, width of texts, line breaks. */
#include "cli/terminal/style.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } color;

bool cli_set_color(const char *when) {
    static const char *const words[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++)
        if (strcmp(when, words[i]) == 0) {
            color = i == 0 ? COLOR_AUTO : i == 1 ? COLOR_ALWAYS : COLOR_NEVER;
            return true;
        }
    return false;
}

bool cli_is_terminal(FILE *out) {
    const int   fd   = fileno(out); /* -1: memory */
    const char *term = getenv("TERM");
    return fd >= 0 && isatty(fd) && (term == NULL || strcmp(term, "dumb") != 0);
}

/* --color decides; without it NO_COLOR, then whether the stream is a terminal. */
static bool has_color(FILE *out) {
    const char *no = getenv("NO_COLOR");
    if (color != COLOR_AUTO) return color == COLOR_ALWAYS;
    return (no == NULL || no[0] == '\0') && cli_is_terminal(out);
}

const char *cli_style(FILE *out, Style style) {
    static const char *const escapes[STYLE_COUNT] = {
        [STYLE_PLAIN] = "\033[0m",      [STYLE_HEADING] = "\033[1m", [STYLE_ERROR] = "\033[1;31m",
        [STYLE_WARNING] = "\033[1;33m", [STYLE_GOOD] = "\033[32m",   [STYLE_DIM] = "\033[2m",
    };
    return has_color(out) ? escapes[style] : "";
}

int cli_columns(FILE *out) {
    struct winsize w;
    const int      fd = fileno(out);
    if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &w) != 0) return 0;
    return w.ws_col;
}

typedef struct Range {
    uint32_t first, last;
} Range;

static bool is_in(uint32_t c, const Range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

/* Columns of a code point, by ranges of Unicode: combining and zero-width characters, then East Asian wide ones and
 * emoji. wcwidth would need a UTF-8 locale, which a container may lack. */
static int char_width(uint32_t c) {
    static const Range none[] = {
        {0x300,  0x36f },
        {0x1ab0, 0x1aff},
        {0x1dc0, 0x1dff},
        {0x200b, 0x200f},
        {0x20d0, 0x20ff},
        {0xfe00, 0xfe0f},
        {0xfe20, 0xfe2f}
    };
    static const Range wide[] = {
        {0x1100,  0x115f },
        {0x2e80,  0x303e },
        {0x3041,  0xa4cf },
        {0xac00,  0xd7a3 },
        {0xf900,  0xfaff },
        {0xfe30,  0xfe6f },
        {0xff00,  0xff60 },
        {0xffe0,  0xffe6 },
        {0x1f300, 0x1f64f},
        {0x1f680, 0x1f6ff},
        {0x1f900, 0x1faff},
        {0x20000, 0x3fffd}
    };
    if (is_in(c, none, sizeof none / sizeof none[0])) return 0;
    return is_in(c, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
}

/* Decodes the character at *p and moves *p behind it. A byte that begins none counts as a character. */
static uint32_t next_char(const char **p) {
    const unsigned char first = (unsigned char)*(*p)++;
    int                 more  = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    uint32_t            c     = more > 0 ? first & (0x3fu >> more) : first;
    for (; more > 0 && ((unsigned char)**p & 0xc0) == 0x80; more--) c = c << 6 | ((unsigned char)*(*p)++ & 0x3fu);
    return c;
}

int cli_text_width(const char *text) {
    int width = 0;
    while (*text != '\0') width += char_width(next_char(&text));
    return width;
}

size_t cli_text_fit(const char *text, int columns) {
    const char *p = text;
    while (*p != '\0') {
        const char *next = p;
        columns -= char_width(next_char(&next));
        if (columns < 0) break;
        p = next;
    }
    return (size_t)(p - text);
}

void cli_wrap(FILE *out, const char *text, int column, int indent, int width) {
    bool begins = true; /* a line: the next word needs no space before it */
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        char         word[256];
        const size_t length = strcspn(text, " "), n = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, text, n);
        word[n]        = '\0';
        const int wide = cli_text_width(word);
        if (!begins && column + 1 + wide > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            begins = true;
        }
        fprintf(out, "%s%s", begins ? "" : " ", word);
        column += wide + !begins;
        begins = false;
        text += n;
    }
    fputc('\n', out);
}
