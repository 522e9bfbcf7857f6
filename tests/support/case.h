/* case.h - the message of an assertion in a loop: which case failed.
 *
 *     for (int i = 0; i < n; i++) cr_expect_eq(y[i], want[i], CASE(i));          prints "i = 3" when the fourth fails
 *
 * One to three integers. tests/assertions.py fails for an assertion in a loop that has no message. */
#ifndef TESTS_CASE_H
#define TESTS_CASE_H

#define CASE_1(a)               #a " = %lld", (long long)(a)
#define CASE_2(a, b)            #a " = %lld, " #b " = %lld", (long long)(a), (long long)(b)
#define CASE_3(a, b, c)         #a " = %lld, " #b " = %lld, " #c " = %lld", (long long)(a), (long long)(b), (long long)(c)
#define CASE_N(a, b, c, n, ...) CASE_##n
#define CASE(...)               CASE_N(__VA_ARGS__, 3, 2, 1, 0)(__VA_ARGS__)

#endif
