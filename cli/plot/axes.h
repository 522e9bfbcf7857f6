/* axes.h - panels of a picture in SVG, for light and dark pages: no background, and colours that both carry. */
#ifndef CLI_PLOT_AXES_H
#define CLI_PLOT_AXES_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PLOT_WIDTH = 960, PLOT_LEFT = 64, PLOT_RIGHT = 24 };

typedef struct Point {
    double x, y; /* y: NaN for a value that is no finite number */
} Point;

typedef struct Curve { /* x rises */
    Point *points;
    size_t n, room;
} Curve;

/* A panel: pixels, and the values at its ends. They are long double, so that neither the difference of two values nor a
 * sum of many overflows. */
typedef struct Panel {
    double      top, height;
    long double lo, hi;
    double      x_hi; /* the first step is 0 */
} Panel;

/* The head of a picture and the classes of its elements: grid, axis, loss, smoothed, validation, balance, dot, even. */
void cli_plot_head(int height, FILE *f);

/* Writes any bytes as a text of XML. RP_E_NOMEM. */
RP_NODISCARD RpStatus cli_plot_escaped(const char *text, FILE *f);

/* Widens the range of a panel to the values of a curve; the empty range is lo = HUGE_VALL, hi = -HUGE_VALL. */
void cli_plot_widen(const Curve *c, Panel *p);

/* Makes room above and below the values, up to the next of about n lines of the grid. */
void cli_plot_round_range(Panel *p, long double n);

/* The grid: about n lines; lines at whole steps, with their numbers if `labels`, and the axes. */
void cli_plot_grid_y(const Panel *p, long double n, FILE *f);
void cli_plot_grid_x(const Panel *p, bool labels, FILE *f);
void cli_plot_title(const Panel *p, const char *text, FILE *f);

/* A path through the points, and dots on curves of few points, of a class of the head. */
void cli_plot_curve(const Panel *p, const Curve *c, const char *class, FILE *f);
void cli_plot_points(const Panel *p, const Curve *c, const char *class, FILE *f);

/* An entry of the legend that ends at `right`; returns where the next one ends. */
double cli_plot_key(double right, double y, const char *class, const char *text, FILE *f);

#endif
