/* The part of Criterion's interface that these tests use. It replaces Criterion where that is not installed, in cross
 * builds (Criterion starts a program anew for each test, which fails in qemu), in instrumented builds (Criterion's
 * shared arena fails to map under the thread sanitizer), and on the simulated device: it starts and compiles faster.
 * Every test runs in a separate process; a program may have several source files. */
#pragma once
#pragma GCC system_header

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct PlainTest PlainTest;
struct PlainTest {
    const char *suite, *name;
    void (*run)(void);
    void (*init)(void);
    void (*fini)(void);
    PlainTest *next;
};

enum { PLAIN_FAILED = 1, PLAIN_SKIPPED = 77 };

/* Weak: one object per program, however many of its files include this. */
#define PLAIN_ONE __attribute__((weak))
PLAIN_ONE PlainTest *plain_tests, **plain_end = &plain_tests, *plain_suite;
PLAIN_ONE int        plain_failures;

#ifdef __SANITIZE_ADDRESS__
/* Inline checks look at the first and the last byte of an access of 64 bytes: no access reaches across this redzone. */
const char           *__asan_default_options(void);
PLAIN_ONE const char *__asan_default_options(void) { return "redzone=64"; }
#endif

static void plain_add(PlainTest *t) {
    *plain_end = t;
    plain_end  = &t->next;
}

#define Test(suite_, name_, ...)                                                                                       \
    static void                              suite_##_##name_(void);                                                   \
    __attribute__((constructor)) static void suite_##_##name_##_add(void) {                                            \
        static PlainTest t = {.suite = #suite_, .name = #name_, .run = suite_##_##name_, ##__VA_ARGS__};               \
        plain_add(&t);                                                                                                 \
    }                                                                                                                  \
    static void suite_##_##name_(void)

/* At most one per program. */
#define TestSuite(suite_, ...)                                                                                         \
    __attribute__((constructor)) static void suite_##_suite_add(void) {                                                \
        static PlainTest t = {.suite = #suite_, ##__VA_ARGS__};                                                        \
        plain_suite        = &t;                                                                                       \
    }                                                                                                                  \
    static void suite_##_suite_add(void)

#define PLAIN_SAY(kind, text, ...)                                                                                     \
    (fprintf(stderr, "[%s] %s:%d: %s: ", kind, __FILE__, __LINE__, text), fprintf(stderr, " " __VA_ARGS__),            \
     fputc('\n', stderr))
#define PLAIN_EXPECT(ok, text, ...)                                                                                    \
    ((ok) ? (void)0 : ((void)plain_failures++, (void)PLAIN_SAY("fail", text, ##__VA_ARGS__)))
#define PLAIN_ASSERT(ok, text, ...)                                                                                    \
    ((ok) ? (void)0 : ((void)PLAIN_SAY("fail", text, ##__VA_ARGS__), exit(PLAIN_FAILED)))

#define cr_log_info(...)  ((void)PLAIN_SAY("info", "", __VA_ARGS__))
#define cr_skip_test(...) (PLAIN_SAY("skip", "", __VA_ARGS__), exit(PLAIN_SKIPPED))

#define PLAIN_FLOAT_EQ(a, b, eps) ((a) - (b) <= (eps) && (b) - (a) <= (eps))

#define cr_expect(c, ...)                  PLAIN_EXPECT(c, #c, ##__VA_ARGS__)
#define cr_expect_eq(a, b, ...)            PLAIN_EXPECT((a) == (b), #a " == " #b, ##__VA_ARGS__)
#define cr_expect_neq(a, b, ...)           PLAIN_EXPECT((a) != (b), #a " != " #b, ##__VA_ARGS__)
#define cr_expect_lt(a, b, ...)            PLAIN_EXPECT((a) < (b), #a " < " #b, ##__VA_ARGS__)
#define cr_expect_leq(a, b, ...)           PLAIN_EXPECT((a) <= (b), #a " <= " #b, ##__VA_ARGS__)
#define cr_expect_gt(a, b, ...)            PLAIN_EXPECT((a) > (b), #a " > " #b, ##__VA_ARGS__)
#define cr_expect_geq(a, b, ...)           PLAIN_EXPECT((a) >= (b), #a " >= " #b, ##__VA_ARGS__)
#define cr_expect_null(a, ...)             PLAIN_EXPECT((a) == NULL, #a " is null", ##__VA_ARGS__)
#define cr_expect_not_null(a, ...)         PLAIN_EXPECT((a) != NULL, #a " is not null", ##__VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)        PLAIN_EXPECT(strcmp(a, b) == 0, #a " == " #b, ##__VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...)     PLAIN_EXPECT(memcmp(a, b, n) == 0, #a " == " #b, ##__VA_ARGS__)
#define cr_expect_float_eq(a, b, eps, ...) PLAIN_EXPECT(PLAIN_FLOAT_EQ(a, b, eps), #a " == " #b, ##__VA_ARGS__)
#define cr_assert(c, ...)                  PLAIN_ASSERT(c, #c, ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...)            PLAIN_ASSERT((a) == (b), #a " == " #b, ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...)           PLAIN_ASSERT((a) != (b), #a " != " #b, ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...)            PLAIN_ASSERT((a) < (b), #a " < " #b, ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...)           PLAIN_ASSERT((a) <= (b), #a " <= " #b, ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...)           PLAIN_ASSERT((a) >= (b), #a " >= " #b, ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...)            PLAIN_ASSERT((a) > (b), #a " > " #b, ##__VA_ARGS__)
#define cr_assert_null(a, ...)             PLAIN_ASSERT((a) == NULL, #a " is null", ##__VA_ARGS__)
#define cr_assert_not_null(a, ...)         PLAIN_ASSERT((a) != NULL, #a " is not null", ##__VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...)     PLAIN_ASSERT(memcmp(a, b, n) == 0, #a " == " #b, ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)        PLAIN_ASSERT(strcmp(a, b) == 0, #a " == " #b, ##__VA_ARGS__)

static void plain_run(const PlainTest *t) {
    const bool in_suite = plain_suite != NULL && strcmp(plain_suite->suite, t->suite) == 0;
    if (in_suite && plain_suite->init != NULL) plain_suite->init();
    t->run();
    if (in_suite && plain_suite->fini != NULL) plain_suite->fini();
    exit(plain_failures > 0 ? PLAIN_FAILED : 0);
}

/* The exit status of the test; -1 if it crashed. */
static int plain_run_in_child(const PlainTest *t, double *seconds) {
    struct timespec from, to;
    int             status = -1;
    fflush(NULL);
    clock_gettime(CLOCK_MONOTONIC, &from);
    const pid_t child = fork();
    if (child == 0) plain_run(t);
    if (child < 0 || waitpid(child, &status, 0) != child) perror("fork"), status = -1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    *seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --filter PATTERN: tests whose SUITE/TEST it matches; --fail-fast: none after the first that fails; --verbose: names
 * those that pass. Other options are ignored. */
PLAIN_ONE int main(int argc, char **argv) {
    const char *only    = "*";
    bool        verbose = false, fail_fast = false;
    int         n_run = 0, n_failed = 0, n_skipped = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) only = argv[++i];
        if (strcmp(argv[i], "--verbose") == 0) verbose = true;
        if (strcmp(argv[i], "--fail-fast") == 0) fail_fast = true;
    }
    for (const PlainTest *t = plain_tests; t != NULL && !(fail_fast && n_failed > 0); t = t->next) {
        char   name[256];
        double seconds;
        snprintf(name, sizeof name, "%s/%s", t->suite, t->name);
        if (fnmatch(only, name, FNM_EXTMATCH) != 0) continue;
        const int status = plain_run_in_child(t, &seconds);
        n_run++;
        n_failed += status != 0 && status != PLAIN_SKIPPED;
        n_skipped += status == PLAIN_SKIPPED;
        if (status == 0 && verbose) fprintf(stderr, "[PASS] %s::%s: (%.2fs)\n", t->suite, t->name, seconds);
        if (status != 0 && status != PLAIN_SKIPPED)
            fprintf(stderr, "[FAIL] %s::%s%s\n", t->suite, t->name, status < 0 ? ": crashed" : "");
    }
    fprintf(stderr, "%d tests, %d failed, %d skipped\n", n_run, n_failed, n_skipped);
    return n_run == 0 || n_failed > 0;
}
