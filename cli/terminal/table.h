/* table.h - a table whose columns are as wide as their widest cell. Cells are added row by row, then printed.
 *
 *   Table *t = cli_table_new("op|>nodes|>us");                // > aligns a column to the right
 *   cli_table_add(t, "%s", "mul_mat");  cli_table_add(t, "%d", 7);  cli_table_add(t, "%.1f", 25.3);
 *   RP_TRY(cli_table_print(t, stdout, 0)); */
#ifndef CLI_TERMINAL_TABLE_H
#define CLI_TERMINAL_TABLE_H

#include "cli/terminal/style.h"

#include "reprise/status.h"

typedef struct Table Table;

/* `columns` has the headings, separated by |. If all are empty, none are printed. NULL: out of memory, which the other
 * functions accept. */
Table *cli_table_new(const char *columns);

/* The next cell. After the last of a row the next row begins. */
void cli_table_add(Table *t, const char *fmt, ...) RP_PRINTF(2, 3);

/* The next cell is what was written to `f`, an open_memstream of *text. Closes it and frees *text. `f` NULL: there was
 * no memory for it, so cli_table_print will fail. */
void cli_table_add_stream(Table *t, FILE *f, char **text);

/* Prints the cell that was added last in this style. */
void cli_table_style(Table *t, Style style);

void cli_table_free(Table *t);

/* Prints the table, `indent` columns to the right, and frees it. RP_E_NOMEM, without output, if a cell is missing. */
RP_NODISCARD RpStatus cli_table_print(Table *t, FILE *out, int indent);

#endif
