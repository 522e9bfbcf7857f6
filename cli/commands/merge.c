/* merge.c - `reprise merge`: writes a model with LoRA adapters added into its weights: W + s * B A with
 * s = SCALE * alpha / rank for each adapted matrix, rounded to the type of the output. The file needs no adapter and
 * runs as fast as the base. */
#include "cli/commands.h"
#include "cli/convert.h"

static struct {
    const char *model, *output, *type;
    DeviceArgs  device;
    bool        quiet;
} args;

static int run(void) {
    Progress p = {.label = "merging", .off = args.quiet};
    RpModel *m = NULL;
    if (args.device.adapters.n == 0 || args.output == NULL) {
        cli_say("reprise merge", "--lora FILE and -o OUT are needed (see `reprise merge --help`)");
        return EXIT_USAGE;
    }
    cli_catch_termination();
    cli_clean_output(args.output);
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = rp_merge_adapters(m, args.output, args.type, cli_convert_progress, &p);
    rp_model_free(m);
    return cli_convert_done(st, args.output, args.quiet, &p);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    OPTION_LORA(args.device.adapters),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "OUT", "path of the file to write"),
    CLI_TEXT("type", 0, args.type, "TYPE",
             "type of the matrices that are changed: F16, Q8_0, ...; default: as they are, which rounds again"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_merge = {.name      = "merge",
                                   .help      = "write a model with LoRA adapters added into its weights",
                                   .usage     = "[MODEL] --lora FILE[:SCALE] -o OUT [options]",
                                   .options   = options,
                                   .n_options = sizeof options / sizeof options[0],
                                   .run       = run};
