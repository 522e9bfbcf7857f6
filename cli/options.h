/* options.h - the command line of one command, as a table: parsed, checked and printed from the same rows. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum OptionKind {
    OPTION_FLAG,
    OPTION_INT,
    OPTION_SEED,
    OPTION_NUMBER,
    OPTION_TEXT,
    OPTION_LIST
} OptionKind;

typedef struct TextList {
    const char **items;
    size_t       n;
} TextList;

/* `value` points to a bool, int32_t, uint64_t, float, const char * or TextList, by kind; it holds the
 * default. */
typedef struct Option {
    const char *name;   /* without the dashes; NULL for an argument that stands for itself */
    char        letter; /* or 0 */
    OptionKind  kind;
    void       *value;
    const char *arg, *help;
    double      min, max;         /* of an int or a number; max 0: no limit */
    bool        needed, is_model; /* is_model: the default is the demo model */
} Option;

#define CLI_FLAG(name, letter, v, help)                                                                      \
    { name, letter, OPTION_FLAG, &(v), NULL, help, 0, 0, false, false }
#define CLI_TEXT(name, letter, v, arg, help)                                                                 \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, false, false }
#define CLI_NEEDED(name, letter, v, arg, help)                                                               \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, true, false }
#define CLI_MODEL(name, letter, v, arg, help)                                                                \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, true, true }
#define CLI_ARGUMENT(v, arg, help)                                                                           \
    { NULL, 0, OPTION_TEXT, &(v), arg, help, 0, 0, true, false }
#define CLI_OPTIONAL(v, arg, help)                                                                           \
    { NULL, 0, OPTION_TEXT, &(v), arg, help, 0, 0, false, false }
#define CLI_LIST(name, letter, v, arg, help)                                                                 \
    { name, letter, OPTION_LIST, &(v), arg, help, 0, 0, false, false }
#define CLI_SEED(name, letter, v, arg, help)                                                                 \
    { name, letter, OPTION_SEED, &(v), arg, help, 0, 0, false, false }
#define CLI_INT(name, letter, v, arg, help, min, max)                                                        \
    { name, letter, OPTION_INT, &(v), arg, help, min, max, false, false }
#define CLI_NUMBER(name, letter, v, arg, help, min, max)                                                     \
    { name, letter, OPTION_NUMBER, &(v), arg, help, min, max, false, false }

typedef struct Command {
    const char   *name, *help;
    const char   *usage; /* what stands after the name */
    const char   *notes; /* printed below the options, or NULL */
    const Option *options;
    size_t        n_options;
    int (*run)(void); /* the exit status */
} Command;

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

typedef enum ParseResult { PARSE_RUN, PARSE_HELP, PARSE_ERROR } ParseResult;

/* Fills the values from argv[0..argc). Says what is wrong on stderr, in one line. */
ParseResult cli_parse(const Command *command, int argc, char *const argv[]);

/* The help of one command, on stdout. */
void cli_help(const Command *command);

/* Of names[0..n), the one nearest to a mistyped name, or NULL where none is near. */
const char *cli_nearest(const char *name, const char *const names[], size_t n);

#endif
