/* Draws the curves of a training as SVG, for light and dark pages: no background, and colours that both carry.
 *
 *     loss of each step, thin; smoothed by the mean over a fiftieth of the steps; validation, with points
 *     below: balance of the experts, thin and smoothed
 *
 * Curves of more points than pixels are drawn as the means of pixels. */
#include "cli/train/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 52, LOSS_HEIGHT = 320, GAP = 44, BALANCE_HEIGHT = 130, BOTTOM = 48 };

enum { SMOOTHED = 100 }; /* least points of a curve that is drawn smoothed too */

typedef struct Sum { /* of all points before one; points that are no numbers do not count */
    long double y;
    size_t      n;
} Sum;

/* The mean of the neighbours, a hundredth of the points on each side, as far as they exist. */
static RpStatus smooth(const Curve *c, Curve *out) {
    const size_t half = c->n / 100;
    Sum         *sums = malloc((c->n + 1) * sizeof *sums);
    *out              = (Curve){.points = malloc((c->n + 1) * sizeof *out->points), .n = c->n};
    if (out->points == NULL || sums == NULL) {
        free(out->points);
        free(sums);
        return rp_fail(RP_E_NOMEM, "out of memory for a curve of %zu points", c->n);
    }
    sums[0] = (Sum){0};
    for (size_t i = 0; i < c->n; i++) {
        const bool counts = isfinite(c->points[i].y);
        sums[i + 1]       = (Sum){sums[i].y + (long double)(counts ? c->points[i].y : 0.0), sums[i].n + counts};
    }
    for (size_t i = 0; i < c->n; i++) {
        const size_t from = i < half ? 0 : i - half, end = i + half < c->n ? i + half + 1 : c->n;
        const size_t n = sums[end].n - sums[from].n;
        const double y = n > 0 ? (double)((sums[end].y - sums[from].y) / (long double)n) : (double)NAN;
        out->points[i] = (Point){c->points[i].x, y};
    }
    free(sums);
    return RP_OK;
}

/* NULL: no value is a number. */
static const Point *lowest(const Curve *c) {
    const Point *p = NULL;
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(c->points[i].y) && (p == NULL || c->points[i].y < p->y)) p = &c->points[i];
    return p;
}

/* ---- the picture ---- */

static void put_legend(const TrainCurves *c, double y, FILE *f) {
    char         text[96];
    double       right = PLOT_WIDTH - PLOT_RIGHT;
    const Point *least = lowest(&c->validation);
    if (least != NULL) {
        const bool plain = fabs(least->y) >= 1e-3 && fabs(least->y) < 1e6;
        snprintf(text, sizeof text,
                 plain ? "validation: lowest %.3f at step %.0f" : "validation: lowest %.3g at step %.0f", least->y,
                 least->x);
        right = cli_plot_key(right, y, "validation", text, f);
    }
    snprintf(text, sizeof text, "mean of %zu steps", 2 * (c->loss.n / 100) + 1);
    if (c->loss.n >= SMOOTHED) right = cli_plot_key(right, y, "smoothed", text, f);
    cli_plot_key(right, y, c->loss.n >= SMOOTHED ? "loss" : "smoothed", "each step", f);
}

static void put_losses(const TrainCurves *c, const Curve *smoothed, double x_hi, bool labels, FILE *f) {
    Panel p = {.top = TOP, .height = LOSS_HEIGHT, .lo = HUGE_VALL, .hi = -HUGE_VALL, .x_hi = x_hi};
    cli_plot_widen(&c->loss, &p);
    cli_plot_widen(&c->validation, &p);
    cli_plot_round_range(&p, 8.0L);
    cli_plot_grid_y(&p, 8.0L, f);
    cli_plot_grid_x(&p, labels, f);
    cli_plot_title(&p, "loss, nats per token", f);
    if (c->loss.n >= SMOOTHED) cli_plot_curve(&p, &c->loss, "loss", f);
    cli_plot_curve(&p, smoothed, "smoothed", f);
    cli_plot_curve(&p, &c->validation, "validation", f);
    cli_plot_points(&p, &c->validation, "dot", f);
    put_legend(c, p.top - 10.0, f);
}

/* The lower panel. Its range includes 1, the balance of equal loads, which is drawn as a dashed line. */
static RpStatus put_balance(const TrainCurves *c, double x_hi, FILE *f) {
    Curve smoothed;
    Panel p = {.top = TOP + LOSS_HEIGHT + GAP, .height = BALANCE_HEIGHT, .lo = 1.0L, .hi = 1.0L, .x_hi = x_hi};
    RP_TRY(smooth(&c->balance, &smoothed));
    cli_plot_widen(&c->balance, &p);
    cli_plot_round_range(&p, 4.0L);
    cli_plot_grid_y(&p, 4.0L, f);
    cli_plot_grid_x(&p, true, f);
    cli_plot_title(&p, "balance: largest load of an expert, times their number", f);
    if (c->balance.n >= SMOOTHED) cli_plot_curve(&p, &c->balance, "balance", f);
    cli_plot_curve(&p, &smoothed, "smoothed", f);
    const Curve even = {
        .points = (Point[]){{0.0, 1.0}, {x_hi, 1.0}},
        .n      = 2,
    };
    cli_plot_curve(&p, &even, "even", f);
    cli_plot_key(PLOT_WIDTH - PLOT_RIGHT, p.top - 10.0, "even", "1: every expert has the same load", f);
    free(smoothed.points);
    return RP_OK;
}

static double last_step(const Curve *c) { return c->n > 0 ? c->points[c->n - 1].x : 0.0; }

RpStatus cli_train_plot(const TrainCurves *c, const char *title, FILE *f) {
    const bool   experts = c->balance.n > 0;
    const int    height  = TOP + LOSS_HEIGHT + (experts ? GAP + BALANCE_HEIGHT : 0) + BOTTOM;
    const double x_hi    = fmax(last_step(&c->loss), fmax(last_step(&c->validation), last_step(&c->balance)));
    Curve        smoothed;
    cli_plot_head(height, f);
    fputs("<title>", f);
    RP_TRY(cli_plot_escaped(title, f));
    fputs("</title>\n", f);
    RP_TRY(smooth(&c->loss, &smoothed));
    put_losses(c, &smoothed, x_hi, !experts, f);
    free(smoothed.points);
    if (experts) RP_TRY(put_balance(c, x_hi, f));
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n</svg>\n",
            (PLOT_LEFT + PLOT_WIDTH - PLOT_RIGHT) / 2, height - 10);
    return RP_OK;
}
