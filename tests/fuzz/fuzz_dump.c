/* Fuzz target: saved dumps of graphs, as `reprise graph --diff` reads them. The input is one dump, or two with a byte 0
 * between them. What was read is matched and printed in every form; nothing but whole control-free lines may come
 * out. */
#include "cli/diff/diff.h"

#include <stdlib.h>
#include <string.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

static void expect(bool ok) {
    if (!ok) __builtin_trap();
}

/* ---- mutation of one member of one node ---- */

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static json_t *any_value(unsigned *seed) {
    static const char *const texts[] = {"",    "weight",       "state",   "rope", "blk.1.q", "blk.0.k",
                                        "f32", "\xe2\x96\x81", "\033[2J", "a b",  "9"};
    static const json_int_t  whole[] = {0, -1, 1, 2, 3, 16, 4096, 16777216, INT64_MAX, INT64_MIN};
    static const double      real[]  = {0.5, -1.0, 1e308, 1e-300, 1e18};
    char                     text[301];
    switch (next(seed) % 8) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(next(seed) % 2);
    case 2:
        return json_real(real[next(seed) % 5]);
    case 3:
        return json_array();
    case 4:
        return json_object();
    case 5: /* long, and without a character boundary at every length */
        for (size_t i = 0; i < 300; i += 3) memcpy(text + i, texts[7], 3);
        text[300] = '\0';
        return json_string(text + 3 * (next(seed) % 100));
    case 6:
        return json_string(texts[next(seed) % 11]);
    default:
        return json_integer(whole[next(seed) % 10]);
    }
}

/* Removes, copies or replaces a member of a node, an element of one of its lists, or the whole node. */
static void change(json_t *nodes, unsigned *seed) {
    static const char *const keys[] = {"id", "layer",  "op",     "name",   "dtype", "ne",
                                       "nb", "kernel", "output", "params", "us",    "sources"};
    const size_t             n      = json_array_size(nodes);
    if (n == 0) return;
    const size_t i    = next(seed) % n;
    json_t      *node = json_array_get(nodes, i), *other = json_array_get(nodes, next(seed) % n);
    const char  *key  = keys[next(seed) % 12];
    json_t      *list = json_object_get(node, key);
    switch (next(seed) % 6) {
    case 0:
        json_object_del(node, key);
        break;
    case 1:
        json_object_set(node, key, json_object_get(other, key));
        break;
    case 2:
        json_array_remove(nodes, i);
        break;
    case 3:
        if (json_array_size(list) > 0) json_array_set_new(list, next(seed) % json_array_size(list), any_value(seed));
        break;
    default:
        json_object_set_new(node, key, any_value(seed));
    }
}

/* A quarter of the mutations are of bytes; the others keep the text a dump. A graph may get a title. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    const uint8_t *zero = memchr(data, 0, size);
    const size_t   from = zero != NULL && seed % 2 == 0 ? (size_t)(zero - data) + 1 : 0;
    const size_t   end  = zero != NULL && from == 0 ? (size_t)(zero - data) : size;
    json_t        *o    = json_loadb((const char *)data + from, end - from, 0, NULL);
    json_t        *g    = json_object_get(o, "graph") != NULL ? json_object_get(o, "graph") : o;
    size_t         n    = 0;
    if (next(&seed) % 4 != 0 && json_is_array(json_object_get(g, "nodes"))) {
        for (unsigned k = 1 + next(&seed) % 3; k > 0; k--) change(json_object_get(g, "nodes"), &seed);
        if (next(&seed) % 16 == 0) json_object_set_new(g, "title", any_value(&seed));
        char *text = json_dumps(o, JSON_COMPACT);
        n          = text != NULL ? strlen(text) : 0;
        if (n > 0 && n + size - (end - from) <= room) {
            memmove(data + from + n, data + end, size - end);
            memcpy(data + from, text, n);
        } else {
            n = 0;
        }
        free(text);
    }
    json_decref(o);
    return n > 0 ? n + size - (end - from) : LLVMFuzzerMutate(data, size, room);
}

/* ---- the test ---- */

/* The output of --json is JSON, and a change that is counted has a member that tells it. */
static void check_json(const char *text, size_t n) {
    json_t       *o       = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    const json_t *changed = json_object_get(o, "changed"), *item;
    size_t        i;
    expect(json_is_array(changed));
    json_array_foreach(changed, i, item) expect(json_object_size(json_object_get(item, "changes")) > 0);
    json_decref(o);
}

static void print(const DiffGraph *a, const DiffGraph *b) {
    static RpStatus (*const printers[])(const DiffGraph *, const DiffGraph *,
                                        FILE *) = {cli_diff_print, cli_diff_print_json, cli_diff_print_times};
    for (int i = 0; i < 3; i++) {
        char  *text = NULL;
        size_t n    = 0;
        FILE  *out  = open_memstream(&text, &n);
        expect(out != NULL);
        const RpStatus st = printers[i](a, b, out);
        if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
        expect(st == RP_OK && fclose(out) == 0);
        if (i == 1) check_json(text, n);
        for (size_t k = 0; k < n; k++)
            expect(((unsigned char)text[k] >= 0x20 || text[k] == '\n' || text[k] == '\t') && text[k] != 0x7f);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero    = memchr(data, 0, size);
    const size_t   n       = zero != NULL ? (size_t)(zero - data) : size;
    const char    *text[2] = {(const char *)data, zero != NULL ? (const char *)zero + 1 : (const char *)data};
    const size_t   len[2]  = {n, zero != NULL ? size - n - 1 : size};
    DiffGraph      g[2]    = {{.label = "a"}, {.label = "b"}};
    const bool     read =
        cli_diff_read(text[0], len[0], "a", &g[0]) == RP_OK && cli_diff_read(text[1], len[1], "b", &g[1]) == RP_OK;
    if (read && g[0].n <= 1000 && g[1].n <= 1000) {
        char label[64];
        if (cli_diff_match(&g[0], &g[1]) == RP_OK) {
            const DiffCounts c = cli_diff_count(&g[0], &g[1]);
            if (zero == NULL) expect(c.added + c.removed + c.changed == 0); /* a graph does not differ from itself */
            for (int i = 0; i < g[1].n; i++) (void)cli_diff_changes(&g[0], &g[1], i);
            print(&g[0], &g[1]);
        }
        for (int i = 0; i < g[0].n; i++) cli_diff_label(&g[0], i, label, sizeof label);
    }
    for (int i = 0; i < 2; i++) cli_diff_free(&g[i]);
    return 0;
}
