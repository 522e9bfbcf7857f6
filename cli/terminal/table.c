/* table.c - cells are kept as text; their widths are measured when the table is printed. */
#include "cli/terminal/table.h"

#include "cli/terminal/message.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 32, GAP = 2 };

typedef struct Cell {
    char *text; /* malloc */
    Style style;
} Cell;

struct Table {
    int    n_columns;
    bool   right[MAX_COLUMNS], has_headings, failed;
    Cell  *cells; /* cells[row * n_columns + column]; row 0 are the headings */
    size_t n, room;
};

/* Takes the text over. A table that lacks memory for a cell is marked as failed and cli_table_print reports it, so
 * callers need not check each cell. */
static void add(Table *t, char *text, Style style) {
    if (t->n == t->room) {
        const size_t room  = 2 * t->room + 64;
        Cell        *grown = realloc(t->cells, room * sizeof *grown);
        if (grown != NULL) {
            t->cells = grown;
            t->room  = room;
        }
    }
    if (text == NULL || t->n == t->room) {
        t->failed = true;
        free(text);
        return;
    }
    t->cells[t->n++] = (Cell){text, style};
}

Table *cli_table_new(const char *columns) {
    Table *t = calloc(1, sizeof *t);
    for (const char *p = columns; t != NULL && t->n_columns < MAX_COLUMNS; p++) {
        t->right[t->n_columns++] = *p == '>';
        p += *p == '>';
        const size_t n = strcspn(p, "|");
        if (n > 0) t->has_headings = true;
        add(t, strndup(p, n), STYLE_HEADING);
        p += n;
        if (*p == '\0') break;
    }
    return t;
}

void cli_table_add(Table *t, const char *fmt, ...) {
    char   *text = NULL;
    va_list ap;
    if (t == NULL) return;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0) text = NULL;
    va_end(ap);
    char *shown = text != NULL ? cli_visible(text, strlen(text)) : NULL; /* cells contain names from files */
    free(text);
    add(t, shown, STYLE_PLAIN);
}

void cli_table_add_stream(Table *t, FILE *f, char **text) {
    if (f != NULL && fclose(f) == 0)
        cli_table_add(t, "%s", *text);
    else if (t != NULL)
        t->failed = true;
    free(*text);
}

void cli_table_style(Table *t, Style style) {
    if (t != NULL && t->n > 0) t->cells[t->n - 1].style = style;
}

/* Prints a cell with its padding. The last cell of a row has none, so no line ends with spaces. */
static void put_cell(const Table *t, const Cell *c, int column, int width, bool is_last, FILE *out) {
    const int   pad   = width - cli_text_width(c->text);
    const char *style = c->style != STYLE_PLAIN && c->text[0] != '\0' ? cli_style(out, c->style) : "";
    fprintf(out, "%*s%s%s%s", t->right[column] ? pad : 0, "", style, c->text,
            style[0] != '\0' ? cli_style(out, STYLE_PLAIN) : "");
    if (!is_last) fprintf(out, "%*s", (t->right[column] ? 0 : pad) + GAP, "");
}

/* Prints a row without the empty cells at its end. */
static void put_row(const Table *t, const Cell *row, const int *widths, int indent, FILE *out) {
    int used = t->n_columns;
    while (used > 0 && row[used - 1].text[0] == '\0') used--;
    fprintf(out, "%*s", used > 0 ? indent : 0, "");
    for (int c = 0; c < used; c++) put_cell(t, &row[c], c, widths[c], c == used - 1, out);
    fputc('\n', out);
}

void cli_table_free(Table *t) {
    if (t == NULL) return;
    for (size_t i = 0; i < t->n; i++) free(t->cells[i].text);
    free(t->cells);
    free(t);
}

RpStatus cli_table_print(Table *t, FILE *out, int indent) {
    int widths[MAX_COLUMNS] = {0};
    if (t == NULL || t->failed) {
        cli_table_free(t);
        return rp_fail(RP_E_NOMEM, "out of memory for a table");
    }
    const size_t columns = (size_t)t->n_columns;
    for (size_t i = 0; i < t->n; i++) {
        const int width = cli_text_width(t->cells[i].text);
        if (width > widths[i % columns]) widths[i % columns] = width;
    }
    for (size_t i = t->has_headings ? 0 : columns; i + columns <= t->n; i += columns)
        put_row(t, &t->cells[i], widths, indent, out);
    cli_table_free(t);
    return RP_OK;
}
