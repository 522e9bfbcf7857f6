/* Fuzz target: a damaged float model is quantised. Bytes of the input as in file_edit.h; option 1 is the type. A file
 * may be refused. What was written must open, and be a model if the input is one. */
#include "tests/fuzz/file_edit.h"

#include "reprise/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed);
}

static bool opens(const char *path) {
    RpModel *m;
    if (rp_model_open(path, NULL, &m) != RP_OK) return false;
    rp_model_free(m);
    return true;
}

static const char *type_of(uint8_t option) {
    int n = 0;
    while (rp_convert_type_name(n) != NULL) n++;
    return rp_convert_type_name(option % n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char        in[64], out[64];
    FuzzFile    f;
    RpGgufFile *g;
    fuzz_path(in, "in.gguf"), fuzz_path(out, "out.gguf");
    fuzz_file_make(&f, fuzz_float(), data, size);
    if (f.n <= FUZZ_MAX_BYTES) {
        fuzz_save(in, f.bytes, f.n);
        if (rp_requantize(in, out, type_of(size > 1 ? data[1] : 0), NULL, NULL) == RP_OK) {
            fuzz_expect(rp_gguf_open(out, &g) == RP_OK, "the file that was written does not open");
            rp_gguf_close(g);
            if (opens(in)) fuzz_expect(opens(out), "a model was quantised, and the result is none");
            unlink(out);
        }
        fuzz_expect(access(out, F_OK) != 0, "a file is left behind after a failure");
        unlink(in);
    }
    fuzz_file_free(&f);
    return 0;
}
