/* cli_align, the alignment of two sequences, on strings: each letter is an
 * element. The expected pairs are written by hand. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "cli/diff/align.h"

typedef struct Texts {
    const char *a, *b;
} Texts;

/* Equal letters score ALIGN_SAME, letters that differ only in case half of it. */
static int score(const void *user, int i, int k) {
    const Texts *t = user;
    if (t->a[i] == t->b[k]) return ALIGN_SAME;
    return (t->a[i] ^ t->b[k]) == 0x20 ? ALIGN_SAME / 2 : 0;
}

/* want[i]: the letter of b that a[i] is paired with, '-' if none. */
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

Test(align, pairs_equal_elements_in_order) {
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
    const int *skip = user; /* the item of the second sequence that the first lacks */
    return k == *skip ? 0 : i == (k > *skip ? k - 1 : k) ? ALIGN_SAME : 0;
}

static int never(const void *user, int i, int k) { return (void)user, (void)i, (void)k, 0; }

Test(align, aligns_long_sequences_with_few_differences) {
    enum { N = 100000 };
    int *partner = malloc(N * sizeof(int)), skip = 40000;
    OK(cli_align(N, N + 1, equal, &skip, partner));
    for (int i = 0; i < N; i++) cr_assert_eq(partner[i], i < skip ? i : i + 1, CASE(i));
    OK(cli_align(N, N, never, NULL, partner)); /* too many combinations: no pairs, at once */
    for (int i = 0; i < N; i++) cr_assert_eq(partner[i], -1, CASE(i));
    free(partner);
}
