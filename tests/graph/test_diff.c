/* `reprise graph --diff`: work and memory grow with the nodes, however many layers they are in. Work is counted in
 * basic blocks (cli/diff is compiled with -fsanitize-coverage=trace-pc), memory in bytes of the JSON parser. */
#include "tests/support/golden.h"

#include "cli/diff/diff.h"

#include <malloc.h>

enum { N_LAYERS = 4097 };

static size_t blocks, bytes, peak;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { blocks++; }

static void *count_malloc(size_t n) {
    void *p = malloc(n);
    bytes += malloc_usable_size(p);
    if (bytes > peak) peak = bytes;
    return p;
}

/* Texts of json_dumps are freed without it, so that a few bytes a node are counted too much. */
static void count_free(void *p) {
    bytes -= malloc_usable_size(p);
    free(p);
}

/* n nodes, spread evenly over the layers; each second has another shape where `other`, and each layer another text. */
static char *dump(int n, bool other, size_t *size) {
    char *text = NULL;
    FILE *f    = open_memstream(&text, size);
    cr_assert_not_null(f);
    fputs("{\"title\":\"many layers\",\"nodes\":[", f);
    for (int i = 0; i < n; i++) {
        const int layer = (int)((long)i * N_LAYERS / n);
        fprintf(f,
                "%s\n{\"id\":%d,\"op\":\"%s\",\"name\":\"blk.%d.n%d\",\"layer\":%d,\"dtype\":\"f32\",\"ne\":["
                "%d,1,1,1],"
                "\"nb\":[4,256,256,256],\"kernel\":true,\"output\":false,\"sources\":[],\"params\":{\"eps\":"
                "0.5}}",
                i > 0 ? "," : "", i, i == 0 ? "input" : "silu", layer, i, layer, other && i % 2 == 1 ? 100 + i : 64);
    }
    fputs("]}\n", f);
    fclose(f);
    return text;
}

typedef struct Cost {
    size_t blocks, bytes;
} Cost;

static Cost cost_of(int n) {
    DiffGraph g[2] = {{.label = "a"}, {.label = "b"}};
    char     *text = NULL;
    size_t    size;
    blocks = bytes = peak = 0;
    for (int i = 0; i < 2; i++) {
        char *in = dump(n, i == 1, &size);
        OK(cli_diff_read(in, size, "dump", &g[i]));
        free(in);
    }
    OK(cli_diff_match(&g[0], &g[1]));
    const DiffCounts c = cli_diff_count(&g[0], &g[1]);
    cr_assert(c.added == 0 && c.removed == 0 && c.changed == n / 2, "%d changed", c.changed);
    FILE *f = open_memstream(&text, &size);
    OK(cli_diff_print(&g[0], &g[1], f));
    OK(cli_diff_print_json(&g[0], &g[1], f));
    fclose(f);
    cr_assert_not_null(strstr(text, "\nlayer 4096\n"));
    free(text);
    for (int i = 0; i < 2; i++) cli_diff_free(&g[i]);
    return (Cost){blocks, peak};
}

Test(diff, work_and_memory_grow_with_the_nodes) {
    json_set_alloc_funcs(count_malloc, count_free);
    const Cost one = cost_of(2 * N_LAYERS), two = cost_of(4 * N_LAYERS);
    cr_expect_gt(one.blocks, (size_t)N_LAYERS, "blocks are counted");
    cr_expect_lt(two.blocks, 5 * one.blocks / 2, "%zu blocks, then %zu", one.blocks, two.blocks);
    cr_expect_lt(one.blocks, (size_t)2 * N_LAYERS * 1500, "%zu blocks", one.blocks);
    cr_expect_lt(two.bytes, (size_t)4 * N_LAYERS * 2 * 200, "%zu bytes", two.bytes);
}
