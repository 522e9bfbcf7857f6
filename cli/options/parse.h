/* parse.h - sets the variables of a table of options by a command line. */
#ifndef CLI_OPTIONS_PARSE_H
#define CLI_OPTIONS_PARSE_H

#include "cli/options/options.h"

/* The options of every command: --color, --plugin and --help. */
enum { N_COMMON_OPTIONS = 3 };
extern const Option cli_common_options[N_COMMON_OPTIONS];

extern TextList cli_plugins; /* the values of --plugin */

/* Parses argv[0..argc) into the option variables. A positional argument is the value of the MODEL option, if
 * there is one without a value by position, else the next positional argument of the table. An output that is an input
 * or another output is an error too (files.h). PARSE_ERROR for wrong use and PARSE_FAILED for other failures, after
 * printing one line on stderr. */
ParseResult cli_parse(const Command *command, int argc, char *const argv[]);

/* The arguments that cli_parse was given last, without the name of the command. */
const char *const *cli_parsed_arguments(size_t *n);

/* Parses --color WHEN at the beginning of argv. Returns the number of arguments it used, -1 after printing an error. */
int cli_parse_color(int argc, char *const argv[]);

/* The name in names[0..n) with the smallest edit distance to a mistyped `name`; NULL if none is close. */
const char *cli_nearest(const char *name, const char *const names[], size_t n);

#endif
