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

enum {
    WIDTH          = 960,
    LEFT           = 64,
    RIGHT          = 24,
    TOP            = 52,
    LOSS_HEIGHT    = 320,
    GAP            = 44,
    BALANCE_HEIGHT = 130,
    BOTTOM         = 48
};

enum { SMOOTHED = 100 }; /* least points of a curve that is drawn smoothed too */

/* A panel: pixels, and the values at its ends. */
typedef struct Panel {
    double top, height, lo, hi, x_lo, x_hi;
} Panel;

static double x_of(const Panel *p, double x) {
    return LEFT + (x - p->x_lo) / fmax(p->x_hi - p->x_lo, 1e-9) * (WIDTH - LEFT - RIGHT);
}
static double y_of(const Panel *p, double y) { return p->top + (p->hi - y) / (p->hi - p->lo) * p->height; }

/* 1, 2 or 5 times a power of ten, so that a range has about n of them. */
static double nice_step(double range, double n) {
    const double least = range / n, power = pow(10.0, floor(log10(least)));
    return least / power <= 1.0   ? power
           : least / power <= 2.0 ? 2.0 * power
           : least / power <= 5.0 ? 5.0 * power
                                  : 10.0 * power;
}

/* ---- axes ---- */

static void put_grid_y(const Panel *p, double n, FILE *f) {
    const double step     = nice_step(p->hi - p->lo, n);
    const int    decimals = step < 1.0 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (double y = ceil(p->lo / step - 1e-9) * step; y <= p->hi + 1e-9 * step; y += step) {
        fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(p, y), WIDTH - RIGHT);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", LEFT - 8, y_of(p, y) + 4.0,
                decimals, fabs(y) < 1e-9 * step ? 0.0 : y);
    }
}

static void put_grid_x(const Panel *p, bool labels, FILE *f) {
    const double step = fmax(nice_step(p->x_hi - p->x_lo, 9.0), 1.0);
    for (double x = ceil(p->x_lo / step) * step; x <= p->x_hi; x += step) {
        fprintf(f, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x_of(p, x), p->top, p->top + p->height);
        if (labels)
            fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", x_of(p, x),
                    p->top + p->height + 18.0, x);
    }
    fprintf(f, "<path class=\"axis\" d=\"M%d %.1fV%.1fH%d\"/>\n", LEFT, p->top, p->top + p->height,
            WIDTH - RIGHT);
}

static void put_title(const Panel *p, const char *text, FILE *f) {
    fprintf(f, "<text class=\"title\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT, p->top - 10.0, text);
}

/* ---- curves ---- */

/* A path through the points; those of one pixel become their mean. Without a number: no point. */
static void put_curve(const Panel *p, const Curve *c, const char *class, FILE *f) {
    char mark = 'M';
    fprintf(f, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < c->n;) {
        double x = 0.0, y = 0.0;
        size_t n = 0;
        for (const double pixel = floor(x_of(p, c->points[i].x));
             i < c->n && floor(x_of(p, c->points[i].x)) <= pixel; i++)
            if (isfinite(c->points[i].y)) x += c->points[i].x, y += c->points[i].y, n++;
        if (n == 0) continue;
        fprintf(f, "%c%.1f %.1f", mark, x_of(p, x / (double)n), y_of(p, y / (double)n));
        mark = 'L';
    }
    fputs("\"/>\n", f);
}

static void put_points(const Panel *p, const Curve *c, const char *class, FILE *f) {
    for (size_t i = 0; c->n <= 200 && i < c->n; i++)
        fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", class, x_of(p, c->points[i].x),
                y_of(p, c->points[i].y));
}

/* The mean of the neighbours, a hundredth of the points on each side, as far as they exist. */
static RpStatus smooth(const Curve *c, Curve *out) {
    const size_t half = c->n / 100;
    double      *sums = malloc((c->n + 1) * sizeof *sums); /* of the points before i */
    *out              = (Curve){.points = malloc((c->n + 1) * sizeof *out->points), .n = c->n};
    if (out->points == NULL || sums == NULL) {
        free(out->points);
        free(sums);
        return rp_fail(RP_E_NOMEM, "out of memory for a curve of %zu points", c->n);
    }
    sums[0] = 0.0;
    for (size_t i = 0; i < c->n; i++) sums[i + 1] = sums[i] + c->points[i].y;
    for (size_t i = 0; i < c->n; i++) {
        const size_t from = i < half ? 0 : i - half, end = i + half < c->n ? i + half + 1 : c->n;
        out->points[i] = (Point){c->points[i].x, (sums[end] - sums[from]) / (double)(end - from)};
    }
    free(sums);
    return RP_OK;
}

static void widen(const Curve *c, double *lo, double *hi) {
    for (size_t i = 0; i < c->n; i++) {
        *lo = fmin(*lo, c->points[i].y);
        *hi = fmax(*hi, c->points[i].y);
    }
}

/* Room above and below the values, up to the next line of the grid. */
static void round_range(Panel *p, double n) {
    const double step = nice_step(fmax(p->hi - p->lo, 1e-3), n);
    p->lo             = floor(p->lo / step) * step;
    p->hi             = ceil(p->hi / step) * step;
    if (p->hi <= p->lo) p->hi = p->lo + step;
}

static Point lowest(const Curve *c) {
    Point p = c->points[0];
    for (size_t i = 1; i < c->n; i++)
        if (c->points[i].y < p.y) p = c->points[i];
    return p;
}

/* ---- the picture ---- */

/* One entry, at the right; returns where the next one ends. */
static double put_key(double right, double y, const char *class, const char *text, FILE *f) {
    const double width = 6.5 * (double)strlen(text); /* fonts are about as wide */
    fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fh20\"/>\n", class, right - width - 26.0, y - 4.0);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", right - width, y, text);
    return right - width - 44.0;
}

static void put_legend(const TrainCurves *c, double y, FILE *f) {
    char   text[96];
    double right = WIDTH - RIGHT;
    if (c->validation.n > 0) {
        const Point least = lowest(&c->validation);
        snprintf(text, sizeof text, "validation: lowest %.3f at step %.0f", least.y, least.x);
        right = put_key(right, y, "validation", text, f);
    }
    snprintf(text, sizeof text, "mean of %zu steps", 2 * (c->loss.n / 100) + 1);
    if (c->loss.n >= SMOOTHED) right = put_key(right, y, "smoothed", text, f);
    put_key(right, y, c->loss.n >= SMOOTHED ? "loss" : "smoothed", "each step", f);
}

static void put_head(int height, FILE *f) {
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
            "<style>\n"
            "text { font: 12px system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif; fill: #7d838b; }\n"
            ".title { font-size: 13px; font-weight: 600; }\n"
            "path { fill: none; stroke-linejoin: round; }\n"
            ".grid { stroke: #808890; stroke-opacity: 0.18; }\n"
            ".axis { stroke: #808890; }\n"
            ".loss, .balance { stroke: #4c8dd6; stroke-opacity: 0.6; }\n"
            ".smoothed { stroke: #2f7fe0; stroke-width: 2; }\n"
            ".validation { stroke: #e5792b; stroke-width: 2; }\n"
            ".dot { fill: #e5792b; }\n"
            ".even { stroke: #3a9d68; stroke-width: 1.5; stroke-dasharray: 5 4; }\n"
            "</style>\n",
            WIDTH, height, WIDTH, height);
}

static void put_losses(const TrainCurves *c, const Curve *smoothed, double x_hi, bool labels, FILE *f) {
    Panel p = {.top = TOP, .height = LOSS_HEIGHT, .lo = HUGE_VAL, .hi = -HUGE_VAL, .x_lo = 0.0, .x_hi = x_hi};
    widen(&c->loss, &p.lo, &p.hi);
    widen(&c->validation, &p.lo, &p.hi);
    round_range(&p, 8.0);
    put_grid_y(&p, 8.0, f);
    put_grid_x(&p, labels, f);
    put_title(&p, "loss, nats per token", f);
    if (c->loss.n >= SMOOTHED) put_curve(&p, &c->loss, "loss", f);
    put_curve(&p, smoothed, "smoothed", f);
    put_curve(&p, &c->validation, "validation", f);
    put_points(&p, &c->validation, "dot", f);
    put_legend(c, p.top - 10.0, f);
}

static RpStatus put_balance(const TrainCurves *c, double x_hi, FILE *f) {
    Curve smoothed;
    Panel p = {.top = TOP + LOSS_HEIGHT + GAP, .height = BALANCE_HEIGHT, .lo = 1.0, .hi = 1.0, .x_hi = x_hi};
    RP_TRY(smooth(&c->balance, &smoothed));
    widen(&c->balance, &p.lo, &p.hi);
    round_range(&p, 4.0);
    put_grid_y(&p, 4.0, f);
    put_grid_x(&p, true, f);
    put_title(&p, "balance: largest load of an expert, times their number", f);
    if (c->balance.n >= SMOOTHED) put_curve(&p, &c->balance, "balance", f);
    put_curve(&p, &smoothed, "smoothed", f);
    const Curve even = {
        .points = (Point[]){{0.0, 1.0}, {x_hi, 1.0}},
          .n = 2
    };
    put_curve(&p, &even, "even", f);
    put_key(WIDTH - RIGHT, p.top - 10.0, "even", "1: every expert has the same load", f);
    free(smoothed.points);
    return RP_OK;
}

/* Text in which the characters of markup are spelt out. */
static void put_escaped(const char *text, FILE *f) {
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '&' || *text == '>')
            fprintf(f, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
    }
}

RpStatus cli_train_plot(const TrainCurves *c, const char *title, FILE *f) {
    const bool experts = c->balance.n > 0;
    const int  height  = TOP + LOSS_HEIGHT + (experts ? GAP + BALANCE_HEIGHT : 0) + BOTTOM;
    double     x_hi    = c->loss.points[c->loss.n - 1].x;
    Curve      smoothed;
    if (c->validation.n > 0) x_hi = fmax(x_hi, c->validation.points[c->validation.n - 1].x);
    RP_TRY(smooth(&c->loss, &smoothed));
    put_head(height, f);
    fputs("<title>", f);
    put_escaped(title, f);
    fputs("</title>\n", f);
    put_losses(c, &smoothed, x_hi, !experts, f);
    free(smoothed.points);
    if (experts) RP_TRY(put_balance(c, x_hi, f));
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n</svg>\n",
            (LEFT + WIDTH - RIGHT) / 2, height - 10);
    return RP_OK;
}
