/* Bytes that grow. */
#include "server/api/bytes.h"

#include <stdlib.h>
#include <string.h>

void bytes_put(Bytes *b, const char *p, size_t n) {
    if (b->failed) return;
    if (n >= b->room - b->n || b->p == NULL) {
        const size_t room  = (b->n + n + 1) * 2;
        char        *grown = realloc(b->p, room);
        if (grown == NULL) {
            b->failed = true;
            return;
        }
        b->p    = grown;
        b->room = room;
    }
    if (n > 0) memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void bytes_text(Bytes *b, const char *text) { bytes_put(b, text, strlen(text)); }

void bytes_clear(Bytes *b) {
    b->n = 0;
    if (b->p != NULL) b->p[0] = '\0';
}

void bytes_free(Bytes *b) {
    free(b->p);
    *b = (Bytes){0};
}
