/* touch.h - memory before a measurement: its pages are made present, so that it does not contain page faults, or its
 * lines are evicted from the caches. */
#ifndef EXECUTOR_TOUCH_H
#define EXECUTOR_TOUCH_H

#include <stddef.h>

static inline void rp_touch(const void *from, size_t bytes) {
    enum { PAGE = 4096 };
    for (size_t at = 0; at < bytes; at += PAGE) (void)*((const volatile char *)from + at);
}

/* The lines come from memory when they are read next. Where user code cannot evict lines, it does nothing. */
static inline void rp_evict(const void *from, size_t bytes) {
    enum { LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE) {
#if defined(__x86_64__)
        __builtin_ia32_clflush((const char *)from + at);
#elif defined(__aarch64__)
        __asm__ volatile("dc civac, %0" : : "r"((const char *)from + at) : "memory");
#endif
    }
#if defined(__x86_64__)
    __builtin_ia32_mfence();
#elif defined(__aarch64__)
    __asm__ volatile("dsb ish" : : : "memory");
#endif
}

#endif
