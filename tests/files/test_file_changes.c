/* Model files that another process changes while they are read, or afterwards (gguf.h, "Files that change"): an error
 * or the contents from before, never a crash. */
#include "tests/support/golden.h"
#include "tests/support/hang.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { OPENS = 4000, LEAST_REFUSED = 20 };

/* A copy of a tiny model, last modified an hour ago, so that any write shows in its time. */
static char   path[64];
static char  *contents;
static size_t size;

static void set_up(void) {
    contents = golden_read_tiny("llama-mix", &size);
    snprintf(path, sizeof path, "/tmp/reprise-changes-XXXXXX");
    const int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, contents, size) == (ssize_t)size);
    const struct timespec past = {.tv_sec = time(NULL) - 3600};
    cr_assert_eq(futimens(fd, (struct timespec[]){past, past}), 0);
    close(fd);
}

static void tear_down(void) {
    unlink(path);
    free(contents);
}

TestSuite(file_changes, .init = set_up, .fini = tear_down);

static void overwrite(const void *p, size_t n, size_t at) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && pwrite(fd, p, n, (off_t)at) == (ssize_t)n);
    close(fd);
}

/* Offset of the first string of the vocabulary: its length, then its bytes. */
static size_t first_token(void) {
    RpGgufFile *f;
    OK(rp_gguf_open_memory(contents, size, "memory", &f));
    const size_t at = (size_t)((const char *)rp_gguf_find(f, "tokenizer.ggml.tokens")->data - contents);
    rp_gguf_close(f);
    return at;
}

/* All strings of the vocabulary; the sum of their bytes makes sure that they are read. */
static unsigned walk(const RpGgufFile *f) {
    const RpGgufValue *v      = rp_gguf_find(f, "tokenizer.ggml.tokens");
    const void        *cursor = v->data;
    unsigned           sum    = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        const RpGgufString s = rp_gguf_next_string(&cursor);
        for (size_t k = 0; k < s.len; k++) sum += (unsigned char)s.ptr[k];
    }
    return sum;
}

Test(file_changes, metadata_stays_as_it_was_checked) {
    const uint64_t huge = UINT64_C(1) << 60;
    RpGgufFile    *f;
    RpTokenizer   *tk;
    OK(rp_gguf_open(path, &f));
    const unsigned before = walk(f);
    overwrite(&huge, sizeof huge, first_token());
    cr_expect_eq(walk(f), before);
    cr_assert_eq(truncate(path, 0), 0);
    cr_expect_eq(walk(f), before);
    OK(rp_tokenizer_new(f, &tk));
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

/* Progress callbacks that change the file during the load. */
static bool touch_file(size_t done, size_t total, void *user) {
    (void)done, (void)total, (void)user;
    overwrite("GGUF", 4, 0);
    return true;
}

static bool grow_file(size_t done, size_t total, void *user) {
    (void)done, (void)total, (void)user;
    overwrite("x", 1, size);
    return true;
}

static bool empty_file(size_t done, size_t total, void *user) {
    (void)total, (void)user;
    if (done > 0) cr_assert_eq(truncate(path, 0), 0);
    return true;
}

Test(file_changes, a_change_during_the_load_is_an_error) {
    RpModel *m;
    REFUSED(rp_model_open(path, &(RpModelOptions){.progress = touch_file}, &m), RP_E_IO,
            ": the file changed while it was read");
    cr_expect_null(m);
    cr_expect_not_null(strstr(rp_last_error(), path));
    REFUSED(rp_model_open(path, &(RpModelOptions){.progress = grow_file}, &m), RP_E_IO,
            ": the file changed while it was read");
    cr_assert_eq(truncate(path, (off_t)size), 0);
    OK(rp_model_open(path, NULL, &m));
    rp_model_free(m);
}

/* 135M parameters, larger than what is read at a time. The file is hollow: it takes no disk space. */
Test(file_changes, a_copy_of_a_file_that_becomes_shorter_is_an_error) {
    RpModel *m;
    OK(rp_synth("smollm2-135m", &(RpSynthOptions){.hollow = true}, path));
    REFUSED(rp_model_open(path, &(RpModelOptions){.progress = empty_file, .copy = true}, &m), RP_E_IO,
            ": the file changed while it was read");
    cr_expect_null(m);
}

static size_t last_done, last_total;

static bool note(size_t done, size_t total, void *user) {
    (void)user;
    cr_expect(done >= last_done && done <= total);
    last_done  = done;
    last_total = total;
    return total > 0;
}

static bool stop(size_t done, size_t total, void *user) {
    (void)done, (void)total, (void)user;
    return false;
}

/* The logits after a few tokens, [n_vocab]; the caller frees. */
static float *logits_of(const RpModel *m) {
    const int32_t ids[3]  = {1, 2, 3};
    const size_t  n_vocab = (size_t)rp_model_info(m)->n_vocab;
    float        *logits  = malloc(3 * n_vocab * sizeof *logits);
    cr_assert_not_null(logits);
    OK(rp_model_logits(m, ids, 1, 3, logits));
    return logits;
}

Test(file_changes, a_copied_model_does_not_need_its_file) {
    RpModel *mapped, *copied, *stopped;
    OK(rp_model_open_memory(contents, size, "memory", &mapped));
    OK(rp_model_open(path, &(RpModelOptions){.progress = note, .copy = true}, &copied));
    cr_expect(last_done == last_total && last_total == rp_model_info(copied)->weight_bytes);
    REFUSED(rp_model_open(path, &(RpModelOptions){.progress = stop, .copy = true}, &stopped), RP_E_CANCELLED,
            ": loading was stopped");
    cr_assert_eq(truncate(path, 0), 0);
    float *want = logits_of(mapped), *got = logits_of(copied);
    cr_expect_eq(memcmp(got, want, 3 * (size_t)rp_model_info(mapped)->n_vocab * sizeof *got), 0);
    free(want);
    free(got);
    rp_model_free(mapped);
    rp_model_free(copied);
}

/* Linux 5.14 and later; qemu ignores the advice. */
static bool reads_pages_in(void) {
    FILE *empty = tmpfile();
    void *page  = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fileno(empty), 0);
    cr_assert_neq(page, MAP_FAILED);
    const bool fails = syscall(SYS_madvise, page, (size_t)sysconf(_SC_PAGESIZE), 22) != 0 && errno == EFAULT;
    munmap(page, 1);
    fclose(empty);
    return fails;
}

/* Without the pages of the file a touch would end the process by SIGBUS. */
Test(file_changes, a_mapped_file_that_becomes_shorter_while_it_is_read_is_an_error) {
    RpModel    *m;
    const char *want = reads_pages_in() ? ": a part could not be read: the file became shorter, or its device failed"
                                        : ": the file changed while it was read";
    OK(rp_synth("smollm2-135m", &(RpSynthOptions){.hollow = true}, path));
    REFUSED(rp_model_open(path, &(RpModelOptions){.progress = empty_file}, &m), RP_E_IO, want);
    cr_expect_null(m);
}

/* The range for which huge pages were asked last. Whether they are granted is the system's choice, and differs. */
static uintptr_t huge_from, huge_end;

int madvise(void *address, size_t bytes, int advice) { /* instead of the C library's, for the library under test too */
    if (advice == MADV_HUGEPAGE) huge_from = (uintptr_t)address, huge_end = huge_from + bytes;
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

/* Decode reads all weights of each token in order: with small pages the misses of the TLB take a third of its time. */
static void expect_huge_pages(bool copy) {
    RpModel *m;
    huge_from = huge_end = 0;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", &(RpModelOptions){.copy = copy}, &m));
    const RpGgufFile *f = rp_model_file(m);
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const uintptr_t data = (uintptr_t)rp_gguf_tensor(f, i)->view.data;
        cr_expect(data >= huge_from && data < huge_end, "copy %d, tensor %lld", copy, (long long)i);
    }
    /* Only then can a page of the cache of 2 MiB be one of the mapping. */
    if (!copy) cr_expect_eq(huge_from % (2 << 20), 0, "the file is mapped at %zx", (size_t)huge_from);
    rp_model_free(m);
}

Test(file_changes, a_copied_model_asks_for_huge_pages) { expect_huge_pages(true); }

Test(file_changes, a_mapped_model_asks_for_huge_pages) {
    for (int i = 0; i < 8; i++) expect_huge_pages(false);
}

/* 720 GB, of which the disk has none. */
Test(file_changes, a_model_larger_than_the_memory_keeps_small_pages) {
    RpModel *m;
    OK(rp_synth("deepseek-v3", &(RpSynthOptions){.hollow = true}, path));
    OK(rp_model_open(path, NULL, &m));
    cr_expect_eq(huge_end, 0, "%zu bytes", rp_model_info(m)->weight_bytes);
    rp_model_free(m);
}

/* ---- races: a process that writes as fast as it can ---- */

static void write_lengths(void) {
    const uint64_t lengths[] = {0, UINT64_MAX - 7, 1u << 20, 5};
    const size_t   at        = first_token();
    const int      fd        = open(path, O_WRONLY | O_CLOEXEC);
    for (unsigned i = 0;; i++)
        (void)!pwrite(fd, i % 2 ? (const void *)&lengths[i / 2 % 4] : contents + at, 8, (off_t)at);
}

static void write_sizes(void) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (unsigned i = 0;; i++) {
        (void)!ftruncate(fd, (off_t)(size * (i % 7) / 7));
        (void)!pwrite(fd, contents, size, 0);
    }
}

/* Opens the model again and again while a child writes, until many opens have met a change; opens without one
 * succeed. */
static void race(void (*writer)(void), bool copy) {
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        writer();
    }
    end_if_it_hangs();
    int n_refused = 0;
    for (int n = 0; n < OPENS || n_refused < LEAST_REFUSED; n++) {
        RpModel       *m;
        const RpStatus st = rp_model_open(path, &(RpModelOptions){.copy = copy}, &m);
        n_refused += st != RP_OK;
        cr_expect(st == RP_OK || st == RP_E_IO || st == RP_E_FORMAT, "%d: %s", (int)st, rp_last_error());
        if (st != RP_OK) continue;
        (void)walk(rp_model_file(m));
        if (copy) free(logits_of(m));
        rp_model_free(m);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

Test(file_changes, lengths_that_change_during_the_load) { race(write_lengths, false); }

Test(file_changes, lengths_that_change_during_the_load_of_a_copy) { race(write_lengths, true); }

Test(file_changes, sizes_that_change_during_the_load) { race(write_sizes, false); }

Test(file_changes, sizes_that_change_during_the_load_of_a_copy) { race(write_sizes, true); }
