/* options.h - the command line of one command as a table. A row gives an option's name, type, range and help;
 * parsing (parse.h), checks (files.h) and help texts (help.h) all use the same rows. */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The use that a command makes of a path. FILE_CHECKPOINT may be the file of FILE_RESUMED: a resumed training or chat
 * goes on writing its file. Two FILE_CHECKPOINT are a checkpoint and the one before. */
typedef enum FileUse {
    FILE_NONE, /* not a path */
    FILE_READ,
    FILE_READ_SETTINGS, /* "FILE[:SETTING]...": the longest FILE that exists */
    FILE_RESUMED,       /* read */
    FILE_WRITTEN,
    FILE_CHECKPOINT /* written */
} FileUse;

typedef struct FileList FileList;

typedef enum OptionKind { OPTION_FLAG, OPTION_INT, OPTION_SEED, OPTION_NUMBER, OPTION_TEXT, OPTION_LIST } OptionKind;

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
    FileUse     file;             /* of TEXT and LIST whose values are paths */
} Option;

/* FILE is an option whose value is a path, FILES one that may be repeated; `use` says what is done with the file.
 * NEEDED is a required FILE; ARGUMENT and OPTIONAL are positional arguments. MODEL is -m, and its value may also be
 * positional; if it is absent, the command gets the demo model, with MODEL_OPTIONAL NULL. */
#define CLI_FLAG(name, letter, v, help)                                                                                \
    { name, letter, OPTION_FLAG, &(v), NULL, help, 0, 0, false, false, FILE_NONE }
#define CLI_TEXT(name, letter, v, arg, help)                                                                           \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, false, false, FILE_NONE }
#define CLI_LIST(name, letter, v, arg, help)                                                                           \
    { name, letter, OPTION_LIST, &(v), arg, help, 0, 0, false, false, FILE_NONE }
#define CLI_FILE(use, name, letter, v, arg, help)                                                                      \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, false, false, use }
#define CLI_FILES(use, name, letter, v, arg, help)                                                                     \
    { name, letter, OPTION_LIST, &(v), arg, help, 0, 0, false, false, use }
#define CLI_NEEDED(use, name, letter, v, arg, help)                                                                    \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, true, false, use }
#define CLI_MODEL(name, letter, v, arg, help)                                                                          \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, true, true, FILE_READ }
#define CLI_MODEL_OPTIONAL(name, letter, v, arg, help)                                                                 \
    { name, letter, OPTION_TEXT, &(v), arg, help, 0, 0, false, true, FILE_READ }
#define CLI_ARGUMENT(use, v, arg, help)                                                                                \
    { NULL, 0, OPTION_TEXT, &(v), arg, help, 0, 0, true, false, use }
#define CLI_OPTIONAL(use, v, arg, help)                                                                                \
    { NULL, 0, OPTION_TEXT, &(v), arg, help, 0, 0, false, false, use }
#define CLI_SEED(name, letter, v, arg, help)                                                                           \
    { name, letter, OPTION_SEED, &(v), arg, help, 0, 0, false, false, FILE_NONE }
#define CLI_INT(name, letter, v, arg, help, min, max)                                                                  \
    { name, letter, OPTION_INT, &(v), arg, help, min, max, false, false, FILE_NONE }
#define CLI_NUMBER(name, letter, v, arg, help, min, max)                                                               \
    { name, letter, OPTION_NUMBER, &(v), arg, help, min, max, false, false, FILE_NONE }

typedef struct Command {
    const char   *name, *help;
    const char   *usage; /* synopsis after the name */
    const char   *notes; /* paragraphs that are printed below the options, one a line, or NULL; lines that begin with a
                          * space are printed as they are */
    const Option *options;
    size_t        n_options;
    void (*files)(FileList *); /* NULL, or adds files with cli_files_add that no option names, such as defaults */
    int (*run)(void);          /* returns the exit status */
} Command;

typedef enum ParseResult { PARSE_RUN, PARSE_HELP, PARSE_ERROR, PARSE_FAILED } ParseResult;

#endif
