/* Linked into a copy of the program: the call of the C library whose number REPRISE_TEST_FAIL has fails
 * (host_faults.h). At the exit the name of its function is written to the file REPRISE_TEST_FAILED, "-" if there were
 * fewer calls. */
#include "tests/support/host_faults.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void report(void) {
    HostFaultKind kind;
    const char   *call = host_fault_disarm(&kind), *path = getenv("REPRISE_TEST_FAILED");
    const int     fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (call == NULL) call = "-";
    if (fd < 0 || write(fd, call, strlen(call)) < 0 || close(fd) != 0) abort();
}

__attribute__((constructor)) static void arm(void) {
    const char *k = getenv("REPRISE_TEST_FAIL");
    if (k == NULL || atexit(report) != 0) return;
    host_fault_arm(atoi(k));
}
