/* man.c - `reprise man`: prints the manual page in roff (man 7), made from the tables of commands, options and
 * environment variables. */
#include "cli/commands.h"
#include "cli/options/parse.h"
#include "cli/options/values.h"
#include "cli/terminal/message.h"
#include "cli/text_files.h"
#include "reprise/reprise.h"

#include <string.h>

static struct { const char *output; } args;

/* Prints a text with the characters that roff would interpret escaped. */
static void put_text(const char *text, FILE *out) {
    for (const char *p = text; *p != '\0'; p++) {
        if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n')) fputs("\\&", out);
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-')
            fputs("\\-", out);
        else if (*p == '`' || *p == '^' || *p == '~' || *p == '\'')
            fputs(*p == '`' ? "\\(ga" : *p == '^' ? "\\(ha" : *p == '~' ? "\\(ti" : "\\(aq", out);
        else
            fputc(*p, out);
    }
}

/* Prints a text in a font, B or I. */
static void put_font(char font, const char *text, FILE *out) {
    fprintf(out, "\\f%c", font);
    put_text(text, out);
    fputs("\\fR", out);
}

/* Prints the paragraph of an option: "-m, --model MODEL", then its help. */
static void put_option(const Option *o, FILE *out) {
    char text[64];
    fputs(".TP\n", out);
    if (o->letter != 0) {
        snprintf(text, sizeof text, "-%c", o->letter);
        put_font('B', text, out);
        fputs(", ", out);
    }
    if (o->name != NULL) {
        snprintf(text, sizeof text, "--%s", o->name);
        put_font('B', text, out);
        fputc(' ', out);
    }
    if (o->arg != NULL) put_font('I', o->arg, out);
    fputc('\n', out);
    put_text(o->help, out);
    fputc('\n', out);
}

/* Each line is a paragraph; lines that begin with a space keep their form. */
static void put_notes(const char *notes, FILE *out) {
    bool as_is = false;
    char line[1024];
    while (cli_next_note(&notes, line, sizeof line)) {
        if (!as_is) fputs(".PP\n", out);
        if ((line[0] == ' ') != as_is) {
            as_is = !as_is;
            fputs(as_is ? ".nf\n" : ".fi\n.PP\n", out);
        }
        put_text(line, out);
        fputc('\n', out);
    }
    if (as_is) fputs(".fi\n", out);
}

/* Prints the section of a command: synopsis, help, options, notes. */
static void put_command(const Command *c, FILE *out) {
    fputs(".SS ", out);
    put_text(c->name, out);
    fputs("\n", out);
    put_font('B', "reprise ", out);
    put_font('B', c->name, out);
    fputc(' ', out);
    put_text(c->usage, out);
    fputs("\n.PP\n", out);
    put_text(c->help, out);
    fputs(".\n", out);
    for (size_t i = 0; i < c->n_options; i++) put_option(&c->options[i], out);
    if (c->notes != NULL) put_notes(c->notes, out);
}

static void put_environment(FILE *out) {
    fputs(".SH ENVIRONMENT\n", out);
    for (int i = 0; i < RP_OPT_COUNT; i++) {
        const char *value = rp_option_default((RpOption)i);
        fputs(".TP\n", out);
        put_font('B', rp_option_name((RpOption)i), out);
        fputc('\n', out);
        put_text(rp_option_help((RpOption)i), out);
        fprintf(out, value[0] != '\0' ? " (default %s)\n" : "\n", value);
    }
    fputs(".TP\n\\fBNO_COLOR\\fR\nno colours, if it is set and not empty\n", out);
}

/* Each example has a sentence and a command, which is indented and not filled. */
static void put_examples(FILE *out) {
    static const char *const examples[][2] = {
        {"The demo model continues a text:",                       "reprise generate -p \"In the beginning\" -n 80 --temp 0.7"},
        {"A conversation:",                                        "reprise chat model.gguf"                                  },
        {"Tokens per second, also with 4096 tokens of context:",   "reprise bench model.gguf -d 4096"                         },
        {"A picture of the graph that runs, equal layers folded:", "reprise graph model.gguf --dot --fold | dot -Tsvg"        },
        {"Weights in another type:",                               "reprise quantize f16.gguf q4.gguf --type Q4_K_M"          },
    };
    fputs(".SH EXAMPLES\n", out);
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        put_text(examples[i][0], out);
        fputs("\n.PP\n.nf\n.RS 4\n", out);
        put_text(examples[i][1], out);
        fputs("\n.RE\n.fi\n.PP\n", out);
    }
}

static void put_page(FILE *out) {
    fputs(".TH REPRISE 1 \"\" \"reprise " RP_VERSION "\" \"User Commands\"\n.SH NAME\n"
          "reprise \\- decode language models one token at a time\n.SH SYNOPSIS\n"
          "\\fBreprise\\fR \\fICOMMAND\\fR [\\fIMODEL\\fR] [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
          "\\fBreprise\\fR runs language models in GGUF files on the CPU or on a GPU.\n"
          "Without \\fIMODEL\\fR a command takes the file of \\fBREPRISE_MODEL\\fR, else the demo model.\n"
          ".SH OPTIONS\nAll commands have these options.\n",
          out);
    for (size_t i = 0; i < N_COMMON_OPTIONS; i++) put_option(&cli_common_options[i], out);
    fputs(".TP\n\\fB\\-\\-version\\fR\nversion, CUDA toolkit and devices, instruction set of the CPU kernels\n"
          ".SH COMMANDS\n",
          out);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) put_command(cli_commands[i], out);
    put_environment(out);
    fputs(".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\nfailure; one line on standard error names the cause\n"
          ".TP\n2\nwrong usage\n.TP\n130\ninterrupted by Ctrl\\-C\n.TP\n143\nended by SIGTERM\n"
          ".SH FILES\n.TP\n\\fI../share/reprise/demo.gguf\\fR\nthe demo model, relative to the folder of the "
          "program\n",
          out);
    put_examples(out);
}

static int run(void) {
    RpNewFile *file;
    FILE      *out;
    RpStatus   st = cli_open_output(args.output, &file, &out);
    if (st == RP_OK) {
        put_page(out);
        st = cli_close_output(file, RP_OK);
    }
    return cli_exit(st);
}

static const Option options[] = {
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "write to a file instead of standard output"),
};

const Command cli_command_man = {.name      = "man",
                                 .help      = "print the manual page",
                                 .usage     = "[options]",
                                 .notes     = "To read it: reprise man | man -l -",
                                 .options   = options,
                                 .n_options = sizeof options / sizeof options[0],
                                 .run       = run};
