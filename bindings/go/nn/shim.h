/* shim.h - what has to be one call, so that C keeps no address of Go memory after it. */
#include <reprise/nn.h>

/* A copy to or from a device, and its end. */
int32_t reprise_go_write(void *to, const void *from, int64_t bytes, void *stream);
int32_t reprise_go_read(void *to, const void *from, int64_t bytes, void *stream);
