/* Fuzz target: any text as config.json. What it becomes is metadata that can be opened and is read as a
 * configuration. */
#include "model/config.h"
#include "model/hf/hf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char real[] = "/fuzz";
    HfModel     m      = {
                 .dir = {.path = "fuzz", .real = real}
    };
    char       *blob = NULL;
    size_t      bytes;
    RpGgufFile *f;
    ModelConfig c;
    HfTarget    target;
    if (rp_json_read("config.json", (const char *)data, size, &m.config) == RP_OK &&
        rp_gguf_writer_memory("fuzz", &m.out) == RP_OK && rp_hf_config(&m) == RP_OK) {
        rp_hf_name(&m, (RpGgufString){(const char *)data, size}, 0, &target);
        if (rp_gguf_writer_take(m.out, &blob, &bytes) != RP_OK) abort();
        if (rp_gguf_open_memory(blob, bytes, "fuzz", &f) != RP_OK) __builtin_trap(); /* what is written can be read */
        if (rp_config_read(f, &c) == RP_OK)
            for (int i = 0; i < c.n_layer; i++) (void)rp_config_layer(&c, i);
        rp_gguf_close(f);
    }
    free(blob);
    rp_gguf_writer_drop(m.out);
    rp_json_free(&m.config);
    for (int i = 0; i < m.n_vectors; i++) free(m.vectors[i].x);
    return 0;
}
