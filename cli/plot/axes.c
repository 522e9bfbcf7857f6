/* axes.c - panels of a picture: grid, axes, curves, legend. */
#include "cli/plot/axes.h"

#include "cli/terminal/message.h"
#include "reprise/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_ROOM = 8, STEP_ROOM = 7 }; /* characters of a label that fit beside, and below, the axes */

static double x_of(const Panel *p, double x) {
    return PLOT_LEFT + x / fmax(p->x_hi, 1e-9) * (PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT);
}
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
void cli_plot_grid_y(const Panel *p, long double n, FILE *f) {
    const long double step = nice_step(p->hi - p->lo, n);
    const long long   end  = llroundl(floorl(p->hi / step + 1e-9L));
    for (long long i = llroundl(ceill(p->lo / step - 1e-9L)); i <= end; i++) {
        const double y = y_of(p, (long double)i * step);
        char         label[64];
        label_of(label, sizeof label, (long double)i * step, step, LABEL_ROOM);
        fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", PLOT_LEFT, y, PLOT_WIDTH - PLOT_RIGHT);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\"%s>%s</text>\n", PLOT_LEFT - 8, y + 4.0,
                strlen(label) > LABEL_ROOM ? " textLength=\"54\" lengthAdjust=\"spacingAndGlyphs\"" : "", label);
    }
}

/* Grid lines at whole steps, with their numbers if `labels`, and the axes. */
void cli_plot_grid_x(const Panel *p, bool labels, FILE *f) {
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
    fprintf(f, "<path class=\"axis\" d=\"M%d %.1fV%.1fH%d\"/>\n", PLOT_LEFT, p->top, p->top + p->height,
            PLOT_WIDTH - PLOT_RIGHT);
}

void cli_plot_title(const Panel *p, const char *text, FILE *f) {
    fprintf(f, "<text class=\"title\" x=\"%d\" y=\"%.1f\">%s</text>\n", PLOT_LEFT, p->top - 10.0, text);
}

/* ---- curves ---- */

/* A path through the points. Points that fall on one pixel are replaced by their mean. Values that are no numbers leave
 * a gap; a point between gaps is a dot. */
void cli_plot_curve(const Panel *p, const Curve *c, const char *class, FILE *f) {
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
void cli_plot_points(const Panel *p, const Curve *c, const char *class, FILE *f) {
    for (size_t i = 0; c->n <= 200 && i < c->n; i++)
        if (isfinite(c->points[i].y))
            fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", class, x_of(p, c->points[i].x),
                    y_of(p, (long double)c->points[i].y));
}

/* Widens the range of a panel to the values of a curve. */
void cli_plot_widen(const Curve *c, Panel *p) {
    for (size_t i = 0; i < c->n; i++) {
        if (!isfinite(c->points[i].y)) continue;
        p->lo = fminl(p->lo, (long double)c->points[i].y);
        p->hi = fmaxl(p->hi, (long double)c->points[i].y);
    }
}

/* Room above and below the values, up to the next line of the grid. Lines are a millionth of the largest value apart
 * or more, so that their labels differ; without any value the panel has 0 to 1. */
void cli_plot_round_range(Panel *p, long double n) {
    if (p->hi < p->lo) p->lo = 0.0L, p->hi = 1.0L;
    const long double largest = fmaxl(fabsl(p->lo), fabsl(p->hi));
    const long double range   = fmaxl(fmaxl(p->hi - p->lo, 1e-3L), n * 1e-6L * largest);
    const long double step    = nice_step(range, n);
    p->lo                     = floorl(p->lo / step) * step;
    p->hi                     = ceill(p->hi / step) * step;
    if (p->hi <= p->lo) p->hi = p->lo + step;
}

/* One entry, at the right; returns where the next one ends. */
double cli_plot_key(double right, double y, const char *class, const char *text, FILE *f) {
    const double width = 6.5 * (double)strlen(text); /* fonts are about as wide */
    fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fh20\"/>\n", class, right - width - 26.0, y - 4.0);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", right - width, y, text);
    return right - width - 44.0;
}

/* The styles work on light and dark pages: colours of medium brightness on no background. */
void cli_plot_head(int height, FILE *f) {
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
            PLOT_WIDTH, height, PLOT_WIDTH, height);
}

/* Writes any bytes as a text of XML. Bytes that are not UTF-8, U+FFFE and U+FFFF become U+FFFD, control characters are
 * made visible, and the characters of markup are written as references. */
RpStatus cli_plot_escaped(const char *text, FILE *f) {
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
