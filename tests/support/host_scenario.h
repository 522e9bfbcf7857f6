/* host_scenario.h - repeats a scenario while the first, second, third, ... call of the C library fails, until it makes
 * no further call. A failure must be an error with a text that names what failed, or change nothing. Nothing may
 * leak. */
#ifndef TESTS_HOST_SCENARIO_H
#define TESTS_HOST_SCENARIO_H

#include "tests/support/golden.h"
#include "tests/support/hang.h"
#include "tests/support/host_faults.h"

#include <dirent.h>

/* A folder of its own for each test, also the TMPDIR of rp_model_open_preset. */
static char folder[64];

static inline void make_folder(void) {
    strcpy(folder, "/tmp/reprise-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
}

static inline void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

static inline int entries(const char *path) {
    int            n   = 0;
    DIR           *dir = opendir(path);
    struct dirent *e;
    cr_assert_not_null(dir, "%s", path);
    while ((e = readdir(dir)) != NULL) n++;
    closedir(dir);
    return n;
}

/* Waits until the process has at most n threads; false after the time limit. A joined thread may be listed for a moment
 * longer, so n may have been counted too high as well. */
static inline bool has_threads(int n) {
    for (unsigned i = 0; i < 1000 * hang_seconds() && entries("/proc/self/task") > n; i++) usleep(1000);
    return entries("/proc/self/task") <= n;
}

/* ---- the results of a scenario, as a hash (FNV-1a) ---- */

static uint64_t result;

static inline void add_result(const void *data, size_t n) {
    for (size_t i = 0; i < n; i++) result = (result ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

typedef RpStatus Scenario(const char *arg);

static inline RpStatus run_scenario(Scenario *scenario, const char *arg) {
    result = 0xcbf29ce484222325u;
    (void)rp_fail(RP_E_ARG, "no text");
    return scenario(arg);
}

/* ---- the check of one failure ---- */

/* Failures that may be harmless: closing a file that was only read; syncing a folder; starting threads of a conversion,
 * whose work the calling thread then does; asking for the size of the free memory; compiling for JIT matching. */
static inline bool may_be_harmless(const char *call) {
    static const char *const calls[] = {"close",          "fclose", "open", "fsync",
                                        "pthread_create", "fopen",  "stat", "pcre2_jit_compile"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(call, calls[i]) == 0) return true;
    return false;
}

/* The text names the memory, the cause or the file, or the threads. */
static inline bool names_the_cause(RpStatus st, HostFaultKind kind) {
    const char *text = rp_last_error();
    if (kind == HOST_FILE)
        return st == RP_E_IO && (strstr(text, "Input/output error") != NULL || strstr(text, ".gguf") != NULL);
    if (kind == HOST_THREAD) return st == RP_E_NOMEM && strstr(text, "threads could be started") != NULL;
    return (st == RP_E_NOMEM && (strstr(text, "out of memory") != NULL || strstr(text, "be allocated") != NULL)) ||
           ((st == RP_E_NOMEM || st == RP_E_IO) && strstr(text, "Cannot allocate memory") != NULL);
}

/* The k-th call fails. False if there are fewer calls. `want`: the result without failures, 0 if it is not known. */
static inline bool survives(const char *name, Scenario *scenario, const char *arg, int k, uint64_t want) {
    const long    live = host_live();
    const int     fds = entries("/proc/self/fd"), files = entries(folder), threads = entries("/proc/self/task");
    HostFaultKind kind;
    host_fault_arm(k);
    const RpStatus st   = run_scenario(scenario, arg);
    const char    *call = host_fault_disarm(&kind);
    const char    *what = call != NULL ? call : "nothing";
    cr_expect_eq(host_live(), live, "%s %s: call %d, %s: %ld allocations are left", name, arg, k, what,
                 host_live() - live);
    cr_expect_eq(entries("/proc/self/fd"), fds, "%s %s: call %d, %s: a file is open", name, arg, k, what);
    cr_expect_eq(entries(folder), files, "%s %s: call %d, %s: a file is left", name, arg, k, what);
    cr_assert(has_threads(threads), "%s %s: call %d, %s: a thread is left", name, arg, k, what);
    if (st == RP_OK) {
        cr_expect(want == 0 || result == want, "%s %s: call %d, %s: another result", name, arg, k, what);
        cr_expect(call == NULL || may_be_harmless(call), "%s %s: call %d, %s: ignored", name, arg, k, what);
    } else {
        cr_assert_not_null(call, "%s %s: \"%s\" without a failure", name, arg, rp_last_error());
        cr_expect(names_the_cause(st, kind), "%s %s: call %d, %s: %s: \"%s\"", name, arg, k, what, rp_status_text(st),
                  rp_last_error());
    }
    return call != NULL;
}

/* Every call fails once. In slow builds every third one does, unless REPRISE_TEST_EVERY_CALL is set: the other builds
 * have all of them. */
static inline void fail_each_call(const char *name, Scenario *scenario, const char *arg) {
#ifdef RP_TEST_SLOW
    const int every = getenv("REPRISE_TEST_EVERY_CALL") != NULL ? 1 : 3;
#else
    const int every = 1;
#endif
    cr_assert_eq(run_scenario(scenario, arg), RP_OK, "%s %s: %s", name, arg, rp_last_error());
    const uint64_t want = result;
    int            k    = 1;
    while (survives(name, scenario, arg, k, want)) k += every;
    cr_expect_gt(k, 1, "%s %s: no calls", name, arg);
    cr_log_info("%s %s: up to %d calls", name, arg, k - 1);
}

#endif
