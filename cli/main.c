/* main.c - entry point of `reprise`. Finds the command that argv[1] names, or argv[1] and argv[2] together ("bench
 * launches"), parses its options and runs it. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/options/help.h"
#include "cli/options/parse.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int version(void) {
    int n_devices;
    printf("reprise %s\nCUDA toolkit: %s\n", RP_VERSION, RP_CUDA_TOOLKIT[0] != '\0' ? RP_CUDA_TOOLKIT : "none");
    if (rp_cuda_probe(&n_devices) == RP_OK)
        printf("CUDA devices: %d\n", n_devices);
    else
        printf("CUDA devices: none (%s)\n", rp_last_error());
    printf("CPU kernels: %s\n", rp_cpu_isa_name(rp_cpu_isa()));
    return EXIT_OK;
}

/* The command of this name, one word or two; NULL if there is none. */
static const Command *exact_command(const char *name) {
    for (size_t i = 0; i < CLI_N_COMMANDS; i++)
        if (strcmp(name, cli_commands[i]->name) == 0) return cli_commands[i];
    return NULL;
}

/* The command whose name is closest to a mistyped one; NULL if none is close. */
static const char *nearest_command(const char *name) {
    const char *names[CLI_N_COMMANDS];
    for (size_t i = 0; i < CLI_N_COMMANDS; i++) names[i] = cli_commands[i]->name;
    return cli_nearest(name, names, CLI_N_COMMANDS);
}

/* As exact_command, but says on stderr why there is none. `reprise model.gguf` is a common slip, so a file gets a
 * hint of its own. */
static const Command *find_command(const char *name) {
    const Command *c = exact_command(name);
    if (c != NULL) return c;
    const char *nearest = nearest_command(name);
    if (access(name, F_OK) == 0 && strchr(name, '.') != NULL)
        cli_say("reprise", "a command comes before the model: reprise chat %s (see `reprise --help`)", name);
    else if (nearest != NULL)
        cli_say("reprise", "unknown command `%s`, did you mean `%s`?", name, nearest);
    else
        cli_say("reprise", "unknown command `%s` (see `reprise --help`)", name);
    return NULL;
}

/* True if `second` is not a file, but close to the second word of a command, as in "bench lauches". */
static bool is_mistyped(const char *first, const char *second) {
    const char  *names[CLI_N_COMMANDS];
    const size_t length = strlen(first);
    size_t       n      = 0;
    for (size_t i = 0; i < CLI_N_COMMANDS; i++)
        if (strncmp(cli_commands[i]->name, first, length) == 0 && cli_commands[i]->name[length] == ' ')
            names[n++] = cli_commands[i]->name + length + 1;
    const char *nearest = cli_nearest(second, names, n);
    if (nearest == NULL || access(second, F_OK) == 0) return false;
    cli_say("reprise", "%s: no such file; did you mean `reprise %s %s`?", second, first, nearest);
    return true;
}

/* Loads the plugins of REPRISE_PLUGINS, then those of --plugin. A name without a folder is a file of this one. */
static RpStatus load_plugin(const char *path, size_t length) {
    char      whole[4096];
    const int n =
        snprintf(whole, sizeof whole, "%s%.*s", memchr(path, '/', length) != NULL ? "" : "./", (int)length, path);
    if (n < 0 || (size_t)n >= sizeof whole) return rp_fail(RP_E_ARG, "the path of a plugin is too long");
    return rp_plugin_load(whole);
}

static RpStatus load_plugins(void) {
    for (const char *at = rp_option(RP_OPT_PLUGINS); *at != '\0';) {
        const size_t length = strcspn(at, ":");
        if (length > 0) RP_TRY(load_plugin(at, length));
        at += length + (at[length] == ':');
    }
    for (size_t i = 0; i < cli_plugins.n; i++) RP_TRY(load_plugin(cli_plugins.items[i], strlen(cli_plugins.items[i])));
    return RP_OK;
}

/* Runs the command in the trace of --trace. REPRISE_TRACE, which the library looks at, ends here too: a trace that was
 * lost is a failure. */
static int run_traced(const Command *c) {
    RpStatus st = load_plugins();
    if (st == RP_OK && cli_trace != NULL) st = rp_trace_begin(cli_trace);
    if (st != RP_OK) return cli_exit(st);
    const int code = c->run();
    st             = rp_trace_end();
    return st == RP_OK ? code : code == EXIT_OK ? cli_exit(st) : (cli_exit(st), code);
}

/* Returns the exit status. */
static int run_command(const Command *c, int argc, char *argv[]) {
    switch (cli_parse(c, argc, argv)) {
    case PARSE_RUN:
        return run_traced(c);
    case PARSE_HELP:
        cli_help(c);
        return EXIT_OK;
    case PARSE_FAILED:
        return EXIT_ERROR;
    case PARSE_ERROR:
        break;
    }
    return EXIT_USAGE;
}

/* argv[0] is the command; argv has neither the name of the program nor --color. `help NAME` is `NAME --help`. */
static int run(int argc, char *argv[]) {
    if (argc < 1) {
        cli_say("reprise", "no command is given. A first one: reprise generate -p \"Once upon a time\" (see "
                           "`reprise --help`)");
        return EXIT_USAGE;
    }
    const char *name       = argv[0];
    const bool  wants_help = strcmp(name, "help") == 0;
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) return version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (wants_help && argc == 1)) {
        cli_help_program();
        return EXIT_OK;
    }
    char           both[64];
    int            words = 1;
    const Command *c     = NULL;
    if (argc > 1 + wants_help) { /* two words first: `bench launches` before `bench` */
        snprintf(both, sizeof both, "%s %s", argv[wants_help], argv[1 + wants_help]);
        c = exact_command(both);
        if (c != NULL)
            words = 2;
        else if (is_mistyped(argv[wants_help], argv[1 + wants_help]))
            return EXIT_USAGE;
    }
    if (c == NULL) c = find_command(argv[wants_help]);
    if (c == NULL) return EXIT_USAGE;
    if (!wants_help) return run_command(c, argc - words, argv + words);
    if (argc > 1 + words) {
        cli_say("reprise help", "`%s` follows the command `%s` (see `reprise --help`)", argv[1 + words], c->name);
        return EXIT_USAGE;
    }
    cli_help(c);
    return EXIT_OK;
}

/* Opens standard streams that are closed, so that no other file gets their number: a read finds the end of the file, a
 * write fails. */
static void open_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDONLY);
}

/* SIGBUS comes if another process made the mapped model file shorter. The first thread that reads a lost page prints a
 * message and ends the process by the same signal, as without a handler. Other threads wait in pause() meanwhile. Only
 * functions that are safe in a signal handler are called. */
static void on_bus_error(int signal_number) {
    static atomic_flag told   = ATOMIC_FLAG_INIT;
    static const char  text[] = "reprise: a page of a mapped file cannot be read: did the model file become "
                                "shorter? With --no-mmap it "
                                "is read into memory\n";
    while (atomic_flag_test_and_set(&told)) pause();
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

int main(int argc, char *argv[]) {
    cli_start_clock();
    open_standard_streams();
    setlocale(LC_CTYPE, "");  /* the line editor of `chat` reads UTF-8 */
    signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe then fails with EPIPE */
    signal(SIGXFSZ, SIG_IGN); /* and one beyond the limit of file sizes with EFBIG */
    signal(SIGBUS, on_bus_error);
    const int color = cli_parse_color(argc - 1, argv + 1);
    return cli_close_stdout(color < 0 ? EXIT_USAGE : run(argc - 1 - color, argv + 1 + color));
}
