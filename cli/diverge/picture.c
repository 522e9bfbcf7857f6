/* picture.c - a comparison as a plot and as a drawing of the graph. */
#include "cli/diverge/report.h"
#include "cli/nodes.h"
#include "cli/plot/axes.h"

#include <math.h>
#include <stdlib.h>

enum { TOP = 52, HEIGHT = 320, BOTTOM = 48 };

/* Powers of ten; a layer without a difference has none. */
static double power_of(const NodeDifference *d) {
    const double relative = cli_relative(d);
    return relative > 0.0 && isfinite(relative) ? log10(relative) : (double)NAN;
}

RpStatus cli_diverge_svg(const Divergence *w, FILE *f) {
    const int n_layer = rp_model_info(w->a->model)->n_layer;
    Curve     c       = {.points = malloc(((size_t)n_layer + 1) * sizeof *c.points)};
    Panel     p       = {.top = TOP, .height = HEIGHT, .lo = HUGE_VALL, .hi = -HUGE_VALL, .x_hi = n_layer - 1};
    if (c.points == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a curve of %d points", n_layer);
    for (int l = 0; l < n_layer; l++) {
        const int i = cli_walk_end_of_layer(w, l);
        if (i >= 0) c.points[c.n++] = (Point){l, power_of(&w->d[i])};
    }
    cli_plot_widen(&c, &p);
    if (p.hi >= p.lo) p.hi = fmaxl(ceill(p.hi), floorl(p.lo) + 1.0L), p.lo = floorl(p.lo);
    cli_plot_round_range(&p, 8.0L);
    cli_plot_head(TOP + HEIGHT + BOTTOM, f);
    fputs("<title>", f);
    RpStatus st = cli_plot_escaped(w->name_a, f);
    if (st == RP_OK) fputs(" and ", f), st = cli_plot_escaped(w->name_b, f);
    fputs("</title>\n", f);
    cli_plot_grid_y(&p, 8.0L, f);
    cli_plot_grid_x(&p, true, f);
    cli_plot_title(&p, "difference of the residual stream, relative, as a power of ten", f);
    cli_plot_curve(&p, &c, "smoothed", f);
    cli_plot_points(&p, &c, "dot", f);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">layer</text>\n</svg>\n",
            (PLOT_LEFT + PLOT_WIDTH - PLOT_RIGHT) / 2, TOP + HEIGHT + BOTTOM - 10);
    free(c.points);
    return st;
}

/* From one rounding of f32 (pale) to a difference as large as the values (deep red). */
static double heat_of(const NodeDifference *d) {
    enum { LOWEST = -8 };
    const double power = power_of(d);
    if (d->n_differ == 0 || isnan(power)) return d->n_differ == 0 ? -1.0 : 1.0;
    return fmin(fmax((power - LOWEST) / -LOWEST, 0.05), 1.0);
}

RpStatus cli_diverge_dot(const Divergence *w, FILE *f) {
    const ComputeGraph *g     = w->a->now->graph;
    RpDumpNote         *notes = cli_new_notes(g);
    if (notes == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a drawing");
    for (int i = 0; i < w->list.n; i++) {
        const NodeDifference *d    = &w->d[i];
        RpDumpNote           *note = &notes[rp_node_number(w->list.items[i].node)];
        if (!d->compared) continue;
        note->heat = heat_of(d);
        if (d->n_differ == 0)
            snprintf(note->text, sizeof note->text, "same bits");
        else
            snprintf(note->text, sizeof note->text, "%srelative %.2g, %zu of %zu", i == w->first ? "FIRST: " : "",
                     cli_relative(d), d->n_differ, d->n);
    }
    const RpStatus st =
        rp_graph_dump(g, &(RpDumpOptions){.format = RP_DUMP_DOT, .title = w->name_a, .notes = notes}, f);
    free(notes);
    return st;
}
