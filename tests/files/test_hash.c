/* The hash of names from files: SipHash-1-3 against CPython, and files made of names that collide in FNV-1a and in a
 * multiplicative hash, which anybody can compute. The comparisons of a lookup are counted in the finished tables. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "base/hash.h"
#include "model/gguf/gguf_file.h"
#include "model/tokenizer/tokenizer_impl.h"

/* hash(bytes(range(n))) of CPython 3.11, which is SipHash-1-3, with PYTHONHASHSEED=0 and 1. The key of seed 1 is by
 * lcg_urandom of its Python/bootstrap_hash.c. */
Test(hash, is_siphash_1_3) {
    static const uint64_t keys[2][2] = {
        {0,                   0                  },
        {0xaed66ce184be2329u, 0xebe9bbf1f1499052u}
    };
    static const struct {
        size_t   n;
        uint64_t want[2];
    } rows[] = {
        {1,  {0x68a914128e01e473u, 0xecd3e5afcecda4b9u}},
        {2,  {0x010bac45c41e3669u, 0xbf360f1ea1745965u}},
        {3,  {0x4d4c9a4a8ef6e0adu, 0x8d5b20ab227ba858u}},
        {7,  {0x2f098ab0c751325au, 0xfd15e78052a69ddfu}},
        {8,  {0xead411e67ebe2eeau, 0xc0b5739e7e28dd01u}},
        {9,  {0x75927f9d95124362u, 0x208a1a5a0cbbf778u}},
        {15, {0xf30eb725bb91c9eau, 0xfa87985f39e97a53u}},
        {16, {0x8972188433a5c5b7u, 0x12e9d283f9f37002u}},
        {31, {0x169739443111d49bu, 0xb8c17103f21d8810u}},
        {64, {0x75e05fd5bbc870c6u, 0x7e644b6edc375dc8u}},
    };
    unsigned char bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 2; k++)
            cr_expect_eq(rp_siphash(keys[k], bytes, rows[i].n), rows[i].want[k], "%zu bytes, key %d", rows[i].n, k);
    cr_expect_eq(rp_hash(bytes, 5), rp_hash(bytes, 5));
}

enum { N = 1024, LENGTH = 8 };

/* The `fold` is what a table does with the upper bits. */
static uint64_t fnv1a(const char *p, size_t n, int fold) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return h ^ h >> fold;
}

/* N names whose FNV-1a falls into slot 0 of a table. */
static void make_names(char names[N][LENGTH + 1], uint64_t n_slots, int fold) {
    unsigned x = 0;
    for (size_t n = 0; n < N; n += fnv1a(names[n], LENGTH, fold) % n_slots == 0)
        snprintf(names[n], LENGTH + 1, "n%07x", x++);
}

/* Comparisons of lookups that begin once at each slot of a table with linear probing: one that begins at an occupied
 * slot goes on to the end of its run. A run of L slots takes L(L+1)/2. Random slots, half of them occupied: 1.5 for
 * each slot (Knuth, The Art of Computer Programming, 6.4). All names in one run: n_slots/8 for each. */
static void expect_short_runs(const bool *occupied, size_t n_slots, const char *what) {
    double comparisons = 0.0, run = 0.0;
    for (size_t i = 0; i < n_slots; i++) {
        run = occupied[i] ? run + 1.0 : 0.0;
        comparisons += run;
    }
    cr_expect_leq(comparisons, 6.0 * (double)n_slots, "%s: %.0f comparisons in %zu slots", what, comparisons, n_slots);
}

static void expect_short_runs_of(const uint32_t *slots, size_t n_slots, const char *what) {
    bool *occupied = malloc(n_slots * sizeof *occupied);
    for (size_t i = 0; i < n_slots; i++) occupied[i] = slots[i] != 0;
    expect_short_runs(occupied, n_slots, what);
    free(occupied);
}

Test(hash, keys_and_tensor_names_do_not_collide_by_design) {
    static char names[N][LENGTH + 1];
    Bytes       b = {0};
    RpGgufFile *f;
    make_names(names, 2 * N + 1, 32);
    put_header(&b, 3, N, N);
    for (size_t i = 0; i < N; i++) put_key_u32(&b, names[i], (uint32_t)i);
    for (size_t i = 0; i < N; i++) put_tensor(&b, names[i], 0, 1, 1, 32 * i);
    put_data(&b, 32 * N);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    cr_assert_eq(f->value_slots, 2 * N + 1);
    cr_assert_eq(f->tensor_slots, 2 * N + 1);
    expect_short_runs_of(f->value_index, f->value_slots, "keys");
    expect_short_runs_of(f->tensor_index, f->tensor_slots, "tensors");
    for (size_t i = 0; i < N; i++) {
        uint32_t x = UINT32_MAX;
        OK(rp_gguf_get_u32(f, names[i], &x));
        cr_assert_eq(x, i, CASE(i));
    }
    rp_gguf_close(f);
    free(b.p);
}

/* A tokenizer of these tokens, all of one type, and merges. */
static RpTokenizer *tokenizer_of(const char *kind, const char *const *tokens, size_t n, int32_t type,
                                 const char *const *merges, size_t n_merges) {
    int32_t     *types  = malloc(n * sizeof *types);
    float       *scores = calloc(n, sizeof *scores);
    Bytes        b      = {0};
    RpGgufFile  *f;
    RpTokenizer *tk;
    for (size_t i = 0; i < n; i++) types[i] = type;
    put_header(&b, 3, 0, 5);
    put_key_string(&b, "tokenizer.ggml.model", kind);
    put_key_strings(&b, "tokenizer.ggml.tokens", tokens, n);
    put_key_array(&b, "tokenizer.ggml.token_type", RP_GGUF_I32, types, n);
    put_key_array(&b, "tokenizer.ggml.scores", RP_GGUF_F32, scores, n);
    put_key_strings(&b, "tokenizer.ggml.merges", merges, n_merges);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    OK(rp_tokenizer_new(f, &tk));
    rp_gguf_close(f);
    free(types), free(scores), free(b.p);
    return tk;
}

Test(hash, tokens_do_not_collide_by_design) {
    static char        names[N][LENGTH + 1];
    static const char *tokens[N];
    make_names(names, 2 * N, 29);
    for (size_t i = 0; i < N; i++) tokens[i] = names[i];
    for (int bpe = 0; bpe < 2; bpe++) {
        RpTokenizer *tk = tokenizer_of(bpe ? "gpt2" : "llama", tokens, N, TOKEN_CONTROL, NULL, 0);
        cr_assert_eq(tk->by_text.n_slots, 2 * N, CASE(bpe));
        expect_short_runs_of(tk->by_text.slots, tk->by_text.n_slots, "texts");
        expect_short_runs_of(tk->special_texts.slots, tk->special_texts.n_slots, "special tokens");
        if (bpe) expect_short_runs_of(tk->symbols.slots, tk->symbols.n_slots, "symbols");
        for (size_t i = 0; i < N; i++) cr_assert_eq(rp_tokenizer_find(tk, names[i]), (int32_t)i, CASE(bpe, i));
        rp_tokenizer_free(tk);
    }
}

/* Pairs of tokens whose numbers fall into slot 0 of a multiplicative hash. */
Test(hash, merges_do_not_collide_by_design) {
    enum { N_TOKENS = 1600 };
    static char        names[N_TOKENS][8], pairs[N][24];
    static const char *tokens[N_TOKENS], *merges[N];
    size_t             n = 0;
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = names[i], snprintf(names[i], sizeof names[i], "t%04d", i);
    for (uint64_t left = 0; left < N_TOKENS; left++)
        for (uint64_t right = 0; right < N_TOKENS && n < N; right++) {
            if ((((left << 32 | right) * 0x9e3779b97f4a7c15u) >> 20) % (2 * N) != 0) continue;
            snprintf(pairs[n], sizeof pairs[n], "%.7s %.7s", names[left], names[right]);
            merges[n] = pairs[n], n++;
        }
    cr_assert_eq(n, N);
    RpTokenizer *tk = tokenizer_of("gpt2", tokens, N_TOKENS, TOKEN_NORMAL, merges, N);
    static bool  occupied[2 * N];
    cr_assert_eq(tk->n_merge_slots, 2 * N);
    for (size_t i = 0; i < 2 * N; i++) occupied[i] = tk->merges[i].rank >= 0;
    expect_short_runs(occupied, 2 * N, "merges");
    rp_tokenizer_free(tk);
}
