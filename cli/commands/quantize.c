/* quantize.c - `reprise quantize`: writes a model file with its weights in another type. The work is rp_requantize
 * (reprise/convert.h). */
#include "cli/commands.h"
#include "cli/convert.h"

#include <sys/stat.h>

static struct {
    const char *input, *output, *type;
    bool        quiet;
} args;

/* A file that is not one is reported by the conversion. */
static void warn_of_quantised(void) {
    RpGgufFile *f;
    const char *type = NULL;
    int64_t     n    = 0;
    struct stat info;
    if (stat(args.input, &info) != 0 || !S_ISREG(info.st_mode)) return; /* directories have no such types */
    if (rp_gguf_open(args.input, &f) != RP_OK) return;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (!t->known || !rp_dtype_is_quant(t->view.dtype)) continue;
        if (n++ == 0) type = rp_gguf_type_name(t->gguf_type);
    }
    if (n > 0)
        cli_warn(
            "%s is quantised (%lld tensors, the first is %s): what that has lost is lost a second time; convert the "
            "file of floats instead",
            args.input, (long long)n, type);
    rp_gguf_close(f);
}

static int run(void) {
    Progress p = {.label = "converting", .off = args.quiet};
    if (args.type == NULL) {
        cli_say("reprise quantize", "--type TYPE is needed (see `reprise quantize --help`)");
        return EXIT_USAGE;
    }
    warn_of_quantised();
    cli_catch_termination();
    cli_clean_output(args.output);
    const RpStatus st = rp_requantize(args.input, args.output, args.type, cli_convert_progress, &p);
    return cli_convert_done(st, args.output, args.quiet, &p);
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_READ, args.input, "IN", "a GGUF file or a Hugging Face directory"),
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
