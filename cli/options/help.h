/* help.h - help texts, made from the tables of commands and options. */
#ifndef CLI_OPTIONS_HELP_H
#define CLI_OPTIONS_HELP_H

#include "cli/options/options.h"

/* Prints the help of one command on stdout, in lines as wide as the terminal, 100 columns at most; 80 if stdout is no
 * terminal. */
void cli_help(const Command *command);

/* Prints the commands and the environment variables. */
void cli_help_program(void);

#endif
