/* Fuzz target: any bytes as a file of weights. Byte 0 and 1: bytes of header, of which the length in front is made;
 * what is behind them are the data. With a header of 65535 the whole input is the file. Each tensor that is
 * accepted is read. */
#include "model/gguf/gguf_file.h"
#include "model/hf/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_file(const unsigned char *data, size_t bytes) {
    static char            path[] = "fuzz.safetensors";
    static volatile size_t sink;
    RpGgufFile             file = {.path = path, .data = data, .bytes = bytes, .read_bytes = bytes, .map = {.fd = -1}};
    Safetensors            s;
    if (rp_safetensors_read(&file, &s) == RP_OK)
        for (size_t i = 0; i < s.n; i++)
            for (size_t k = 0; k < s.tensors[i].bytes; k++) sink = sink + s.tensors[i].data[k];
    rp_safetensors_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    uint64_t header = data[0] | (uint64_t)data[1] << 8;
    data += 2, size -= 2;
    if (header == 65535) {
        read_file(data, size);
        return 0;
    }
    if (header > size) header = size;
    unsigned char *file = malloc(8 + size);
    if (file == NULL) return 0;
    memcpy(file, &header, sizeof header);
    if (size > 0) memcpy(file + 8, data, size);
    read_file(file, 8 + size);
    free(file);
    return 0;
}
