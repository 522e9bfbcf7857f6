/* folders.h - the folders of a suite that simulates the loss of power (power.h):
 *
 *     TestSuite(power_loss, .init = make_folders, .fini = remove_folders); */
#ifndef TESTS_POWER_FOLDERS_H
#define TESTS_POWER_FOLDERS_H

#include "tests/support/golden.h"

/* The recorded folder, and the one of the states. */
static char folder[64], state[64];

static void make_folders(void) {
    strcpy(folder, "/tmp/reprise-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    strcpy(state, "/tmp/reprise-test-XXXXXX");
    cr_assert_not_null(mkdtemp(state));
}

static void remove_folders(void) {
    char command[192];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", folder, state);
    cr_assert_eq(system(command), 0);
}

#endif
