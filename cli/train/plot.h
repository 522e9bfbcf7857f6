/* plot.h - the curves of a training log: reading (log_read.c) and drawing (plot.c). */
#ifndef CLI_TRAIN_PLOT_H
#define CLI_TRAIN_PLOT_H

#include "cli/common.h"
#include "cli/plot/axes.h"

typedef struct TrainCurves {
    Curve loss, validation, balance;
} TrainCurves;

/* Values may be null, NaN or infinite, the latter two as printf or Python spell them. RP_E_FORMAT names file and line;
 * RP_E_ARG for a log without steps. The caller frees what was read, also on failure. */
RP_NODISCARD RpStatus cli_train_log_read(const char *path, TrainCurves *out);
void                  cli_train_curves_free(TrainCurves *c);

/* Writes an SVG picture: losses, and below them the balance if there is one. */
RP_NODISCARD RpStatus cli_train_plot(const TrainCurves *c, const char *title, FILE *out);

#endif
