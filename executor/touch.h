/* touch.h - makes the pages of a mapped file present, so that a measurement after it does not contain page faults. */
#ifndef EXECUTOR_TOUCH_H
#define EXECUTOR_TOUCH_H

#include <stddef.h>

static inline void rp_touch(const void *from, size_t bytes) {
    enum { PAGE = 4096 };
    for (size_t at = 0; at < bytes; at += PAGE) (void)*((const volatile char *)from + at);
}

#endif
