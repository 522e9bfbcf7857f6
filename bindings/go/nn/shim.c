/* Copies between Go memory and a device. */
#include "shim.h"

int32_t reprise_go_write(void *to, const void *from, int64_t bytes, void *stream) {
    const int32_t st = rp_nn_copy_to_device(to, from, bytes, stream);
    return st != RP_NN_OK ? st : rp_nn_stream_sync(stream);
}

int32_t reprise_go_read(void *to, const void *from, int64_t bytes, void *stream) {
    const int32_t st = rp_nn_copy_to_host(to, from, bytes, stream);
    return st != RP_NN_OK ? st : rp_nn_stream_sync(stream);
}
