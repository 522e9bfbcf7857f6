/* experts.c - prints the counts of rp_session_expert_counts. */
#include "cli/experts.h"

#include <inttypes.h>

/* Heights of 0 to 8 eighths. An expert that was chosen at all has one eighth or more: heights are rounded up. */
static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

enum { N_BARS = sizeof bars / sizeof bars[0], N_TOP = 3 };

/* The most chosen of the experts with a count below `below`, or with this count and an index above `after`.
 * Called with the result before, this lists experts by descending count. */
static int most_chosen(const uint64_t *counts, int n, uint64_t below, int after) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        const bool candidate = counts[e] < below || (counts[e] == below && e > after);
        if (candidate && (best < 0 || counts[e] > counts[best])) best = e;
    }
    return best;
}

/* Prints "layer   3 |▁▃█ ...| most chosen: 2 (31.5 %), ...". */
static void print_layer(const uint64_t *counts, int n, int layer, FILE *out) {
    uint64_t sum = 0, top = 0;
    for (int e = 0; e < n; e++) {
        sum += counts[e];
        if (counts[e] > top) top = counts[e];
    }
    fprintf(out, "layer %3d |", layer);
    for (int e = 0; e < n; e++) fputs(bars[top == 0 ? 0 : (counts[e] * (N_BARS - 1) + top - 1) / top], out);
    fputs("|", out);
    uint64_t below = UINT64_MAX;
    int      after = -1;
    for (int i = 0; i < N_TOP && i < n && sum > 0; i++) {
        const int e = most_chosen(counts, n, below, after);
        fprintf(out, "%s %d (%.1f %%)", i > 0 ? "," : " most chosen:", e, 100.0 * (double)counts[e] / (double)sum);
        below = counts[e];
        after = e;
    }
    fputs("\n", out);
}

void cli_experts_print(const RpSession *s, FILE *out) {
    const RpModelInfo *m = rp_model_info(rp_session_model(s));
    if (m->n_expert == 0) {
        fputs("experts: this model has none\n", out);
        return;
    }
    fprintf(out, "experts  %d of %d per token, %d tokens of prompt and reply\n", m->n_expert_used, m->n_expert,
            rp_session_n_past(s));
    for (int l = 0; l < m->n_layer; l++) {
        const uint64_t *counts = rp_session_expert_counts(s, l);
        if (counts != NULL) print_layer(counts, m->n_expert, l, out);
    }
}

void cli_experts_json(const RpSession *s, FILE *out) {
    const RpModelInfo *m = rp_model_info(rp_session_model(s));
    fputs(",\"experts\":[", out);
    for (int l = 0; l < m->n_layer && m->n_expert > 0; l++) {
        const uint64_t *counts = rp_session_expert_counts(s, l);
        if (l > 0) fputs(",", out);
        if (counts == NULL) fputs("null", out);
        for (int e = 0; e < m->n_expert && counts != NULL; e++)
            fprintf(out, "%s%" PRIu64, e > 0 ? "," : "[", counts[e]);
        if (counts != NULL) fputs("]", out);
    }
    fputs("]", out);
}
