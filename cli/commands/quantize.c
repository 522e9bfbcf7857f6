/* quantize.c - `reprise quantize`: writes a model file with its weights in another type. The work is rp_requantize
 * (reprise/convert.h). */
#include "cli/commands.h"
#include "cli/convert.h"

static struct {
    const char *input, *output, *type;
    bool        quiet;
} args;

static int run(void) {
    Progress p = {.label = "converting", .off = args.quiet};
    if (args.type == NULL) {
        cli_say("reprise quantize", "--type TYPE is needed (see `reprise quantize --help`)");
        return EXIT_USAGE;
    }
    cli_catch_termination();
    cli_clean_output(args.output);
    const RpStatus st = rp_requantize(args.input, args.output, args.type, cli_convert_progress, &p);
    return cli_convert_done(st, args.output, args.quiet, &p);
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_READ, args.input, "IN", "a GGUF file of f32, f16 or bf16 weights"),
    CLI_ARGUMENT(FILE_WRITTEN, args.output, "OUT", "path of the file to write"),
    CLI_TEXT("type", 0, args.type, "TYPE", "type of the weights: F16, Q8_0, Q4_K_M, ..."),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_quantize = {.name      = "quantize",
                                      .help      = "write a model's weights in another type",
                                      .usage     = "IN OUT --type TYPE [options]",
                                      .notes     = "Types: {TYPE}. The last two are quantisation mixes. "
                                                   "Matrices beside experts in MXFP4 are Q8_0. Vectors and routers "
                                                   "stay F32. OUT appears when it is complete.",
                                      .options   = options,
                                      .n_options = sizeof options / sizeof options[0],
                                      .run       = run};
