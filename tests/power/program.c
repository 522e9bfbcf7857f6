/* Linked into a copy of the program: what it does in the folder REPRISE_TEST_FOLDER is recorded, and written to the
 * file REPRISE_TEST_RECORD at its exit (power.h). */
#include "tests/power/power.h"

#include <stdlib.h>

static void save(void) {
    power_stop();
    power_save(getenv("REPRISE_TEST_RECORD"));
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("REPRISE_TEST_FOLDER");
    if (folder == NULL || getenv("REPRISE_TEST_RECORD") == NULL) return;
    power_record(folder, POWER_NO_BUG);
    if (atexit(save) != 0) abort();
}
