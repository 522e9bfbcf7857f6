/* each.h - applies a macro to every element of a parenthesised list of 1 to 17 elements.
 *
 *     RP_EACH(F, arg, (a, b))   ->   F(arg, a) F(arg, b)
 *     RP_COUNT((a, b))          ->   2 */
#ifndef BASE_EACH_H
#define BASE_EACH_H

#define RP_EACH(F, arg, list) RP_EACH_OF(RP_COUNT(list), F, arg, RP_EACH_LIST list)
#define RP_COUNT(list)                                                                                                 \
    RP_EACH_CALL(RP_COUNT_OF, (RP_EACH_LIST list, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))

#define RP_EACH_LIST(...)                                                          __VA_ARGS__
#define RP_EACH_CALL(F, args)                                                      F args
#define RP_COUNT_OF(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, count, ...) count
#define RP_EACH_OF(count, F, arg, ...)                                             RP_EACH_OF_(count, F, arg, __VA_ARGS__)
#define RP_EACH_OF_(count, F, arg, ...)                                            RP_EACH_##count(F, arg, __VA_ARGS__)

#define RP_EACH_1(F, arg, x)       F(arg, x)
#define RP_EACH_2(F, arg, x, ...)  F(arg, x) RP_EACH_1(F, arg, __VA_ARGS__)
#define RP_EACH_3(F, arg, x, ...)  F(arg, x) RP_EACH_2(F, arg, __VA_ARGS__)
#define RP_EACH_4(F, arg, x, ...)  F(arg, x) RP_EACH_3(F, arg, __VA_ARGS__)
#define RP_EACH_5(F, arg, x, ...)  F(arg, x) RP_EACH_4(F, arg, __VA_ARGS__)
#define RP_EACH_6(F, arg, x, ...)  F(arg, x) RP_EACH_5(F, arg, __VA_ARGS__)
#define RP_EACH_7(F, arg, x, ...)  F(arg, x) RP_EACH_6(F, arg, __VA_ARGS__)
#define RP_EACH_8(F, arg, x, ...)  F(arg, x) RP_EACH_7(F, arg, __VA_ARGS__)
#define RP_EACH_9(F, arg, x, ...)  F(arg, x) RP_EACH_8(F, arg, __VA_ARGS__)
#define RP_EACH_10(F, arg, x, ...) F(arg, x) RP_EACH_9(F, arg, __VA_ARGS__)
#define RP_EACH_11(F, arg, x, ...) F(arg, x) RP_EACH_10(F, arg, __VA_ARGS__)
#define RP_EACH_12(F, arg, x, ...) F(arg, x) RP_EACH_11(F, arg, __VA_ARGS__)
#define RP_EACH_13(F, arg, x, ...) F(arg, x) RP_EACH_12(F, arg, __VA_ARGS__)
#define RP_EACH_14(F, arg, x, ...) F(arg, x) RP_EACH_13(F, arg, __VA_ARGS__)
#define RP_EACH_15(F, arg, x, ...) F(arg, x) RP_EACH_14(F, arg, __VA_ARGS__)
#define RP_EACH_16(F, arg, x, ...) F(arg, x) RP_EACH_15(F, arg, __VA_ARGS__)
#define RP_EACH_17(F, arg, x, ...) F(arg, x) RP_EACH_16(F, arg, __VA_ARGS__)

#endif
