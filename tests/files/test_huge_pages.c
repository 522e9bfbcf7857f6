/* The share of a model's weights on huge pages (cli/machine/huge_pages.h), from lists of mappings written here. */
#include "cli/machine/huge_pages.h"
#include "tests/support/golden.h"

#include <math.h>
#include <stdint.h>

/* First byte of the tensors, and the one behind the last. Between them are a few bytes of padding. */
static uintptr_t begin_of(const RpGgufFile *f) { return (uintptr_t)rp_gguf_tensor(f, 0)->view.data; }

static uintptr_t end_of(const RpGgufFile *f) {
    const RpGgufTensor *t = rp_gguf_tensor(f, rp_gguf_n_tensors(f) - 1);
    return (uintptr_t)t->view.data + t->bytes;
}

static double share(const RpGgufFile *f, const char *smaps) {
    FILE *file = fmemopen((void *)(uintptr_t)smaps, strlen(smaps), "r");
    cr_assert_not_null(file);
    const double x = cli_huge_share_in(file, f);
    fclose(file);
    return x;
}

/* Appends a mapping to the text. */
static void map(char *text, uintptr_t from, uintptr_t end, const char *kind, size_t huge_kilobytes) {
    sprintf(text + strlen(text),
            "%llx-%llx r--p 00100000 fe:00 5398560    /models/a model.gguf\nSize:   %zu kB\nAnonHugePages:   0 kB\n"
            "%s   %zu kB\nVmFlags: rd mr mw me hg \n",
            (unsigned long long)from, (unsigned long long)end, (size_t)(end - from) / 1024, kind, huge_kilobytes);
}

Test(huge_pages, are_counted_in_the_mappings_of_the_weights) {
    char     text[4096] = "";
    RpModel *m;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &m));
    const RpGgufFile *f     = rp_model_file(m);
    const uintptr_t   begin = begin_of(f), end = end_of(f), half = begin + (end - begin) / 2;
    const double      all = (double)rp_model_info(m)->weight_bytes;
    cr_expect_eq(share(f, ""), 0.0);

    map(text, begin - 4096, end + 4096, "FilePmdMapped:", 2048);
    cr_expect(fabs(share(f, text) - 2048.0 * 1024.0 / all) < 1e-9, "%g", share(f, text));

    text[0] = '\0'; /* two mappings, of which the second is on huge pages as a whole */
    map(text, begin - 4096, half, "FilePmdMapped:", 0);
    map(text, half, end + 4096, "AnonHugePages:", (end + 4096 - half) / 1024);
    cr_expect(fabs(share(f, text) - 0.5) < 0.01, "%g", share(f, text));

    text[0] = '\0'; /* another file */
    map(text, end + 4096, end + (8 << 20), "FilePmdMapped:", 4096);
    cr_expect_eq(share(f, text), 0.0, "%g", share(f, text));
    rp_model_free(m);
}

/* Which pages the system gives is its choice. */
Test(huge_pages, of_this_process_are_a_share) {
    RpModel *m;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", &(RpModelOptions){.copy = true}, &m));
    const double x = cli_huge_share(m);
    cr_expect(x == -1.0 || (x >= 0.0 && x <= 1.0), "%g", x);
    rp_model_free(m);
}
