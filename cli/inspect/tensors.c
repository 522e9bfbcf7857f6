/* Tables and JSON of tensors (tensors.h). */
#include "cli/inspect/tensors.h"

#include "cli/common.h"
#include "cli/terminal/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 64 };

void cli_list_heading(const char *text) {
    printf("\n%s%s%s\n", cli_style(stdout, STYLE_HEADING), text, cli_style(stdout, STYLE_PLAIN));
}

static void print_json(const ListedTensor *tensors, size_t n) {
    printf(",\"tensors\":[");
    for (size_t i = 0; i < n; i++) {
        const ListedTensor *t  = &tensors[i];
        const int64_t      *ne = t->ne;
        printf("%s{\"name\":", i > 0 ? "," : "");
        rp_put_json_string(t->name.ptr, t->name.len, stdout);
        printf(",\"type\":");
        rp_put_json_string(t->type, strlen(t->type), stdout);
        printf(",\"shape\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "],\"bytes\":%zu}", ne[0], ne[1], ne[2],
               ne[3], t->bytes);
    }
    printf("]");
}

/* Adds the name of a tensor as a cell. */
static void add_name(Table *table, const ListedTensor *t) {
    char  *text = NULL;
    size_t size = 0;
    FILE  *f    = open_memstream(&text, &size);
    if (f != NULL) {
        cli_print_escaped(f, t->name.ptr, t->name.len, SIZE_MAX);
        if (t->unsupported) fprintf(f, "  (type %u is not supported)", t->gguf_type);
    }
    cli_table_add_stream(table, f, &text);
}

RpStatus cli_list_tensors(const ListedTensor *tensors, size_t n, bool json) {
    if (json) {
        print_json(tensors, n);
        return RP_OK;
    }
    Table *table = cli_table_new("type|>ne0|>ne1|>ne2|>ne3|>bytes|name");
    cli_list_heading("tensors");
    for (size_t i = 0; i < n; i++) {
        const ListedTensor *t = &tensors[i];
        cli_table_add(table, "%s", t->type);
        for (int d = 0; d < RP_MAX_DIMS; d++) cli_table_add(table, "%" PRId64, t->ne[d]);
        cli_table_add(table, "%zu", t->bytes);
        add_name(table, t);
    }
    return cli_table_print(table, stdout, 2);
}

/* Totals of the tensors of one type. */
typedef struct TypeTotal {
    const char *type;
    int64_t     tensors, params;
    double      bytes;
} TypeTotal;

static int by_bytes(const void *a, const void *b) {
    const TypeTotal *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Sums the tensors by type, the type with the most bytes first. Returns the number of types. */
static size_t count_types(const ListedTensor *tensors, size_t n_tensors, TypeTotal types[MAX_TYPES], TypeTotal *all) {
    size_t n = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        const ListedTensor *t = &tensors[i];
        size_t              k = 0;
        while (k < n && strcmp(types[k].type, t->type) != 0) k++;
        if (k == n && n == MAX_TYPES) k--; /* more than the formats have: added to the last */
        if (k == n) types[n++] = (TypeTotal){.type = t->type};
        TypeTotal *const counts[] = {&types[k], all};
        for (size_t c = 0; c < 2; c++) {
            counts[c]->tensors++;
            counts[c]->params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
            counts[c]->bytes += (double)t->bytes;
        }
    }
    qsort(types, n, sizeof *types, by_bytes);
    return n;
}

RpStatus cli_list_types(const ListedTensor *tensors, size_t n_tensors, bool json) {
    TypeTotal    types[MAX_TYPES], all = {0};
    const size_t n = count_types(tensors, n_tensors, types, &all);
    if (json) {
        printf(",\"params\":%" PRId64 ",\"weight_bytes\":%.0f,\"types\":[", all.params, all.bytes);
        for (size_t i = 0; i < n; i++) {
            printf("%s{\"type\":", i > 0 ? "," : "");
            rp_put_json_string(types[i].type, strlen(types[i].type), stdout);
            printf(",\"tensors\":%" PRId64 ",\"bytes\":%.0f}", types[i].tensors, types[i].bytes);
        }
        printf("]");
        return RP_OK;
    }
    printf("%" PRId64 " tensors, %.2f M parameters, %.2f MB, %.2f bits per weight\n", all.tensors,
           (double)all.params / 1e6, all.bytes / 1e6, all.params > 0 ? 8.0 * all.bytes / (double)all.params : 0.0);
    Table *t = cli_table_new("|>|>|>");
    for (size_t i = 0; i < n; i++) {
        cli_table_add(t, "%s", types[i].type);
        cli_table_add(t, "%" PRId64 " tensors", types[i].tensors);
        cli_table_add(t, "%.2f MB", types[i].bytes / 1e6);
        cli_table_add(t, "%.1f %%", all.bytes > 0.0 ? 100.0 * types[i].bytes / all.bytes : 0.0);
    }
    return cli_table_print(t, stdout, 2);
}
