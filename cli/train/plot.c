/* Draws the curves of a training as SVG, for light and dark pages: no background, and colours that both carry.
 *
 *     loss of each step, thin; smoothed by the mean over a fiftieth of the steps; validation, with points
 *     below: balance of the experts, thin and smoothed
 *
 * Curves of more points than pixels are drawn as the means of pixels. */
#include "cli/train/plot.h"

#include "reprise/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, LEFT = 64, RIGHT = 24, TOP = 52, LOSS_HEIGHT = 320, GAP = 44, BALANCE_HEIGHT = 130, BOTTOM = 48 };

enum { SMOOTHED = 100 }; /* least points of a curve that is drawn smoothed too */

enum { LABEL_ROOM = 8, STEP_ROOM = 7 }; /* characters of a label that fit beside, and below, the axes */

/* A panel: pixels, and the values at its ends. long double: neither the difference of two values nor a sum of many
 * overflows. */
typedef struct Panel {
    double      top, height;
    long double lo, hi;
    double      x_hi; /* the first step is 0 */
} Panel;

static double x_of(const Panel *p, double x) { return LEFT + x / fmax(p->x_hi, 1e-9) * (WIDTH - LEFT - RIGHT); }
static double y_of(const Panel *p, long double y) {
    return p->top + (double)((p->hi - y) / (p->hi - p->lo)) * p->height;
}

/* 1, 2 or 5 times a power of ten, so that a range has about n of them. */
static long double nice_step(long double range, long double n) {
    const long double least = range / n, power = powl(10.0L, floorl(log10l(least)));
    return least / power <= 1.0L   ? power
           : least / power <= 2.0L ? 2.0L * power
           : least / power <= 5.0L ? 5.0L * power
                                   : 10.0L * power;
}

/* ---- axes ---- */

/* A number of an axis with lines `step` apart: 0.25, or 2.5e+08 if the plain form has more than `room` characters. */
static void label_of(char *out, size_t size, long double value, long double step, int room) {
    const int decimals = step < 1.0L ? (int)ceill(-log10l(step) - 1e-9L) : 0;
    if (fabsl(value) < 1e-9L * step) value = 0.0L;
    if (snprintf(out, size, "%.*Lf", decimals, value) <= room) return;
    const int digits = (int)(floorl(log10l(fabsl(value))) - floorl(log10l(step)));
    snprintf(out, size, "%.*Le", digits > 0 ? digits : 0, value);
}

/* Lines are counted, not added up: a sum of small steps may never get past a large value. */
static void put_grid_y(const Panel *p, long double n, FILE *f) {
    const long double step = nice_step(p->hi - p->lo, n);
    const long long   end  = llroundl(floorl(p->hi / step + 1e-9L));
    for (long long i = llroundl(ceill(p->lo / step - 1e-9L)); i <= end; i++) {
        const double y = y_of(p, (long double)i * step);
        char         label[64];
        label_of(label, sizeof label, (long double)i * step, step, LABEL_ROOM);
        fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y, WIDTH - RIGHT);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\"%s>%s</text>\n", LEFT - 8, y + 4.0,
                strlen(label) > LABEL_ROOM ? " textLength=\"54\" lengthAdjust=\"spacingAndGlyphs\"" : "", label);
    }
}

/* Grid lines at whole steps, with their numbers if `labels`, and the axes. */
static void put_grid_x(const Panel *p, bool labels, FILE *f) {
    const long double last = (long double)p->x_hi, step = last > 9.0L ? nice_step(last, 9.0L) : 1.0L;
    const long long   end = llroundl(floorl(last / step));
    for (long long i = 0; i <= end; i++) {
        const double x = x_of(p, (double)((long double)i * step));
        char         label[64];
        fprintf(f, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, p->top, p->top + p->height);
        label_of(label, sizeof label, (long double)i * step, step, STEP_ROOM);
        if (labels)
            fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, p->top + p->height + 18.0,
                    label);
    }
    fprintf(f, "<path class=\"axis\" d=\"M%d %.1fV%.1fH%d\"/>\n", LEFT, p->top, p->top + p->height, WIDTH - RIGHT);
}

static void put_title(const Panel *p, const char *text, FILE *f) {
    fprintf(f, "<text class=\"title\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT, p->top - 10.0, text);
}

/* ---- curves ---- */

/* A path through the points. Points that fall on one pixel are replaced by their mean. Values that are no numbers leave
 * a gap; a point between gaps is a dot. */
static void put_curve(const Panel *p, const Curve *c, const char *class, FILE *f) {
    size_t drawn = 0; /* points since the last gap */
    fprintf(f, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < c->n;) {
        long double x = 0.0L, y = 0.0L;
        size_t      n = 0;
        for (const double pixel = floor(x_of(p, c->points[i].x)); i < c->n && floor(x_of(p, c->points[i].x)) <= pixel;
             i++)
            if (isfinite(c->points[i].y)) x += (long double)c->points[i].x, y += (long double)c->points[i].y, n++;
        if (n == 0 && drawn == 1) fputs("h0", f);
        if (n > 0)
            fprintf(f, "%c%.1f %.1f", drawn == 0 ? 'M' : 'L', x_of(p, (double)(x / (long double)n)),
                    y_of(p, y / (long double)n));
        drawn = n > 0 ? drawn + 1 : 0;
    }
    fputs(drawn == 1 ? "h0\"/>\n" : "\"/>\n", f);
}

/* Draws a dot for each value of a curve of at most 200 values. More dots would hide the curve. */
static void put_points(const Panel *p, const Curve *c, const char *class, FILE *f) {
    for (size_t i = 0; c->n <= 200 && i < c->n; i++)
        if (isfinite(c->points[i].y))
            fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", class, x_of(p, c->points[i].x),
                    y_of(p, (long double)c->points[i].y));
}

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

/* Widens the range of a panel to the values of a curve. */
static void widen(const Curve *c, Panel *p) {
    for (size_t i = 0; i < c->n; i++) {
        if (!isfinite(c->points[i].y)) continue;
        p->lo = fminl(p->lo, (long double)c->points[i].y);
        p->hi = fmaxl(p->hi, (long double)c->points[i].y);
    }
}

/* Room above and below the values, up to the next line of the grid. Lines are a millionth of the largest value apart
 * or more, so that their labels differ; without any value the panel has 0 to 1. */
static void round_range(Panel *p, long double n) {
    if (p->hi < p->lo) p->lo = 0.0L, p->hi = 1.0L;
    const long double largest = fmaxl(fabsl(p->lo), fabsl(p->hi));
    const long double range   = fmaxl(fmaxl(p->hi - p->lo, 1e-3L), n * 1e-6L * largest);
    const long double step    = nice_step(range, n);
    p->lo                     = floorl(p->lo / step) * step;
    p->hi                     = ceill(p->hi / step) * step;
    if (p->hi <= p->lo) p->hi = p->lo + step;
}

/* NULL: no value is a number. */
static const Point *lowest(const Curve *c) {
    const Point *p = NULL;
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(c->points[i].y) && (p == NULL || c->points[i].y < p->y)) p = &c->points[i];
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
    char         text[96];
    double       right = WIDTH - RIGHT;
    const Point *least = lowest(&c->validation);
    if (least != NULL) {
        const bool plain = fabs(least->y) >= 1e-3 && fabs(least->y) < 1e6;
        snprintf(text, sizeof text,
                 plain ? "validation: lowest %.3f at step %.0f" : "validation: lowest %.3g at step %.0f", least->y,
                 least->x);
        right = put_key(right, y, "validation", text, f);
    }
    snprintf(text, sizeof text, "mean of %zu steps", 2 * (c->loss.n / 100) + 1);
    if (c->loss.n >= SMOOTHED) right = put_key(right, y, "smoothed", text, f);
    put_key(right, y, c->loss.n >= SMOOTHED ? "loss" : "smoothed", "each step", f);
}

/* The styles work on light and dark pages: colours of medium brightness on no background. */
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
            ".loss, .balance, .smoothed, .validation { stroke-linecap: round; }\n"
            ".smoothed { stroke: #2f7fe0; stroke-width: 2; }\n"
            ".validation { stroke: #e5792b; stroke-width: 2; }\n"
            ".dot { fill: #e5792b; }\n"
            ".even { stroke: #3a9d68; stroke-width: 1.5; stroke-dasharray: 5 4; }\n"
            "</style>\n",
            WIDTH, height, WIDTH, height);
}

static void put_losses(const TrainCurves *c, const Curve *smoothed, double x_hi, bool labels, FILE *f) {
    Panel p = {.top = TOP, .height = LOSS_HEIGHT, .lo = HUGE_VALL, .hi = -HUGE_VALL, .x_hi = x_hi};
    widen(&c->loss, &p);
    widen(&c->validation, &p);
    round_range(&p, 8.0L);
    put_grid_y(&p, 8.0L, f);
    put_grid_x(&p, labels, f);
    put_title(&p, "loss, nats per token", f);
    if (c->loss.n >= SMOOTHED) put_curve(&p, &c->loss, "loss", f);
    put_curve(&p, smoothed, "smoothed", f);
    put_curve(&p, &c->validation, "validation", f);
    put_points(&p, &c->validation, "dot", f);
    put_legend(c, p.top - 10.0, f);
}

/* The lower panel. Its range includes 1, the balance of equal loads, which is drawn as a dashed line. */
static RpStatus put_balance(const TrainCurves *c, double x_hi, FILE *f) {
    Curve smoothed;
    Panel p = {.top = TOP + LOSS_HEIGHT + GAP, .height = BALANCE_HEIGHT, .lo = 1.0L, .hi = 1.0L, .x_hi = x_hi};
    RP_TRY(smooth(&c->balance, &smoothed));
    widen(&c->balance, &p);
    round_range(&p, 4.0L);
    put_grid_y(&p, 4.0L, f);
    put_grid_x(&p, true, f);
    put_title(&p, "balance: largest load of an expert, times their number", f);
    if (c->balance.n >= SMOOTHED) put_curve(&p, &c->balance, "balance", f);
    put_curve(&p, &smoothed, "smoothed", f);
    const Curve even = {
        .points = (Point[]){{0.0, 1.0}, {x_hi, 1.0}},
        .n      = 2,
    };
    put_curve(&p, &even, "even", f);
    put_key(WIDTH - RIGHT, p.top - 10.0, "even", "1: every expert has the same load", f);
    free(smoothed.points);
    return RP_OK;
}

/* Writes any bytes as a text of XML. Bytes that are not UTF-8, U+FFFE and U+FFFF become U+FFFD, control characters are
 * made visible, and the characters of markup are written as references. */
static RpStatus put_escaped(const char *text, FILE *f) {
    const size_t n      = strlen(text);
    RpUtf8Stream stream = {0};
    char        *utf8 = malloc(4 * n + 16), *shown = NULL;
    if (utf8 != NULL) {
        size_t used = rp_utf8_feed(&stream, text, n, utf8);
        used += rp_utf8_flush(&stream, utf8 + used);
        shown = cli_visible(utf8, used);
    }
    free(utf8);
    if (shown == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a title");
    for (char *p = shown; *p != '\0'; p++) {
        if (strncmp(p, "\xef\xbf", 2) == 0 && (unsigned char)p[2] >= 0xbe) p[2] = '\xbd';
        if (*p == '<' || *p == '&' || *p == '>')
            fprintf(f, "&#%d;", *p);
        else
            fputc(*p, f);
    }
    free(shown);
    return RP_OK;
}

static double last_step(const Curve *c) { return c->n > 0 ? c->points[c->n - 1].x : 0.0; }

RpStatus cli_train_plot(const TrainCurves *c, const char *title, FILE *f) {
    const bool   experts = c->balance.n > 0;
    const int    height  = TOP + LOSS_HEIGHT + (experts ? GAP + BALANCE_HEIGHT : 0) + BOTTOM;
    const double x_hi    = fmax(last_step(&c->loss), fmax(last_step(&c->validation), last_step(&c->balance)));
    Curve        smoothed;
    put_head(height, f);
    fputs("<title>", f);
    RP_TRY(put_escaped(title, f));
    fputs("</title>\n", f);
    RP_TRY(smooth(&c->loss, &smoothed));
    put_losses(c, &smoothed, x_hi, !experts, f);
    free(smoothed.points);
    if (experts) RP_TRY(put_balance(c, x_hi, f));
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n</svg>\n", (LEFT + WIDTH - RIGHT) / 2,
            height - 10);
    return RP_OK;
}
