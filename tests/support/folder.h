/* folder.h - a temporary folder of its own for each test of a suite:
 *
 *     TestSuite(name, .init = make_folder, .fini = remove_folder); */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static void make_folder(void) {
    strcpy(folder, "/tmp/reprise-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

#endif
