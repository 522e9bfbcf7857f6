/* Fuzz target: a manifest.
 *     byte 0  bit 0: the checksum is made right      then the file, with bit 0 all of it up to its checksum
 * One that is read is written again, and that is read as the same: its second text is its third. */
#include "tests/fuzz/file_edit.h"

#include "manifest/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text of the manifest in `text`; NULL: it is refused. The caller frees. */
static char *again(const char *text, size_t n, size_t *n_out) {
    Manifest m;
    char    *out = NULL;
    *n_out       = 0;
    if (manifest_parse(text, n, "m.json", &m) == RP_OK) {
        fuzz_expect(m.n_turns > 0 && m.n_turns <= MANIFEST_TURNS && m.n_loras <= MANIFEST_LORAS, "limits");
        for (size_t i = 0; i < m.n_turns; i++) {
            const ManifestTurn *t = &m.turns[i];
            fuzz_expect(strlen(t->draws) == t->tokens.n && (size_t)t->kept < t->prompt.n, "a turn");
        }
        fuzz_expect(manifest_text(&m, &out, n_out) == RP_OK, "what was read is written");
    } else {
        fuzz_expect(rp_last_error()[0] != '\0', "a refusal has a text");
    }
    manifest_free(&m);
    return out;
}

static void check(const char *text, size_t n) {
    size_t n_first, n_second;
    char  *first = again(text, n, &n_first);
    if (first == NULL) return;
    char *second = again(first, n_first, &n_second);
    fuzz_expect(second != NULL && n_first == n_second && memcmp(first, second, n_first) == 0, "another manifest");
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const char  *text = (const char *)data + 1;
    const size_t n    = size - 1;
    if ((data[0] & 1) == 0) {
        check(text, n);
        return 0;
    }
    char *whole = malloc(n + 64);
    fuzz_expect(whole != NULL, "memory");
    memcpy(whole, text, n);
    const int tail = sprintf(whole + n, ",\"checksum\":\"%016" PRIx64 "\"}\n", rp_xxh64(text, n));
    check(whole, n + (size_t)tail);
    free(whole);
    return 0;
}
