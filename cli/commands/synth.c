/* synth.c - `reprise synth`: writes a model of random weights in the shape of a real one, to measure speed without
 * a download. `synth list` prints the shapes. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/convert.h"
#include "cli/terminal/table.h"

#include <string.h>

static struct {
    const char *preset, *type, *output;
    uint64_t    seed;
    bool        quiet, mtp, pure;
} args = {.type = "Q8_0"};

static int run(void) {
    if (strcmp(args.preset, "list") == 0) {
        Table *t = cli_table_new("|");
        for (int i = 0; rp_synth_preset_name(i) != NULL; i++) {
            cli_table_add(t, "%s", rp_synth_preset_name(i));
            cli_table_add(t, "%s", rp_synth_preset_help(i));
        }
        return cli_exit(cli_table_print(t, stdout, 2));
    }
    if (args.output == NULL) {
        cli_say("reprise synth", "-o FILE is needed (see `reprise synth --help`)");
        return EXIT_USAGE;
    }
    Progress             p = {.label = args.preset, .off = args.quiet};
    const RpSynthOptions o = {.type     = args.type,
                              .seed     = args.seed,
                              .progress = cli_convert_progress,
                              .user     = &p,
                              .mtp      = args.mtp,
                              .pure     = args.pure};
    cli_catch_termination();
    cli_clean_output(args.output);
    const RpStatus st = rp_synth(args.preset, &o, args.output);
    return cli_convert_done(st, args.output, args.quiet, &p);
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_NONE, args.preset, "PRESET", "the shape of the model; `list` prints all presets"),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "path of the file to write"),
    CLI_TEXT("type", 0, args.type, "TYPE", "type of the weights, default Q8_0; see `reprise help quantize`"),
    CLI_SEED("seed", 's', args.seed, "S", "seed of the random numbers, default 0"),
    CLI_FLAG("pure", 0, args.pure, "one type for all matrices, the output matrix too"),
    CLI_FLAG("mtp", 0, args.mtp, "with a further layer that predicts further tokens (MTP)"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_synth = {
    .name      = "synth",
    .help      = "write a model of random weights in the shape of a real one",
    .usage     = "PRESET -o FILE [options]",
    .notes     = "For measurements of launches and speed, where the text does not matter. Weights are "
                 "made row by row, in less than 32 MB of memory. The same seed gives the same file.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
