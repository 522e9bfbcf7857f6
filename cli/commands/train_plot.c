/* train_plot.c - `reprise train plot`: draws the log of a training as SVG. log_read.c reads the log, plot.c draws. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/train/plot.h"

static struct { const char *log, *output; } args;

static RpStatus plot(void) {
    TrainCurves curves;
    RpNewFile  *file;
    FILE       *out;
    RpStatus    st = cli_train_log_read(args.log, &curves);
    if (st == RP_OK) st = cli_open_output(args.output, &file, &out);
    if (st == RP_OK) st = cli_close_output(file, cli_train_plot(&curves, args.log, out));
    cli_train_curves_free(&curves);
    return st;
}

static int run(void) { return cli_exit(plot()); }

static const Option options[] = {
    CLI_ARGUMENT(FILE_READ, args.log, "FILE", "the log that `reprise train --log` wrote; -: standard input"),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.output, "FILE", "write to a file instead of standard output"),
};

const Command cli_command_train_plot = {
    .name      = "train plot",
    .help      = "draw the log of a training as a picture",
    .usage     = "FILE [-o FILE]",
    .notes     = "The picture is SVG: the loss of each step, smoothed, and of validations; below them "
                 "the balance of the experts. Values that are no numbers (null, NaN, inf) leave gaps.\n"
                 "The log has a line of JSON for each step, with step, loss, aux_loss, grad_norm, lr, "
                 "tok_s, and for a mixture of experts balance and expert_load, one array of shares for "
                 "each layer. Validations are lines with step, validation_loss and sequences.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
