/* options.h - the command line of one command as a table. A row gives an option's name, type, range and help;
 * parsing, checks and help texts all use the same rows. */
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

/* `value` points to the option's variable, which holds the default until the option is parsed. Its type by kind:
 *
 *   FLAG bool   INT int32_t   SEED uint64_t   NUMBER float   TEXT const char *   LIST TextList */
typedef struct Option {
    const char *name;   /* without the dashes; NULL: a positional argument */
    char        letter; /* of the short form -x, or 0 */
    OptionKind  kind;
    void       *value;
    const char *arg, *help;       /* arg: name of the value in the help text */
    double      min, max;         /* of INT and NUMBER; max 0: no upper limit */
    bool        needed, is_model; /* needed: an error if absent; is_model: see cli_parse */
} Option;

/* NEEDED is a required option; ARGUMENT and OPTIONAL are positional arguments. MODEL is -m, and its value may also be
 * positional; if it is absent, the command gets the demo model, with MODEL_OPTIONAL NULL. */
#define CLI_FLAG(name, letter, v, help)                                                                      \
    { name, letter, OPTION_FLAG, &(v), NULL, help, 0, 0, false, false }
#define CLI_TEXT(name, letter, v, arg, help)                                                                 \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, false, false }
#define CLI_NEEDED(name, letter, v, arg, help)                                                               \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, true, false }
#define CLI_MODEL(name, letter, v, arg, help)                                                                \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, true, true }
#define CLI_MODEL_OPTIONAL(name, letter, v, arg, help)                                                       \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, false, true }
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
    const char *name, *help;
    const char *usage; /* synopsis after the name */
    const char
        *notes; /* paragraphs that are printed below the options, one a line, or NULL; lines that begin with a
                          * space are printed as they are */
    const Option *options;
    size_t        n_options;
    int (*run)(void); /* returns the exit status */
} Command;

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

typedef enum ParseResult { PARSE_RUN, PARSE_HELP, PARSE_ERROR, PARSE_NO_MEMORY } ParseResult;

/* The options of every command: --color and --help. */
enum { N_COMMON_OPTIONS = 2 };
extern const Option cli_common_options[N_COMMON_OPTIONS];

/* Parses argv[0..argc) into the option variables. A positional argument is the model, if there is a MODEL option that
 * has got none by position yet, else the next positional one. PARSE_ERROR and PARSE_NO_MEMORY after printing one line
 * on stderr. */
ParseResult cli_parse(const Command *command, int argc, char *const argv[]);

/* Parses --color WHEN at the beginning of argv. Returns the number of arguments it used, -1 after printing an error. */
int cli_parse_color(int argc, char *const argv[]);

/* The name in names[0..n) with the smallest edit distance to a mistyped `name`; NULL if none is close. */
const char *cli_nearest(const char *name, const char *const names[], size_t n);

#endif
