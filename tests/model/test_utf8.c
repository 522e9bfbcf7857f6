/* RpUtf8Stream, which turns the bytes of tokens into whole characters. Expected results are those of the Unicode
 * standard: every maximal subpart of an ill-formed sequence becomes U+FFFD. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

/* Feeds `step` bytes at a time, checking that every call emits whole characters. */
static void feed(const char *bytes, size_t n, size_t step, char *out) {
    RpUtf8Stream u     = {0};
    size_t       n_out = 0;
    for (size_t i = 0; i < n; i += step) {
        const size_t k = rp_utf8_feed(&u, bytes + i, n - i < step ? n - i : step, out + n_out);
        for (size_t c = 0; c < k;) { /* walk over the characters */
            const unsigned char first = (unsigned char)out[n_out + c];
            const size_t        len   = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
            cr_assert(first < 0x80 || first >= 0xc2, CASE(i, c));
            cr_assert_leq(c + len, k, CASE(i, c));
            c += len;
        }
        n_out += k;
    }
    n_out += rp_utf8_flush(&u, out + n_out);
    out[n_out] = '\0';
}

#define FFFD "\xef\xbf\xbd"

/* Replacement of maximal subparts: Unicode 15, section 3.9, table 3-8 and more. */
static const struct {
    const char *in, *out;
} cases[] = {
    {"plain",                                   "plain"                                    },
    {"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"  },
    {"a\200b",                                  "a" FFFD "b"                               },
    {"\xc3",                                    FFFD                                       },
    {"\xc3(",                                   FFFD "("                                   },
    {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41",    FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
    {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41",    FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
    {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42",    FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B" },
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41",    FFFD FFFD FFFD FFFD "A"                    },
    {"\xf0\x9f\x99",                            FFFD                                       },
};

Test(utf8, emits_whole_characters_and_replaces_invalid_bytes) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t step = 1; step <= 9; step++) {
            char out[256];
            feed(cases[i].in, strlen(cases[i].in), step, out);
            cr_expect_str_eq(out, cases[i].out, "case %zu, %zu bytes at a time: \"%s\"", i, step, out);
        }
}

Test(utf8, holds_back_incomplete_characters_only) {
    RpUtf8Stream u = {0};
    char         out[64];
    cr_expect_eq(rp_utf8_feed(&u, "a\xf0\x9f", 3, out), 1u);
    cr_expect_eq(rp_utf8_feed(&u, "\x99", 1, out), 0u);
    cr_expect_eq(rp_utf8_feed(&u, "\x82z", 2, out), 5u);
    cr_expect_eq(rp_utf8_flush(&u, out), 0u);
}
