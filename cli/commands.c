/* commands.c - the table of the commands. */
#include "cli/commands.h"

const Command *const cli_commands[CLI_N_COMMANDS] = {
#define X(name) &cli_command_##name,
    COMMANDS(X)
#undef X
};
