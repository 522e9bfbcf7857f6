/* main.c - entry point of `reprise`. Finds the command that argv[1] names, or argv[1] and argv[2] together ("bench
 * launches"), parses its options and runs it. Also prints the general help and the version. */
#include "cli/commands.h"
#include "cli/common.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const Command *const commands[] = {
#define X(name) &cli_command_##name,
    COMMANDS(X)
#undef X
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int help(void) {
    puts("reprise " RP_VERSION ": decode language models one token at a time\n\n"
         "  reprise COMMAND [options]      `reprise help COMMAND` lists its options\n");
    for (size_t i = 0; i < N_COMMANDS; i++) printf("  %-15s %s\n", commands[i]->name, commands[i]->help);
    puts("  help            this text, or the help of a command\n"
         "  --version       version, CUDA toolkit and devices, instruction set of the CPU kernels\n\n"
         "Environment:");
    for (int i = 0; i < RP_OPT_COUNT; i++) {
        const char *value = rp_option_default((RpOption)i);
        printf("  %-17s %s", rp_option_name((RpOption)i), rp_option_help((RpOption)i));
        printf(value[0] != '\0' ? " (default %s)\n" : "\n", value);
    }
    printf("\nArchitectures:");
    for (int i = 0; rp_arch_name(i) != NULL; i++) printf(" %s", rp_arch_name(i));
    puts("\nExit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted");
    return EXIT_OK;
}

static int version(void) {
    int n_devices;
    printf("reprise %s\nCUDA toolkit: %s\n", RP_VERSION,
           RP_CUDA_TOOLKIT[0] != '\0' ? RP_CUDA_TOOLKIT : "none");
    if (rp_cuda_probe(&n_devices) == RP_OK)
        printf("CUDA devices: %d\n", n_devices);
    else
        printf("CUDA devices: none (%s)\n", rp_last_error());
    printf("CPU kernels: %s\n", rp_cpu_isa_name(rp_cpu_isa()));
    return EXIT_OK;
}

static const Command *exact_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0) return commands[i];
    return NULL;
}

static const Command *find_command(const char *name) {
    const char    *names[N_COMMANDS];
    const Command *c = exact_command(name);
    if (c != NULL) return c;
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i]->name;
    const char *nearest = cli_nearest(name, names, N_COMMANDS);
    if (nearest != NULL)
        cli_say("reprise", "unknown command `%s`, did you mean `%s`?", name, nearest);
    else
        cli_say("reprise", "unknown command `%s` (see `reprise --help`)", name);
    return NULL;
}

static int run_command(const Command *c, int argc, char *argv[]) {
    switch (cli_parse(c, argc, argv)) {
    case PARSE_RUN:
        return c->run();
    case PARSE_HELP:
        cli_help(c);
        return EXIT_OK;
    case PARSE_ERROR:
        break;
    }
    return EXIT_USAGE;
}

static int run(int argc, char *argv[]) {
    if (argc < 2) {
        cli_say("reprise", "no command is given (see `reprise --help`)");
        return EXIT_USAGE;
    }
    const char *name       = argv[1];
    const bool  wants_help = strcmp(name, "help") == 0;
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) return version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (wants_help && argc == 2)) return help();
    char           both[64];
    int            words = 1;
    const Command *c     = NULL;
    if (argc > 2 + wants_help) { /* two words first: `bench launches` before `bench` */
        snprintf(both, sizeof both, "%s %s", argv[1 + wants_help], argv[2 + wants_help]);
        c = exact_command(both);
        if (c != NULL) words = 2;
    }
    if (c == NULL) c = find_command(wants_help ? argv[2] : name);
    if (c == NULL) return EXIT_USAGE;
    if (!wants_help) return run_command(c, argc - 1 - words, argv + 1 + words);
    cli_help(c);
    return EXIT_OK;
}

int main(int argc, char *argv[]) {
    cli_start_clock();
    signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe then fails with EPIPE */
    return cli_close_stdout(run(argc, argv));
}
