/* commands.h - the list of commands. Each is a file that defines cli_command_<name>: its options, texts and run
 * function. To add a command, add its file and a row here: help, completion and manual page are made from the list.
 *
 *     main.c       finds the command; cli_parse (options/parse.h) sets the variables of its options; run() does the
 *                  work and returns the exit status
 *     commands/    one file a command
 *     options/     tables of options: parsing, help, checks of files, words for completion
 *     terminal/    messages, progress line, tables, colours, signals
 *     diff/, machine/, predict/, train/    parts of larger commands
 *
 * Only this folder prints or exits. The library returns RpStatus, which cli_exit turns into a message and a status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options/options.h"

#define COMMANDS(X)                                                                                                    \
    X(generate)                                                                                                        \
    X(chat)                                                                                                            \
    X(serve)                                                                                                           \
    X(repeat)                                                                                                          \
    X(graph)                                                                                                           \
    X(dump)                                                                                                            \
    X(plan)                                                                                                            \
    X(inspect)                                                                                                         \
    X(tokenize)                                                                                                        \
    X(bench)                                                                                                           \
    X(bench_serve)                                                                                                     \
    X(sequences)                                                                                                       \
    X(launches)                                                                                                        \
    X(counts)                                                                                                          \
    X(machine)                                                                                                         \
    X(profile)                                                                                                         \
    X(verify)                                                                                                          \
    X(diverge)                                                                                                         \
    X(devices)                                                                                                         \
    X(perplexity)                                                                                                      \
    X(embed)                                                                                                           \
    X(rerank)                                                                                                          \
    X(synth)                                                                                                           \
    X(train)                                                                                                           \
    X(train_plot)                                                                                                      \
    X(merge)                                                                                                           \
    X(quantize)                                                                                                        \
    X(imatrix)                                                                                                         \
    X(completion)                                                                                                      \
    X(man)

#define X(name) extern const Command cli_command_##name;
COMMANDS(X)
#undef X

/* All of them, in this order. A name has one word, or two: "bench launches". */
#define X(name) +1
enum { CLI_N_COMMANDS = 0 COMMANDS(X) };
#undef X
extern const Command *const cli_commands[CLI_N_COMMANDS];

#endif
