/* The files of the chat page in the program are those of the source tree. */
#include "server/page/page.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const PageFile *find(const char *path) {
    const PageFile *file = server_page_files;
    while (file->path && strcmp(file->path, path) != 0) file++;
    return file->path ? file : NULL;
}

Test(page_files, every_file_has_the_bytes_of_its_source) {
    static unsigned char bytes[1 << 17];
    int                  n = 0;
    for (; server_page_files[n].path; n++) {
        const PageFile *file = &server_page_files[n];
        char            path[512];
        snprintf(path, sizeof path, "%s/server/page/%s", RP_SOURCE_DIR, file->path[1] ? file->path + 1 : "page.html");
        FILE *source = fopen(path, "rb");
        cr_assert_not_null(source, "%s", path);
        size_t n_bytes = fread(bytes, 1, sizeof bytes, source);
        fclose(source);
        cr_expect_eq(file->n_bytes, n_bytes, "%s", path);
        cr_expect_eq(memcmp(file->bytes, bytes, n_bytes), 0, "%s", path);
    }
    cr_expect_geq(n, 5);
}

Test(page_files, types_are_those_that_browsers_insist_on) {
    static const char *const types[][2] = {
        {"/",         "text/html; charset=utf-8"      },
        {"/page.css", "text/css; charset=utf-8"       },
        {"/page.js",  "text/javascript; charset=utf-8"},
        {"/icon.svg", "image/svg+xml"                 }
    };
    for (int i = 0; i < 4; i++) {
        const PageFile *file = find(types[i][0]);
        cr_assert_not_null(file, CASE(i));
        cr_expect_str_eq(file->type, types[i][1], CASE(i));
    }
}
