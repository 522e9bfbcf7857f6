/* huge_pages.h - memory on huge pages where the system has them. */
#ifndef EXECUTOR_HUGE_PAGES_H
#define EXECUTOR_HUGE_PAGES_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { RP_HUGE_PAGE = 2 << 20 };

/* Allocates memory on huge pages: a decode reads all weights in order, and would miss the TLB at every small page. The
 * rest after the last whole huge page is on small pages, so no memory is wasted. Free it with free(); NULL if out of
 * memory. */
static inline void *rp_huge_alloc(size_t bytes) {
    enum { PAGE = 4096 };
    const size_t align = bytes < RP_HUGE_PAGE ? PAGE : RP_HUGE_PAGE;
    void        *data  = aligned_alloc(align, (bytes + align - 1) / align * align);
#ifdef MADV_HUGEPAGE
    if (data != NULL && align == RP_HUGE_PAGE) (void)madvise(data, bytes / RP_HUGE_PAGE * RP_HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return data;
}

#endif
