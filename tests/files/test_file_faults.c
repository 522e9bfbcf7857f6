/* Files that are replaced while memory, files and threads fail: every call once (host_scenario.h), and disks that
 * become full. The old file must stay whole until the new one is complete. */
#include "base/files/new_file.h"
#include "tests/support/host_scenario.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

TestSuite(file_faults, .init = make_folder, .fini = remove_folder);

static const RpModel *model;

static const char old_text[] = "the old file";

static const char *target(void) {
    static char path[128];
    snprintf(path, sizeof path, "%s/new.gguf", folder);
    return path;
}

static void put_old(void) {
    FILE *f = fopen(target(), "wb");
    cr_assert_not_null(f);
    fputs(old_text, f);
    fclose(f);
}

/* Adds the contents of the target to the result. True if it is the old file. */
static bool read_target(void) {
    static char bytes[1 << 21];
    FILE       *f = fopen(target(), "rb");
    cr_assert_not_null(f, "the target is gone");
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    cr_assert_lt(n, sizeof bytes);
    fclose(f);
    add_result(bytes, n);
    return n == sizeof old_text - 1 && memcmp(bytes, old_text, n) == 0;
}

/* A dump as DOT: that format allocates. */
static RpStatus write_dump(const char *unused) {
    ComputeGraph             *g = NULL;
    RpNewFile                *file;
    const RpModelGraphOptions o      = {.n_tok = 1, .n_ctx = 24};
    const RpDumpOptions       format = {.format = RP_DUMP_DOT};
    (void)unused;
    RP_TRY(rp_new_file_open(target(), &file));
    RpStatus st = rp_model_graph(model, &o, &g);
    if (st == RP_OK) st = rp_graph_dump(g, &format, rp_new_file_stream(file));
    rp_graph_free(g);
    return rp_new_file_close(file, st);
}

static RpStatus quantise(const char *type) {
    return rp_requantize(GOLDEN_DIR "tiny/llama-f16.gguf", target(), type, NULL, NULL);
}

static RpStatus synthesise(const char *type) {
    const RpSynthOptions o = {.type = type, .seed = 1};
    return rp_synth("tiny", &o, target());
}

/* A tokenizer from a text; it has few merges, as each token allocates. */
static RpStatus train_tokenizer(const char *text) {
    const RpGgufString texts[2] = {
        {text,       strlen(text)},
        {"and more", 8           }
    };
    const RpTrainTokenizerOptions o = {.n_vocab = 270};
    return rp_train_tokenizer(texts, 2, &o, target());
}

static RpStatus initialise(const char *tokenizer) {
    const RpTrainInitOptions o = {.tokenizer = tokenizer[0] != '\0' ? tokenizer : NULL};
    return rp_train_init("tiny", &o, target());
}

/* The scenario of a writer: it replaces an old file. */
static Scenario *writer;

static RpStatus replace(const char *arg) {
    const RpStatus st = writer(arg);
    HostFaultKind  kind;
    (void)host_fault_disarm(&kind);
    const bool old = read_target();
    cr_expect_eq(old, st != RP_OK, "%s: the %s file is there", arg, old ? "old" : "new");
    put_old();
    return st;
}

/* The files may become at most n bytes long, as on a full disk. */
static void limit_files(rlim_t n) {
    const struct rlimit limit = {n, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full after 0, 1/8, ... 7/8 of the file, and before its last byte. */
static void fill_the_disk(const char *name, const char *arg) {
    struct stat st;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(writer(arg), RP_OK, "%s", rp_last_error());
    cr_assert_eq(stat(target(), &st), 0);
    put_old();
    for (int i = 0; i <= 8; i++) {
        const int fds = entries("/proc/self/fd");
        limit_files(i < 8 ? (rlim_t)(st.st_size * i / 8) : (rlim_t)st.st_size - 1);
        const RpStatus status = writer(arg);
        limit_files(RLIM_INFINITY);
        cr_expect_eq(status, RP_E_IO, "%s %s, %d/8: %s", name, arg, i, rp_status_text(status));
        cr_expect(strstr(rp_last_error(), "File too large") != NULL, "%s %s: %s", name, arg, rp_last_error());
        cr_expect(strstr(rp_last_error(), target()) != NULL, "%s %s: %s", name, arg, rp_last_error());
        cr_expect(read_target(), "%s %s, %d/8: the old file is gone", name, arg, i);
        cr_expect_eq(entries(folder), 3, "%s %s, %d/8: a temporary file is left", name, arg, i);
        cr_expect_eq(entries("/proc/self/fd"), fds, "%s %s, %d/8: a file is open", name, arg, i);
    }
}

static void check_writer(const char *name, Scenario *scenario, const char *arg) {
    writer = scenario;
    put_old();
    fail_each_call(name, replace, arg);
    fill_the_disk(name, arg);
}

Test(file_faults, writing_a_dump) {
    RpModel *m = golden_open_tiny("llama-mix-k");
    model      = m;
    check_writer("dump", write_dump, "");
    rp_model_free(m);
}

Test(file_faults, quantising_a_file) {
    check_writer("quantize", quantise, "Q8_0");
    check_writer("quantize", quantise, "Q4_K_M");
}

Test(file_faults, training_a_tokenizer) { check_writer("tokenizer", train_tokenizer, "one text, two texts"); }

Test(file_faults, writing_initial_weights) {
    check_writer("init", initialise, "");
    check_writer("init", initialise, GOLDEN_DIR "tokenizer/gpt-2.gguf");
}

Test(file_faults, writing_random_weights) { check_writer("synth", synthesise, "Q4_0"); }

/* The data is on the disk before it gets its name, so a failing fsync of the file is no success. */
Test(file_faults, a_file_that_cannot_be_synced_keeps_its_old_contents) {
    HostFaultKind kind;
    put_old();
    host_fault_arm_call("fsync", 1);
    REFUSED(quantise("Q8_0"), RP_E_IO, "Input/output error");
    cr_expect_str_eq(host_fault_disarm(&kind), "fsync");
    cr_expect(read_target());
    cr_expect_eq(entries(folder), 3);
}

/* ---- the old file is kept ---- */

static const char *kept(void) {
    static char path[160];
    snprintf(path, sizeof path, "%s.1", target());
    return path;
}

static RpStatus replace_and_keep(const char *text) {
    RpNewFile *file;
    RP_TRY(rp_new_file_open(target(), &file));
    fputs(text, rp_new_file_stream(file));
    return rp_new_file_close(file, rp_new_file_keep(file, ".1"));
}

static bool has_text(const char *path, const char *want) {
    char  got[64] = "";
    FILE *f       = fopen(path, "rb");
    if (f == NULL) return false;
    got[fread(got, 1, sizeof got - 1, f)] = '\0';
    fclose(f);
    return strcmp(got, want) == 0;
}

/* The name has a file after each failure, and the kept one is the one before or the one before that. */
static RpStatus keep(const char *text) {
    const RpStatus st = replace_and_keep(text);
    HostFaultKind  kind;
    (void)host_fault_disarm(&kind);
    cr_expect(has_text(target(), st == RP_OK ? text : old_text));
    cr_expect(has_text(kept(), old_text) || (st != RP_OK && has_text(kept(), "older")));
    FILE *f = fopen(kept(), "wb");
    fputs("older", f);
    fclose(f);
    put_old();
    return st;
}

static void check_keep(void) {
    FILE *f = fopen(kept(), "wb");
    fputs("older", f);
    fclose(f);
    put_old();
    fail_each_call("keep", keep, "the new file");
}

Test(file_faults, keeping_the_old_file) { check_keep(); }

Test(file_faults, keeping_the_old_file_without_hard_links) {
    host_without_links(true);
    check_keep();
    host_without_links(false);
}
