/* values.h - the values that an argument may have, for completion. An argument is known by its name in the help
 * (Option.arg). */
#ifndef CLI_OPTIONS_VALUES_H
#define CLI_OPTIONS_VALUES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ValueKind {
    VALUE_ANY,   /* nothing to offer */
    VALUE_MODEL, /* a .gguf file */
    VALUE_FILE,
    VALUE_WORDS /* see cli_value_words */
} ValueKind;

ValueKind cli_value_kind(const char *arg);

/* Writes the words of VALUE_WORDS, separated by spaces; returns buf. */
const char *cli_value_words(const char *arg, char *buf, size_t size);

/* Copies the next line of the notes of a command; false at their end. "{ARG}" stands for the words of this argument. */
bool cli_next_note(const char **notes, char *line, size_t size);

#endif
