/* help.c - prints options and their descriptions in two columns:
 *
 *     -t, --threads N   worker threads; 0 (default):
 *                       REPRISE_THREADS, or one per core
 *
 * In a narrow window the description is below its option. */
#include "cli/options/help.h"

#include "cli/commands.h"
#include "cli/options/parse.h"
#include "cli/options/values.h"
#include "cli/terminal/style.h"
#include "reprise/reprise.h"

#include <string.h>

enum { WIDTH = 80, MAX_WIDTH = 100, MAX_LEFT = 26, LEAST_RIGHT = 30 };

typedef struct Page {
    int width, left; /* columns of the page and of the left part */
} Page;

static int page_width(void) {
    const int columns = cli_columns(stdout);
    return columns == 0 ? WIDTH : columns > MAX_WIDTH ? MAX_WIDTH : columns;
}

/* Makes room for a text on the left; longer ones have a line of their own. */
static void measure(Page *p, const char *text) {
    const int width = cli_text_width(text);
    if (width > p->left && width <= MAX_LEFT) p->left = width;
}

/* Prints an option and its help. The help begins on its own line if the option is too long, or the window too
 * narrow. */
static void put_row(const Page *p, const char *left, const char *right) {
    const int width = cli_text_width(left), wide = p->width - p->left - 4 >= LEAST_RIGHT,
              indent = wide ? p->left + 4 : 6;
    const bool below = width > p->left || !wide;
    printf("  %s", left);
    printf(below ? "\n%*s" : "%*s", below ? indent : p->left - width + 2, "");
    cli_wrap(stdout, right, indent, indent, p->width);
}

static void put_heading(const char *text) {
    printf("%s%s%s\n", cli_style(stdout, STYLE_HEADING), text, cli_style(stdout, STYLE_PLAIN));
}

static void put_paragraph(const Page *p, const char *text) { cli_wrap(stdout, text, 0, 0, p->width); }

/* Prints each line of the notes as a paragraph; those that begin with a space as they are. */
static void put_notes(const Page *p, const char *notes) {
    char line[1024];
    while (cli_next_note(&notes, line, sizeof line)) {
        if (line[0] == ' ')
            puts(line);
        else
            put_paragraph(p, line);
    }
}

/* "-m, --model MODEL", "    --json", or the name of a positional argument. */
static const char *option_text(const Option *o, char *buf, size_t size) {
    char letter[8] = "    ";
    if (o->letter != 0) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    if (o->name == NULL)
        snprintf(buf, size, "%s", o->arg);
    else
        snprintf(buf, size, "%s--%s%s%s", letter, o->name, o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
    return buf;
}

/* Called twice for each page: first to measure the left column, then to print. */
static void put_options(Page *p, const Option *options, size_t n, bool only_measure) {
    char text[64];
    for (size_t i = 0; i < n; i++) {
        option_text(&options[i], text, sizeof text);
        if (only_measure)
            measure(p, text);
        else
            put_row(p, text, options[i].help);
    }
}

void cli_help(const Command *c) {
    Page p = {.width = page_width()};
    char usage[256];
    snprintf(usage, sizeof usage, "reprise %s %s", c->name, c->usage);
    printf("%s", cli_style(stdout, STYLE_HEADING));
    cli_wrap(stdout, usage, 0, 4, p.width);
    printf("%s\n", cli_style(stdout, STYLE_PLAIN));
    put_paragraph(&p, c->help);
    putchar('\n');
    for (int only_measure = 1; only_measure >= 0; only_measure--) {
        put_options(&p, c->options, c->n_options, only_measure);
        put_options(&p, cli_common_options, N_COMMON_OPTIONS, only_measure);
    }
    if (c->notes != NULL) putchar('\n');
    if (c->notes != NULL) put_notes(&p, c->notes);
}

/* Every option of the library (reprise/options.h) with its default. */
static void put_environment(void) {
    Page p = {.width = page_width()};
    char text[256];
    put_heading("Environment");
    for (int i = 0; i < RP_OPT_COUNT; i++) measure(&p, rp_option_name((RpOption)i));
    for (int i = 0; i < RP_OPT_COUNT; i++) {
        const char *value = rp_option_default((RpOption)i);
        snprintf(text, sizeof text, value[0] != '\0' ? "%s (default %s)" : "%s", rp_option_help((RpOption)i), value);
        put_row(&p, rp_option_name((RpOption)i), text);
    }
    put_row(&p, "NO_COLOR", "no colours, if it is set and not empty");
}

void cli_help_program(void) {
    Page   p          = {.width = page_width()};
    char   archs[512] = "";
    size_t n          = 0;
    put_paragraph(&p, "reprise " RP_VERSION ": decode language models one token at a time");
    puts("");
    puts("  reprise COMMAND [MODEL] [options]\n");
    put_paragraph(&p, "`reprise help COMMAND` lists the options of a command. Without MODEL the demo model runs.");
    puts("");
    put_heading("Commands");
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) measure(&p, cli_commands[i]->name);
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) put_row(&p, cli_commands[i]->name, cli_commands[i]->help);
    put_row(&p, "help", "this text, or the help of a command");
    put_row(&p, "--version", "version, CUDA toolkit and devices, instruction set of the CPU kernels");
    put_row(&p, "--color WHEN", cli_common_options[0].help);
    puts("");
    put_environment();
    for (int i = 0; rp_arch_name(i) != NULL && n < sizeof archs; i++)
        n += (size_t)snprintf(archs + n, sizeof archs - n, " %s", rp_arch_name(i));
    puts("");
    put_heading("Architectures");
    printf("  ");
    cli_wrap(stdout, archs, 2, 2, p.width);
    puts("");
    put_paragraph(&p, "Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted, 143 terminated");
}
