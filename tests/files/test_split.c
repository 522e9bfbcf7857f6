/* GGUF files in parts: those that llama.cpp makes of a tiny model (golden/split, tools/golden/golden_split.py) are that
 * model. */
#include "tests/support/case.h"
#include "tests/support/folder.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/golden.h"
#include "tests/trainer/checksums.h"

#include "base/files/split.h"
#include "reprise/convert.h"
#include "reprise/file.h"
#include "reprise/model.h"
#include "reprise/sampler.h"
#include "reprise/session.h"

#define WHOLE GOLDEN_DIR "tiny/llama-mix.gguf"
#define FIRST GOLDEN_DIR "split/llama-mix-00001-of-00003.gguf"

TestSuite(split, .init = make_folder, .fini = remove_folder);

static const char *in(const char *name) {
    static char text[2][128];
    static int  k;
    k = !k;
    snprintf(text[k], sizeof text[k], "%s/%s", folder, name);
    return text[k];
}

/* Copies the parts of the golden file into the folder. */
static void copy_parts(void) {
    char from[] = FIRST, name[64];
    for (int i = 1; i <= 3; i++) {
        size_t n;
        rp_split_rename(from, i);
        char *p = read_whole(from, &n);
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        write_whole(in(name), p, n);
        free(p);
    }
}

/* Tensors by name; the parts have other keys in front, which say where a part belongs. */
static void expect_same(const char *got_path, const char *want_path) {
    RpGgufFile *got, *want;
    OK(rp_gguf_open(got_path, &got));
    OK(rp_gguf_open(want_path, &want));
    cr_assert_eq(rp_gguf_n_tensors(got), rp_gguf_n_tensors(want));
    for (int64_t i = 0; i < rp_gguf_n_tensors(want); i++) {
        const RpGgufTensor *w = rp_gguf_tensor(want, i);
        char                name[128];
        snprintf(name, sizeof name, "%.*s", (int)w->name.len, w->name.ptr);
        const RpGgufTensor *g = rp_gguf_find_tensor(got, name);
        cr_assert_not_null(g, "%s", name);
        cr_expect_eq(g->gguf_type, w->gguf_type, "%s", name);
        cr_assert_eq(g->bytes, w->bytes, "%s", name);
        cr_expect_arr_eq(g->view.data, w->view.data, w->bytes, "%s", name);
    }
    cr_expect_eq(rp_gguf_n_values(got), rp_gguf_n_values(want));
    cr_expect_null(rp_gguf_find(got, "split.count"), "the whole is no part");
    rp_gguf_close(got), rp_gguf_close(want);
}

Test(split, parts_are_the_whole) { expect_same(FIRST, WHOLE); }

static void logits_of(const char *path, bool copy, float *out, size_t n_vocab) {
    static const int32_t tokens[] = {1, 5, 9, 33, 2};
    RpModel             *m;
    RpSession           *s;
    OK(rp_model_open(path, &(RpModelOptions){.copy = copy}, &m));
    cr_assert_eq((size_t)rp_model_info(m)->n_vocab, n_vocab);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 16, .device = "cpu"}, &s));
    OK(rp_session_prefill(s, tokens, 5, NULL, NULL));
    memcpy(out, rp_session_logits(s), n_vocab * sizeof *out);
    rp_session_free(s);
    rp_model_free(m);
}

Test(split, a_model_in_parts_has_the_logits_of_the_whole) {
    float want[64], got[64];
    logits_of(WHOLE, false, want, 64);
    for (int copy = 0; copy < 2; copy++) {
        logits_of(FIRST, copy, got, 64);
        cr_expect_arr_eq(got, want, sizeof want, CASE(copy));
    }
}

Test(split, conversion_writes_one_file) {
    OK(rp_requantize(WHOLE, in("whole.gguf"), "Q8_0", NULL, NULL));
    OK(rp_requantize(FIRST, in("parts.gguf"), "Q8_0", NULL, NULL));
    expect_same(in("parts.gguf"), in("whole.gguf"));
}

/* An output must not be one of the parts. */
Test(split, no_part_is_replaced) {
    copy_parts();
    REFUSED(rp_requantize(in("m-00001-of-00003.gguf"), in("m-00002-of-00003.gguf"), "Q8_0", NULL, NULL), RP_E_ARG,
            "are the same file: an output must not be an input");
    expect_same(in("m-00001-of-00003.gguf"), WHOLE);
}

Test(split, the_checksum_is_that_of_all_parts) {
    uint64_t hash, n;
    size_t   bytes = 0;
    char    *all = malloc(1 << 20), from[] = FIRST;
    for (int i = 1; i <= 3; i++) {
        size_t k;
        rp_split_rename(from, i);
        char *p = read_whole(from, &k);
        memcpy(all + bytes, p, k);
        bytes += k;
        free(p);
    }
    OK(rp_path_xxh64(FIRST, &hash, &n));
    cr_expect_eq(n, bytes);
    cr_expect_eq(hash, xx_hash(all, bytes));
    free(all);
}

static void refuse(const char *name, RpStatus status, const char *text) {
    RpGgufFile *f = NULL;
    REFUSED(rp_gguf_open(in(name), &f), status, text);
    cr_expect_null(f, "%s", name);
}

/* A part with one tensor of the name, and these keys; split.tensors.count only if it is not 0. */
static void put_part(const char *path, uint32_t no, uint32_t count, uint32_t tensors, const char *tensor) {
    Bytes b = {0};
    put_header(&b, 3, 1, tensors != 0 ? 5 : 4);
    put_key_string(&b, "general.architecture", "llama");
    put_key_string(&b, "general.sampling.sequence", "top_k;temp");
    put_key_u32(&b, "split.no", no);
    put_key_u32(&b, "split.count", count);
    if (tensors != 0) put_key_u32(&b, "split.tensors.count", tensors);
    put_tensor(&b, tensor, 0, 8, 1, 0);
    put_data(&b, 32);
    write_whole(path, (const char *)b.p, b.n);
    free(b.p);
}

Test(split, wrong_parts_are_refused) {
    RpGgufFile *f;
    size_t      n;
    copy_parts();
    refuse("m-00002-of-00003.gguf", RP_E_ARG,
           "m-00002-of-00003.gguf: this is part 2 of 3 of a split file: open its first part");
    char *first = read_whole(in("m-00001-of-00003.gguf"), &n);
    write_whole(in("renamed.gguf"), first, n);
    refuse("renamed.gguf", RP_E_FORMAT,
           "the file is the first of 3 parts: its name must end with -00001-of-00003.gguf, and those of the others "
           "with their numbers");
    write_whole(in("n-00001-of-00004.gguf"), first, n);
    refuse("n-00001-of-00004.gguf", RP_E_FORMAT, "the file is the first of 3 parts");
    write_whole(in("lone-00001-of-00003.gguf"), first, n);
    refuse("lone-00001-of-00003.gguf", RP_E_IO, "lone-00002-of-00003.gguf: No such file or directory");
    write_whole(in("m-00003-of-00003.gguf"), first, n);
    refuse(
        "m-00001-of-00003.gguf", RP_E_FORMAT,
        "m-00003-of-00003.gguf: split.no and split.count are 0 and 3, must be 2 and 3: the file is a part of another");
    REFUSED(rp_gguf_open_memory(first, n, "mem", &f), RP_E_UNSUPPORTED,
            "mem: part 1 of 3 of a split file cannot be opened from memory");
    write_whole(in("m-00003-of-00003.gguf"), first, n - 100);
    refuse("m-00001-of-00003.gguf", RP_E_FORMAT, "m-00003-of-00003.gguf: ");
    free(first);

    put_part(in("t-00001-of-00002.gguf"), 0, 2, 3, "a");
    put_part(in("t-00002-of-00002.gguf"), 1, 2, 3, "b");
    refuse("t-00001-of-00002.gguf", RP_E_FORMAT, "the 2 parts have 2 tensors, and split.tensors.count is 3");
    put_part(in("t-00001-of-00002.gguf"), 0, 2, 0, "a");
    OK(rp_gguf_open(in("t-00001-of-00002.gguf"), &f));
    cr_expect_eq(rp_gguf_n_tensors(f), 2);
    RpSamplerParams sampler = rp_sampler_unset();
    OK(rp_sampler_recommended(f, &sampler, NULL, 0));
    cr_expect_str_eq(sampler.samplers, "top_k;temp");
    rp_gguf_close(f);
    put_part(in("t-00002-of-00002.gguf"), 1, 2, 0, "a");
    refuse("t-00001-of-00002.gguf", RP_E_FORMAT, "a");
}

static void check_name(const char *path, int want_no, int want_count) {
    int        no, count;
    const bool is = rp_split_name(path, &no, &count);
    cr_expect_eq(is, want_no > 0, "%s", path);
    cr_expect_eq(no, want_no, "%s: %d", path, no);
    cr_expect_eq(count, want_count, "%s: %d", path, count);
}

Test(split, names) {
    check_name("a-00001-of-00003.gguf", 1, 3);
    check_name("/x/a-b-00012-of-00012.gguf", 12, 12);
    check_name("a-00004-of-00003.gguf", 0, 0);
    check_name("a-00000-of-00003.gguf", 0, 0);
    check_name("-00001-of-00003.gguf", 0, 0);
    check_name("a-0001-of-0003.gguf", 0, 0);
    check_name("a-00001-of-00003.bin.gguf", 0, 0);
    check_name("a.gguf", 0, 0);
    check_name("", 0, 0);
}
