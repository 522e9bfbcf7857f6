/* progress.c - draws a line such as "verifying: token 2 of 8 [#####     ]  45 %, 3 s left", cut to the terminal. */
#include "cli/terminal/progress.h"

#include "cli/terminal/clock.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/style.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static Progress *on_screen; /* the line that a message must erase first; NULL: none */

/* Draws the line, from the left: label and step, a bar if there is room for it, percentage and time left. Leaves the
 * last column free, since a terminal may wrap there. fraction < 0: the length is not known, so there is no bar. */
static void draw(Progress *p, double fraction, double seconds_left) {
    enum { MAX_BAR = 30, LEAST_BAR = 8 };
    char      head[128], tail[64] = "", bar[MAX_BAR + 5] = "";
    const int columns = cli_columns(stderr) > 0 ? cli_columns(stderr) : 80;
    snprintf(head, sizeof head, "%s%s%s", p->label, p->step[0] != '\0' ? ": " : "", p->step);
    if (fraction >= 0.0) snprintf(tail, sizeof tail, " %3.0f %%, %.0f s left", 100.0 * fraction, ceil(seconds_left));
    int room = columns - 1 - cli_text_width(head) - (int)strlen(tail) - 3;
    if (room < -3 && fraction >= 0.0) snprintf(tail, sizeof tail, " %3.0f %%", 100.0 * fraction);
    if (room > MAX_BAR) room = MAX_BAR;
    if (fraction >= 0.0 && room >= LEAST_BAR)
        snprintf(bar, sizeof bar, " [%-*.*s]", room, (int)(fraction * room), "##############################");
    const int fit = columns - 1 - (int)strlen(bar) - (int)strlen(tail);
    fprintf(stderr, "\r%.*s%s%.*s\033[K", (int)cli_text_fit(head, fit > 0 ? fit : 0), head, bar, columns - 1, tail);
    fflush(stderr);
    p->shown  = true;
    on_screen = p;
}

static void on_interrupt(int signal_number) {
    (void)!write(STDERR_FILENO, "\r\033[K", 4);
    _exit(128 + signal_number);
}

/* A command that does not catch Ctrl-C ends by it, with the line erased. */
static void erase_on_interrupt(void) {
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler != SIG_DFL) return;
    now = (struct sigaction){.sa_handler = on_interrupt};
    sigaction(SIGINT, &now, NULL);
}

/* Begins a step: the clock of its time left starts here. */
static void start(Progress *p) {
    if (!p->started) p->can_print = !p->off && cli_is_terminal(stderr);
    if (p->can_print) erase_on_interrupt();
    p->started = true;
    p->start = p->latest = cli_now();
}

/* Nothing is drawn in the first half second, so that short steps do not flicker, and then ten times a second. The
 * time left assumes that the rest goes as fast as the part that is done. */
bool cli_progress(Progress *p, double done, double total) {
    if (!p->started) start(p);
    if (!p->can_print) return !cli_interrupted();
    const double now = cli_now();
    if (now - p->start < 0.5 || (now - p->latest < 0.1 && done < total)) return !cli_interrupted();
    const double fraction = total > 0.0 ? fmin(fmax(done / total, 0.0), 1.0) : 1.0;
    p->latest             = now;
    draw(p, fraction, fraction > 0.0 ? (now - p->start) * (1.0 - fraction) / fraction : 0.0);
    return !cli_interrupted();
}

bool cli_progress_step(Progress *p, const char *fmt, ...) {
    va_list ap;
    start(p);
    va_start(ap, fmt);
    vsnprintf(p->step, sizeof p->step, fmt, ap);
    va_end(ap);
    if (p->can_print) draw(p, -1.0, 0.0);
    return !cli_interrupted();
}

void cli_progress_end(Progress *p) {
    if (p->shown) fputs("\r\033[K", stderr);
    if (on_screen == p) on_screen = NULL;
    p->shown   = false;
    p->step[0] = '\0';
    p->started = false;
}

void cli_progress_clear(void) {
    if (on_screen != NULL) fputs("\r\033[K", stderr);
    on_screen = NULL;
}
