/* completion.c - `reprise completion`: prints a script that completes commands, options and values in bash, zsh or
 * fish, made from the tables of options.
 *
 *     bash   one function. It looks at the word before the cursor: after an option it completes the value of the
 *            option, else options if the word begins with a dash, else the positional argument
 *     zsh    one _arguments call for each command, with a spec for each option
 *     fish   one `complete` line for each option of each command, under the condition that the line has this command
 *
 * cli_value_kind says what can be offered for an argument, by the name it has in the help. */
#include "cli/commands.h"
#include "cli/options/parse.h"
#include "cli/options/values.h"
#include "cli/terminal/message.h"
#include "cli/text_files.h"

#include <string.h>

static struct { const char *shell, *output; } args;

/* Prints a text for use between single quotes. `escaped` are characters to put a backslash before. */
static void put_quoted(const char *text, const char *escaped, FILE *out) {
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, strchr(escaped, *text) != NULL ? "\\%c" : "%c", *text);
    }
}

/* The option or positional argument that a word without a dash belongs to; NULL: none. */
static const Option *first_positional(const Command *c) {
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].is_model || c->options[i].name == NULL) return &c->options[i];
    return NULL;
}

/* Calls put for each named option of the command and each common one. */
static void each_option(const Command *c, void (*put)(const Command *c, const Option *o, FILE *out), FILE *out) {
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].name != NULL) put(c, &c->options[i], out);
    for (size_t i = 0; i < N_COMMON_OPTIONS; i++) put(c, &cli_common_options[i], out);
}

/* Prints the second words of the commands that begin with this one: "launches machine" for bench. */
static void put_subcommands(const Command *c, FILE *out) {
    const size_t n = strlen(c->name);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++)
        if (strncmp(cli_commands[i]->name, c->name, n) == 0 && cli_commands[i]->name[n] == ' ')
            fprintf(out, "%s ", cli_commands[i]->name + n + 1);
}

/* Prints the commands of one word. */
static void put_commands(FILE *out) {
    for (size_t i = 0; i < CLI_N_COMMANDS; i++)
        if (strchr(cli_commands[i]->name, ' ') == NULL) fprintf(out, "%s ", cli_commands[i]->name);
    fputs("help", out);
}

/* Prints a pattern of the shell's `case` for the commands of two words. */
static void put_long_commands(FILE *out) {
    const char *mark = "";
    for (size_t i = 0; i < CLI_N_COMMANDS; i++)
        if (strchr(cli_commands[i]->name, ' ') != NULL) {
            fprintf(out, "%s'%s'", mark, cli_commands[i]->name);
            mark = "|";
        }
}

/* ---- bash ---- */

/* Prints the shell command that completes a value of this argument; ":" does nothing. */
static void bash_value(const char *arg, FILE *out) {
    char words[1024];
    switch (cli_value_kind(arg)) {
    case VALUE_MODEL:
        fputs("_reprise_files '!*.gguf'", out);
        break;
    case VALUE_FILE:
        fputs("_reprise_files ''", out);
        break;
    case VALUE_WORDS:
        fprintf(out, "_reprise_words '%s'", cli_value_words(arg, words, sizeof words));
        break;
    case VALUE_ANY:
        fputs(":", out);
        break;
    }
}

/* Prints both spellings of an option: "-m --model ". */
static void bash_name(const Command *c, const Option *o, FILE *out) {
    (void)c;
    if (o->letter != 0) fprintf(out, "-%c ", o->letter);
    fprintf(out, "--%s ", o->name);
}

/* Prints the case for "the word before is this option". Flags have no value and so no case. */
static void bash_case(const Command *c, const Option *o, FILE *out) {
    (void)c;
    if (o->kind == OPTION_FLAG) return;
    fputs("        ", out);
    if (o->letter != 0) fprintf(out, "-%c|", o->letter);
    fprintf(out, "--%s) ", o->name);
    bash_value(o->arg, out);
    fputs(" ;;\n", out);
}

/* Prints the case of one command. Second words, such as `launches` after `bench`, are offered beside its arguments. */
static void bash_command(const Command *c, FILE *out) {
    const Option *positional = first_positional(c);
    fprintf(out, "    '%s')\n        case $before in\n", c->name);
    each_option(c, bash_case, out);
    fputs("        *)\n            if [[ $word == -* ]]; then _reprise_words '", out);
    each_option(c, bash_name, out);
    fputs("'\n            else ", out);
    bash_value(positional != NULL ? positional->arg : NULL, out);
    fputs("; fi\n            ((COMP_CWORD == 2)) && _reprise_words '", out);
    put_subcommands(c, out);
    fputs("' more ;;\n        esac ;;\n", out);
}

static void put_bash(FILE *out) {
    fputs("# bash completion of reprise, made by `reprise completion bash`\n"
          "_reprise_words() { # WORDS [more]: adds to what is offered with `more`\n"
          "    [[ $2 == more ]] || COMPREPLY=()\n"
          "    COMPREPLY+=($(compgen -W \"$1\" -- \"$word\"))\n"
          "}\n"
          "_reprise_files() { # pattern of the files to leave out\n"
          "    local IFS=$'\\n'\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    if [[ $1 ]]; then COMPREPLY=($(compgen -d -- \"$word\") $(compgen -f -X \"$1\" -- \"$word\"))\n"
          "    else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
          "}\n"
          "_reprise() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
          "command=${COMP_WORDS[1]}\n"
          "    COMPREPLY=()\n"
          "    if [[ $word == = ]]; then word=; # bash takes --name=value for three words\n"
          "    elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    if ((COMP_CWORD == 1)) || [[ $command == help && $COMP_CWORD -eq 2 ]]; then\n"
          "        _reprise_words '",
          out);
    put_commands(out);
    fputs(" --help --version --color'\n        return\n    fi\n    if ((COMP_CWORD > 2)); then\n"
          "        case \"$command ${COMP_WORDS[2]}\" in\n        ",
          out);
    put_long_commands(out);
    fputs(") command=\"$command ${COMP_WORDS[2]}\" ;;\n        esac\n    fi\n    case $command in\n", out);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) bash_command(cli_commands[i], out);
    fputs("    esac\n}\ncomplete -F _reprise reprise\n", out);
}

/* ---- zsh ---- */

/* Prints the end of a spec: ":MODEL:_files -g "*.gguf"". */
static void zsh_value(const char *arg, FILE *out) {
    char words[1024];
    switch (cli_value_kind(arg)) {
    case VALUE_MODEL:
        fprintf(out, ":%s:_files -g \"*.gguf\"", arg);
        break;
    case VALUE_FILE:
        fprintf(out, ":%s:_files", arg);
        break;
    case VALUE_WORDS:
        fprintf(out, ":%s:(%s)", arg, cli_value_words(arg, words, sizeof words));
        break;
    case VALUE_ANY:
        fprintf(out, ":%s: ", arg);
        break;
    }
}

/* One spec of _arguments for each spelling: '-m+[help]:MODEL:_files', '--model=[help]:MODEL:_files'. */
static void zsh_option(const Command *c, const Option *o, FILE *out) {
    (void)c;
    for (int is_long = o->letter == 0; is_long < 2; is_long++) {
        const bool flag = o->kind == OPTION_FLAG;
        if (is_long)
            fprintf(out, " \\\n            '%s--%s%s[", o->kind == OPTION_LIST ? "*" : "", o->name, flag ? "" : "=");
        else
            fprintf(out, " \\\n            '-%c%s[", o->letter, flag ? "" : "+");
        put_quoted(o->help, "[]\\:", out);
        fputc(']', out);
        if (!flag) zsh_value(o->arg, out);
        fputc('\'', out);
    }
}

static void zsh_command(const Command *c, FILE *out) {
    const Option *positional = first_positional(c);
    fprintf(out, "    '%s')\n        _arguments -s", c->name);
    each_option(c, zsh_option, out);
    if (positional != NULL) {
        fputs(" \\\n            '*", out);
        zsh_value(positional->arg, out);
        fputc('\'', out);
    }
    fputs(" ;;\n", out);
}

static void put_zsh(FILE *out) {
    fputs("#compdef reprise\n# zsh completion of reprise, made by `reprise completion zsh`\n_reprise() {\n"
          "    local -a commands\n    commands=(\n",
          out);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) {
        if (strchr(cli_commands[i]->name, ' ') != NULL) continue;
        fprintf(out, "        '%s:", cli_commands[i]->name);
        put_quoted(cli_commands[i]->help, "", out);
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    ((CURRENT--))\n"
          "    case \"$command $words[2]\" in\n    ",
          out);
    put_long_commands(out);
    fputs(")\n        if ((CURRENT > 2)); then\n            command=\"$command $words[2]\"\n"
          "            shift words\n            ((CURRENT--))\n        fi ;;\n    esac\n    case $command in\n",
          out);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) zsh_command(cli_commands[i], out);
    fputs("    esac\n}\n"
          "if [[ $funcstack[1] == _reprise ]]; then _reprise \"$@\"; else compdef _reprise reprise; fi\n",
          out);
}

/* ---- fish ---- */

/* Prints the switches of `complete`: -x -a offers the listed values only, -r -F any file. */
static void fish_value(const char *arg, FILE *out) {
    char words[1024];
    switch (cli_value_kind(arg)) {
    case VALUE_MODEL:
        fputs(" -x -a '(__fish_complete_suffix .gguf)'", out);
        break;
    case VALUE_FILE:
        fputs(" -r -F", out);
        break;
    case VALUE_WORDS:
        fprintf(out, " -x -a '%s'", cli_value_words(arg, words, sizeof words));
        break;
    case VALUE_ANY:
        fputs(" -x", out);
        break;
    }
}

static void fish_option(const Command *c, const Option *o, FILE *out) {
    fprintf(out, "complete -c reprise -n \"__reprise_is '%s'\" -l %s", c->name, o->name);
    if (o->letter != 0) fprintf(out, " -s %c", o->letter);
    if (o->kind != OPTION_FLAG) fish_value(o->arg, out);
    fputs(" -d '", out);
    put_quoted(o->help, "", out);
    fputs("'\n", out);
}

/* Prints the lines of one command: its own name, its positional argument, its options. */
static void fish_command(const Command *c, FILE *out) {
    const Option *positional = first_positional(c);
    if (strchr(c->name, ' ') == NULL) {
        fprintf(out, "complete -c reprise -n 'test (count (commandline -opc)) -eq 1' -a %s -d '", c->name);
        put_quoted(c->help, "", out);
        fputs("'\n", out);
    }
    if (positional != NULL && cli_value_kind(positional->arg) != VALUE_ANY) {
        fprintf(out, "complete -c reprise -n \"__reprise_is '%s'\"", c->name);
        fish_value(positional->arg, out);
        fputc('\n', out);
    }
    each_option(c, fish_option, out);
}

static void put_fish(FILE *out) {
    fputs("# fish completion of reprise, made by `reprise completion fish`\n"
          "function __reprise_is # NAME: the command on the line is NAME\n"
          "    set -l words (commandline -opc) '' ''\n"
          "    switch \"$words[2] $words[3]\"\n",
          out);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++)
        if (strchr(cli_commands[i]->name, ' ') != NULL)
            fprintf(out, "        case '%s'\n            test \"$argv[1]\" = '%s'\n", cli_commands[i]->name,
                    cli_commands[i]->name);
    fputs("        case '*'\n            test \"$argv[1]\" = \"$words[2]\"\n    end\nend\ncomplete -c "
          "reprise -f\n",
          out);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) fish_command(cli_commands[i], out);
}

static int run(void) {
    static const struct {
        const char *name;
        void (*put)(FILE *out);
    } shells[] = {
        {"bash", put_bash},
        {"zsh",  put_zsh },
        {"fish", put_fish}
    };
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        RpNewFile *file;
        FILE      *out;
        if (strcmp(args.shell, shells[i].name) != 0) continue;
        const RpStatus st = cli_open_output(args.output, &file, &out);
        if (st != RP_OK) return cli_exit(st);
        shells[i].put(out);
        return cli_exit(cli_close_output(file, RP_OK));
    }
    cli_say("reprise completion", "%s: must be bash, zsh or fish", args.shell);
    return EXIT_USAGE;
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_NONE, args.shell, "SHELL", "bash, zsh or fish"),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "write to a file instead of standard output"),
};

const Command cli_command_completion = {.name = "completion",
                                        .help = "print a script that completes commands, options and values in a shell",
                                        .usage   = "SHELL [options]",
                                        .notes   = "An installed reprise brings these scripts. For this session only:\n"
                                                   "  source <(reprise completion bash)\n"
                                                   "  source <(reprise completion zsh)\n"
                                                   "  reprise completion fish | source",
                                        .options = options,
                                        .n_options = sizeof options / sizeof options[0],
                                        .run       = run};
