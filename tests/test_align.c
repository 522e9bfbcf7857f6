#include "tests/golden.h"

#include "cli/align.h"

typedef struct Texts {
    const char *a, *b;
} Texts;

/* Letters alike go together; of another case half as well. */
static int score(const void *user, int i, int k) {
    const Texts *t = user;
    if (t->a[i] == t->b[k]) return ALIGN_SAME;
    return (t->a[i] ^ t->b[k]) == 0x20 ? ALIGN_SAME / 2 : 0;
}

/* The partners of the letters of a, as letters of b; '-' for none. */
static void expect(const char *a, const char *b, const char *want) {
    int       partner[64], last = -1;
    const int n = (int)strlen(a);
    char      got[65];
    OK(cli_align(n, (int)strlen(b), score, &(Texts){a, b}, partner));
    for (int i = 0; i < n; i++) {
        got[i] = partner[i] < 0 ? '-' : b[partner[i]];
        if (partner[i] < 0) continue;
        cr_expect(partner[i] > last, "%s and %s: pairs cross", a, b);
        last = partner[i];
    }
    got[n] = '\0';
    cr_expect_str_eq(got, want, "%s and %s", a, b);
}

Test(align, pairs_what_is_alike_in_order) {
    expect("abcdef", "abcdef", "abcdef");
    expect("abcdef", "abxcdef", "abcdef");
    expect("abxcdef", "abcdef", "ab-cdef");
    expect("abcd", "wxyz", "----");
    expect("axbycz", "abc", "a-b-c-");
    expect("", "abc", "");
    expect("abc", "", "---");
    expect("aaa", "aaaaa", "aaa");
}

Test(align, takes_the_better_of_two_partners) {
    expect("q", "Qq", "q");
    expect("q", "qQ", "q");
    expect("abc", "aBc", "aBc");
    expect("aB", "ABb", "AB");
}

static int equal(const void *user, int i, int k) {
    const int *skip = user; /* of the second sequence: what the first lacks */
    return k == *skip ? 0 : i == (k > *skip ? k - 1 : k) ? ALIGN_SAME : 0;
}

static int never(const void *user, int i, int k) { return (void)user, (void)i, (void)k, 0; }

Test(align, goes_far_where_little_differs) {
    enum { N = 100000 };
    int *partner = malloc(N * sizeof(int)), skip = 40000;
    OK(cli_align(N, N + 1, equal, &skip, partner));
    for (int i = 0; i < N; i++) cr_assert_eq(partner[i], i < skip ? i : i + 1);
    OK(cli_align(N, N, never, NULL, partner)); /* too long: none, and at once */
    for (int i = 0; i < N; i++) cr_assert_eq(partner[i], -1);
    free(partner);
}
