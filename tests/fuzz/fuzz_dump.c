/* Fuzz target: saved dumps of graphs, as `reprise graph --diff` reads them. The input is one dump, or two with a byte 0
 * between them. What was read is matched and printed in every form; nothing but whole control-free lines may come out. */
#include "cli/diff/diff.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool ok) {
    if (!ok) __builtin_trap();
}

static void print(const DiffGraph *a, const DiffGraph *b) {
    static RpStatus (*const printers[])(const DiffGraph *, const DiffGraph *, FILE *) = {
        cli_diff_print, cli_diff_print_json, cli_diff_print_times};
    for (int i = 0; i < 3; i++) {
        char  *text = NULL;
        size_t n    = 0;
        FILE  *out  = open_memstream(&text, &n);
        expect(out != NULL);
        (void)printers[i](a, b, out);
        expect(fclose(out) == 0);
        for (size_t k = 0; k < n; k++)
            expect(((unsigned char)text[k] >= 0x20 || text[k] == '\n' || text[k] == '\t') && text[k] != 0x7f);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = memchr(data, 0, size);
    const size_t   n    = zero != NULL ? (size_t)(zero - data) : size;
    const char    *text[2] = {(const char *)data, zero != NULL ? (const char *)zero + 1 : (const char *)data};
    const size_t   len[2]  = {n, zero != NULL ? size - n - 1 : size};
    DiffGraph      g[2]    = {{.label = "a"}, {.label = "b"}};
    const bool     read    = cli_diff_read(text[0], len[0], "a", &g[0]) == RP_OK &&
                      cli_diff_read(text[1], len[1], "b", &g[1]) == RP_OK;
    if (read && g[0].n <= 1000 && g[1].n <= 1000) {
        char label[64];
        if (cli_diff_match(&g[0], &g[1]) == RP_OK) {
            const DiffCounts c = cli_diff_count(&g[0], &g[1], -2);
            if (zero == NULL) expect(c.added + c.removed + c.changed == 0); /* a graph does not differ from itself */
            for (int i = 0; i < g[1].n; i++) (void)cli_diff_changes(&g[0], &g[1], i);
            print(&g[0], &g[1]);
        }
        for (int i = 0; i < g[0].n; i++) cli_diff_label(&g[0], i, label, sizeof label);
    }
    for (int i = 0; i < 2; i++) cli_diff_free(&g[i]);
    return 0;
}
