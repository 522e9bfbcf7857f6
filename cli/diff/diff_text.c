/* diff_text.c - prints the differences of two graphs as text. Layers that differ in the same way are printed
 * once: each layer is first printed to memory with its number replaced by *, then equal texts are grouped. */
#include "cli/diff/diff.h"
#include "cli/terminal/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- labels ---- */

/* Prints a name with the number of its layer as * and that of the layer before as *-1: in layer 5, "blk.5.q" gives
 * "blk.*.q" and "blk.4.out" gives "blk.*-1.out". Only whole numbers after a dot are replaced. */
static void put_generic(const char *text, int layer, FILE *out) {
    for (const char *p = text; *p != '\0';) {
        const size_t digits = strspn(p, "0123456789");
        const bool   whole  = digits > 0 && digits < 6 && p > text && p[-1] == '.' &&
                           (p[digits] == '.' || p[digits] == '\0' || p[digits] == ',');
        const int    number = whole ? atoi(p) : -2;
        const size_t n      = digits > 0 ? digits : 1;
        if (layer >= 0 && number == layer)
            fputc('*', out);
        else if (layer >= 0 && number >= 0 && number == layer - 1)
            fputs("*-1", out);
        else
            fwrite(p, 1, n, out);
        p += n;
    }
}

static void put_label(const DiffGraph *g, int i, int layer, FILE *out) {
    char label[256];
    cli_diff_label(g, i, label, sizeof label);
    put_generic(label, layer, out);
}

/* Writes "f16 [64,32]", without dimensions of 1 at the end; returns buf. */
static const char *shape_text(const DiffNode *n, char buf[96]) {
    int last = RP_MAX_DIMS - 1, at = 0;
    while (last > 0 && n->ne[last] == 1) last--;
    at = snprintf(buf, 96, "%.16s [", n->dtype);
    for (int d = 0; d <= last; d++)
        at += snprintf(buf + at, 96 - (size_t)at, "%" PRId64 "%s", n->ne[d], d < last ? "," : "]");
    return buf;
}

/* ---- one node ---- */

/* The rows of one layer: sign and op, name, shape and changes. */
typedef struct Rows {
    Table *table;
    int    layer;
} Rows;

/* Adds sign, op and name; a node without a name gets "of" and the label of its first source. */
static void add_node(const Rows *r, char sign, const DiffGraph *g, int i) {
    const DiffNode *n    = &g->nodes[i];
    char           *name = NULL;
    size_t          size = 0;
    FILE           *f    = open_memstream(&name, &size);
    cli_table_add(r->table, "%c %s", sign, n->op);
    if (f != NULL && n->name[0] != '\0') {
        put_generic(n->name, r->layer, f);
    } else if (f != NULL && n->n_src > 0) {
        fputs("of ", f);
        put_label(g, n->src[0], r->layer, f);
    }
    cli_table_add_stream(r->table, f, &name);
}

static void put_sources(const DiffGraph *g, const DiffNode *n, int layer, FILE *out) {
    for (int s = 0; s < n->n_src; s++) {
        if (s > 0) fputs(", ", out);
        put_label(g, n->src[s], layer, out);
    }
    if (n->n_src == 0) fputs("none", out);
}

/* Prints all sources if op or number of sources differ, else only the sources that differ. */
static void put_changed_sources(const DiffGraph *a, const DiffGraph *b, const DiffNode *x, const DiffNode *y, int layer,
                                FILE *out) {
    if (x->n_src != y->n_src || strcmp(x->op, y->op) != 0) {
        fputs("; sources ", out);
        put_sources(a, x, layer, out);
        fputs(" -> ", out);
        put_sources(b, y, layer, out);
        return;
    }
    for (int s = 0; s < x->n_src; s++) {
        if (x->src[s] < 0 ? y->src[s] < 0 : a->nodes[x->src[s]].partner == y->src[s]) continue;
        fprintf(out, "; source %d ", s);
        put_label(a, x->src[s], layer, out);
        fputs(" -> ", out);
        put_label(b, y->src[s], layer, out);
    }
}

static void put_value(const json_t *value, FILE *out) {
    if (value == NULL)
        fputs("none", out);
    else
        json_dumpf(value, out, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
}

/* Prints the parameters that differ, as "; eps 1e-05 -> 1e-06"; "none" stands for an absent one. */
static void put_params(const char *a, const char *b, FILE *out) {
    json_t       *x = json_loads(a, JSON_DECODE_ANY, NULL), *y = json_loads(b, JSON_DECODE_ANY, NULL);
    const char   *key;
    const json_t *value;
    json_object_foreach(x, key, value) {
        const json_t *other = json_object_get(y, key);
        if (other != NULL && json_equal(value, other)) continue;
        fprintf(out, "; %s ", key);
        put_value(value, out);
        fputs(" -> ", out);
        put_value(other, out);
    }
    json_object_foreach(y, key, value) {
        if (json_object_get(x, key) != NULL) continue;
        fprintf(out, "; %s none -> ", key);
        put_value(value, out);
    }
    json_decref(x);
    json_decref(y);
}

/* Prints shape and all changes of node k of b. */
static void put_changes(const DiffGraph *a, const DiffGraph *b, int k, int layer, FILE *out) {
    const DiffNode *y = &b->nodes[k], *x = &a->nodes[y->partner];
    const unsigned  changes = cli_diff_changes(a, b, k);
    char            shape[96];
    fputs(shape_text(y, shape), out);
    if (changes & DIFF_OP) fprintf(out, "; was %s", x->op);
    if (changes & (DIFF_DTYPE | DIFF_SHAPE)) fprintf(out, "; was %s", shape_text(x, shape));
    if (changes & DIFF_STRIDES) fputs("; strides differ", out);
    if (changes & DIFF_SOURCES) put_changed_sources(a, b, x, y, layer, out);
    if (changes & DIFF_PARAMS) put_params(x->params, y->params, out);
    if (changes & DIFF_OUTPUT) fputs(y->output ? "; now an output" : "; no longer an output", out);
    if (changes & DIFF_LAYER) fprintf(out, "; was in layer %d", x->layer);
}

static void add_changed(const Rows *r, const DiffGraph *a, const DiffGraph *b, int k) {
    char  *text = NULL;
    size_t size = 0;
    FILE  *f    = open_memstream(&text, &size);
    add_node(r, '~', b, k);
    if (f != NULL) put_changes(a, b, k, r->layer, f);
    cli_table_add_stream(r->table, f, &text);
}

/* The row of a node that only one graph has, with sign + or -. */
static void add_whole(const Rows *r, char sign, const DiffGraph *g, int i) {
    char shape[96];
    add_node(r, sign, g, i);
    cli_table_add(r->table, "%s", shape_text(&g->nodes[i], shape));
}

/* ---- a layer ---- */

/* The nodes of a layer of a, and how many of them are dealt with. */
typedef struct Removed {
    const int *nodes;
    int        n, done;
} Removed;

/* Adds the nodes of a before node `end` that b lacks. */
static void add_removed(const Rows *r, const DiffGraph *a, Removed *m, int end) {
    for (; m->done < m->n && m->nodes[m->done] < end; m->done++)
        if (a->nodes[m->nodes[m->done]].partner < 0) add_whole(r, '-', a, m->nodes[m->done]);
}

/* Adds the changes of one layer in the order of b, with removed nodes where they were in a. */
static void add_layer(const Rows *r, const DiffGraph *a, const DiffGraph *b) {
    int        n;
    Removed    removed = {0};
    const int *nodes   = cli_diff_layer(b, r->layer, &n);
    removed.nodes      = cli_diff_layer(a, r->layer, &removed.n);
    for (int i = 0; i < n; i++) {
        const int       k = nodes[i];
        const DiffNode *y = &b->nodes[k];
        if (y->partner >= 0) add_removed(r, a, &removed, y->partner);
        if (y->partner < 0)
            add_whole(r, '+', b, k);
        else if (cli_diff_changes(a, b, k) != 0)
            add_changed(r, a, b, k);
    }
    add_removed(r, a, &removed, a->n);
}

/* The rows of a layer as text, "" without differences. The caller frees; NULL: out of memory. */
static char *layer_text(const DiffGraph *a, const DiffGraph *b, int layer) {
    char      *text = NULL;
    size_t     size = 0;
    FILE      *f    = open_memstream(&text, &size);
    const Rows r    = {cli_table_new("||"), layer};
    add_layer(&r, a, b);
    RpStatus st = f != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a report");
    if (st == RP_OK)
        st = cli_table_print(r.table, f, 2);
    else
        cli_table_free(r.table);
    if (f != NULL && fclose(f) == 0 && st == RP_OK) return text;
    free(text);
    return NULL;
}

typedef struct LayerText {
    char *text;
    int   layer;
} LayerText;

static int by_text(const void *a, const void *b) {
    const LayerText *x = a, *y = b;
    const int        order = strcmp(x->text, y->text);
    return order != 0 ? order : (x->layer > y->layer) - (x->layer < y->layer);
}

/* The number of texts that are equal to the first one, which stand together. */
static int count_same(const LayerText *t, int n) {
    int count = 1;
    while (count < n && strcmp(t[count].text, t->text) == 0) count++;
    return count;
}

/* Prints one text under the heading of its n layers, such as "layers 0-2, 4  (x4)". */
static void put_layers(const LayerText *t, int n, FILE *out) {
    fprintf(out, n > 1 ? "layers " : "layer ");
    for (int i = 0, end; i < n; i = end + 1) {
        for (end = i; end + 1 < n && t[end + 1].layer == t[end].layer + 1;) end++;
        fprintf(out, end > i ? "%s%d-%d" : "%s%d", i > 0 ? ", " : "", t[i].layer, t[end].layer);
    }
    if (n > 1) fprintf(out, "  (x%d)", n);
    fprintf(out, "\n%s", t->text);
}

/* Prints equal texts once, in the order of the first layer of each. `starts` [n]: room for where the texts of a group
 * begin. */
static void put_groups(LayerText *t, int n, int *starts, FILE *out) {
    qsort(t, (size_t)n, sizeof *t, by_text);
    for (int l = 0; l < n; l++) starts[l] = -1;
    for (int i = 0; i < n; i += count_same(t + i, n - i)) starts[t[i].layer] = i;
    for (int l = 0; l < n; l++)
        if (starts[l] >= 0 && t[starts[l]].text[0] != '\0')
            put_layers(t + starts[l], count_same(t + starts[l], n - starts[l]), out);
}

static void put_summary(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    const DiffCounts c = cli_diff_count(a, b);
    fprintf(out, "a  %s%s%s\n", a->label, a->title[0] != '\0' ? "  " : "", a->title);
    fprintf(out, "b  %s%s%s\n", b->label, b->title[0] != '\0' ? "  " : "", b->title);
    fprintf(out, "kernels %d -> %d, nodes %d -> %d: ", a->n_kernels, b->n_kernels, a->n, b->n);
    if (c.added + c.removed + c.changed == 0)
        fputs("no difference\n", out);
    else
        fprintf(out, "%d added, %d removed, %d changed\n", c.added, c.removed, c.changed);
}

RpStatus cli_diff_print(const DiffGraph *a, const DiffGraph *b, FILE *out) {
    const int  n     = (a->last_layer > b->last_layer ? a->last_layer : b->last_layer) + 1;
    LayerText *texts = calloc((size_t)n + 1, sizeof *texts); /* -1 comes first */
    int       *room  = malloc(((size_t)n + 1) * sizeof *room);
    RpStatus   st    = texts != NULL && room != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a report");
    put_summary(a, b, out);
    for (int l = -1; l < n && st == RP_OK; l++) {
        texts[l + 1] = (LayerText){layer_text(a, b, l), l};
        if (texts[l + 1].text == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for a report");
    }
    if (st == RP_OK && texts[0].text[0] != '\0') fprintf(out, "outside the layers\n%s", texts[0].text);
    if (st == RP_OK) put_groups(texts + 1, n, room, out);
    if (st == RP_OK) st = cli_diff_print_times(a, b, out);
    for (int l = 0; texts != NULL && l <= n; l++) free(texts[l].text);
    free(texts);
    free(room);
    return st;
}
