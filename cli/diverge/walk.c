/* walk.c - the walk of two runs, and the recording of one. */
#include "cli/diverge/walk.h"

#include "cli/terminal/interrupt.h"

#include <stdlib.h>
#include <string.h>

static void free_step(Divergence *w) {
    free(w->d);
    w->d = NULL;
    cli_walk_list_free(&w->list);
}

void cli_walk_free(Divergence *w) {
    free_step(w);
    rp_token_list_free(&w->tokens);
}

static bool same_shape(const Other *b, const NodeValues *x, const NodeValues *y) {
    return b->folder != NULL ? cli_values_n(x) == cli_values_n(y) : memcmp(x->ne, y->ne, sizeof x->ne) == 0;
}

static RpStatus read_a(StepRun *a, const WalkNode *n, NodeValues *out) {
    RP_TRY(cli_step_run_to(a, n->step + 1));
    RP_TRY(cli_values_read(a->now->exec, n->node, out));
    const RpStatus st = cli_values_to_f32(out);
    if (st != RP_OK) cli_values_free(out);
    return st;
}

static bool differs(const Divergence *w, const NodeDifference *d) {
    return w->tolerance > 0.0f ? d->scaled > (double)w->tolerance : d->n_differ > 0;
}

static void note(Divergence *w, int i, const NodeValues *a, const NodeValues *b) {
    NodeDifference *d = &w->d[i];
    if (!same_shape(w->b, a, b)) {
        w->n_other_shape++;
        return;
    }
    *d = cli_compare(a, b);
    w->n_compared++;
    w->n_equal += d->n_differ == 0;
    if (w->first < 0 && differs(w, d)) w->first = i;
    if (strcmp(rp_node_name(w->list.items[i].node), "logits") == 0 && a->dtype == RP_F32 && b->dtype == RP_F32)
        w->logits = cli_compare_logits(a, b);
}

static RpStatus compare_node(Divergence *w, int i) {
    NodeValues a, b;
    bool       found;
    RP_TRY(read_a(w->a, &w->list.items[i], &a));
    const RpStatus st = cli_other_read(w->b, &w->list.items[i], &b, &found);
    if (st == RP_OK && found)
        note(w, i, &a, &b);
    else
        w->n_only_a++;
    if (st == RP_OK) cli_values_free(&b);
    cli_values_free(&a);
    return st;
}

/* One step over n tokens. */
static RpStatus compare_step(Divergence *w, const int32_t *tokens, int32_t n, int32_t *next) {
    int only;
    free_step(w);
    w->logits = (LogitsDifference){0};
    cli_step_run_begin(w->a, tokens, n);
    RP_TRY(cli_walk_list(w->a->now->graph, w->a->now->plan, &w->list));
    w->d = calloc((size_t)w->list.n + 1, sizeof *w->d);
    if (w->d == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a comparison");
    RP_TRY(cli_other_begin(w->b, w->step, tokens, n, &w->list));
    for (int i = 0; i < w->list.n; i++) {
        RP_TRY(compare_node(w, i));
        if (!cli_progress(w->progress, w->step + (double)(i + 1) / w->list.n, w->a->o.n_decode + 1.0))
            return rp_fail(RP_E_CANCELLED, "interrupted");
    }
    RP_TRY(cli_step_run_end(w->a, next));
    RP_TRY(cli_other_end(w->b, &only));
    w->n_only_b = only < 0 ? -1 : w->n_only_b + only;
    return RP_OK;
}

RpStatus cli_walk(Divergence *w, const RpTokenList *prompt) {
    const int32_t *tokens = prompt->ids;
    int32_t        n = (int32_t)prompt->n, next = 0;
    w->first    = -1;
    w->n_prompt = n;
    for (;; w->step++) {
        for (int32_t i = 0; i < n; i++)
            if (rp_token_list_push(&w->tokens, tokens[i]) != RP_OK)
                return rp_fail(RP_E_NOMEM, "out of memory for tokens");
        RP_TRY(compare_step(w, tokens, n, &next));
        if (w->first >= 0 || w->step == w->a->o.n_decode) break;
        if (w->b->recording != NULL) next = cli_node_recording_tokens(w->b->recording, w->step + 1)[0];
        tokens = &next;
        n      = 1;
    }
    if (w->n_compared == 0)
        return rp_fail(RP_E_ARG, "no node can be compared: %ld nodes have no partner, %ld have one of another shape",
                       w->n_only_a, w->n_other_shape);
    return RP_OK;
}

RpStatus cli_walk_record(StepRun *a, const RecordingHead *head, const RpTokenList *prompt, FILE *out) {
    const int32_t *tokens = prompt->ids;
    int32_t        n = (int32_t)prompt->n, next = 0;
    uint64_t       n_nodes = 0;
    cli_node_recording_head(head, out);
    for (int32_t step = 0; step <= a->o.n_decode; step++) {
        WalkList list;
        cli_step_run_begin(a, tokens, n);
        cli_node_recording_step(tokens, n, out);
        RpStatus st = cli_walk_list(a->now->graph, a->now->plan, &list);
        for (int i = 0; i < list.n && st == RP_OK; i++) {
            NodeValues v = {0};
            st           = read_a(a, &list.items[i], &v);
            if (st == RP_OK) st = cli_node_recording_node(list.items[i].key, &v, out);
            cli_values_free(&v);
            if (st == RP_OK && cli_interrupted()) st = rp_fail(RP_E_CANCELLED, "interrupted");
        }
        n_nodes += (uint64_t)list.n;
        cli_walk_list_free(&list);
        RP_TRY(st);
        RP_TRY(cli_step_run_end(a, &next));
        tokens = &next;
        n      = 1;
    }
    cli_node_recording_end(n_nodes, out);
    return RP_OK;
}

/* A store into a cache is no activation. */
static bool is_store(const TensorNode *n) { return strcmp(rp_node_built_op(n), "copy") == 0; }

int cli_walk_end_of_layer(const Divergence *w, int layer) {
    int end = -1;
    for (int i = 0; i < w->list.n; i++) {
        const TensorNode *n = w->list.items[i].node;
        if (!w->d[i].compared || rp_node_layer(n) != layer || is_store(n)) continue;
        if (end < 0 || rp_node_built(n) > rp_node_built(w->list.items[end].node)) end = i;
    }
    return end;
}
