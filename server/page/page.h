/* page.h - the files of the chat page, which are part of the program (cmake/page.cmake). */
#ifndef SERVER_PAGE_PAGE_H
#define SERVER_PAGE_PAGE_H

#include <stddef.h>

typedef struct PageFile {
    const char          *path; /* what a request asks for: "/" is page.html, all others "/" and the name of the file */
    const char          *type; /* the value of Content-Type */
    const unsigned char *bytes;
    size_t               n_bytes;
} PageFile;

/* All files of the page, which loads nothing else. The last entry has path NULL. The page works with the policy
 *     default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';
 *     require-trusted-types-for 'script' */
extern const PageFile server_page_files[];

#endif
