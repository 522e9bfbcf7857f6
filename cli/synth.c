#include "cli/commands.h"
#include "cli/common.h"
#include "cli/convert.h"

#include <string.h>

static struct {
    const char *preset, *type, *output;
    uint64_t    seed;
    bool        quiet;
} args = {.type = "Q8_0"};

static int run(void) {
    if (strcmp(args.preset, "list") == 0) {
        for (int i = 0; rp_synth_preset_name(i) != NULL; i++)
            printf("  %-14s %s\n", rp_synth_preset_name(i), rp_synth_preset_help(i));
        return EXIT_OK;
    }
    if (args.output == NULL) {
        cli_say("reprise synth", "-o FILE is needed (see `reprise synth --help`)");
        return EXIT_USAGE;
    }
    Progress           p = {.what = args.preset, .off = args.quiet};
    const SynthOptions o = {
        .type = args.type, .seed = args.seed, .progress = cli_convert_progress, .user = &p};
    cli_catch_interrupts();
    const RpStatus st = rp_synth(args.preset, &o, args.output);
    return cli_convert_done(st, args.output, args.quiet, &p);
}

static const Option options[] = {
    CLI_ARGUMENT(args.preset, "PRESET", "the shape; `list` prints those there are"),
    CLI_TEXT("output", 'o', args.output, "FILE", "where the model goes"),
    CLI_TEXT("type", 0, args.type, "TYPE", "of the weights, default Q8_0; Q4_K_M and Q5_K_M are mixes"),
    CLI_SEED("seed", 's', args.seed, "S", "of the random numbers, default 0"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_synth = {
    .name  = "synth",
    .help  = "write a model of random weights in the shape of a real one",
    .usage = "PRESET -o FILE [options]",
    .notes = "For launch counts and speed, where what the model says does not matter. One row of weights is "
             "in memory\n"
             "at a time: less than 32 MB in all. The same seed gives the same file.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
