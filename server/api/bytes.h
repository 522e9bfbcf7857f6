/* bytes.h - bytes that grow. */
#ifndef SERVER_API_BYTES_H
#define SERVER_API_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise it. After `failed`, an allocation that failed, nothing is added. */
typedef struct Bytes {
    char  *p; /* n bytes and a NUL, or NULL */
    size_t n, room;
    bool   failed;
} Bytes;

void bytes_put(Bytes *b, const char *p, size_t n);
void bytes_text(Bytes *b, const char *text);
void bytes_clear(Bytes *b); /* keeps the room */
void bytes_free(Bytes *b);

#endif
