/* The cache of compiled kernels, without a device: hits, misses, and everything that can be wrong with it, none of
 * which may be fatal or silent (I10). The compiler is a stand-in. */
#include "tests/sim/executor/source_net.h"
#include "tests/support/case.h"

#include "executor/cuda/compile.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const CudaCode code = {
    .owner = "times", .file = "times.cu", .prelude = "", .text = TIMES("times"), .kernel = "times"};
static int architecture = 90;

/* The path of the only entry; "" if there is none. Fails for more, also for temporary files that were left. */
static const char *entry(void) {
    static char path[512];
    char        folder[128];
    int         n = 0;
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    DIR *d  = opendir(folder);
    path[0] = '\0';
    for (struct dirent *f; d != NULL && (f = readdir(d)) != NULL;)
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0) {
            snprintf(path, sizeof path, "%s/%.200s", folder, f->d_name);
            n++;
        }
    if (d != NULL) closedir(d);
    cr_assert_leq(n, 1);
    return path;
}

static CompileJob compile(const CudaCode *c) {
    CompileJob job = {.code = *c};
    RpNvrtc   *n;
    CudaTarget target;
    OK(rp_compiler_open(&n));
    OK(rp_nvrtc_target(n, architecture / 10, architecture % 10, &target));
    cr_assert(rp_compile_all(n, target, &job, 1, NULL));
    rp_nvrtc_close(n);
    return job;
}

/* Compiles once more: whether it came from the cache, with the right code; and why the cache was not used, NULL: it
 * was. */
static void expect(const CudaCode *c, bool cached, const char *why) {
    const int  before = stats().compiled;
    CompileJob job    = compile(c);
    cr_assert_eq(job.status, RP_OK, "%s", job.error);
    cr_assert_eq(job.cached, cached);
    cr_assert_eq(stats().compiled - before, !cached);
    cr_assert_str_eq(job.binary.symbol, "times");
    cr_assert_str_eq(job.binary.ptx, strstr(c->text, "PTX:") + 4);
    cr_assert_arr_eq(job.binary.cubin, "\177ELF", 4);
    cr_assert_str_eq(job.binary.cubin + 4, job.binary.ptx);
    cr_assert_eq((uintptr_t)job.binary.cubin % 16, (uintptr_t)0);
    if (why == NULL)
        cr_assert_str_eq(job.cache, "");
    else
        cr_assert_not_null(strstr(job.cache, why), "\"%s\" does not say \"%s\"", job.cache, why);
    rp_cuda_binary_free(&job.binary);
}

static void overwrite(const char *path, long at, const void *bytes, size_t n) {
    FILE *f = fopen(path, "r+b");
    cr_assert(f != NULL && fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) == 0 && fwrite(bytes, 1, n, f) == n &&
              fclose(f) == 0);
}

Test(source_cache, compiles_once) {
    use_fake();
    struct stat s;
    expect(&code, false, NULL);
    cr_assert_eq(stat(entry(), &s), 0);
    cr_expect_eq(s.st_mode & 0777u, 0600u);
    for (int i = 0; i < 3; i++) expect(&code, true, NULL);
    finish();
}

Test(source_cache, whatever_the_result_depends_on_is_part_of_the_key) {
    static const char *const option[] = {"-DX=1"};
    CudaCode                 options = code, text = code, prelude = code, file = code, owner = code;
    options.options   = option;
    options.n_options = 1;
    text.text         = "// other\n" TIMES("times");
    prelude.prelude   = "// other\n";
    file.file         = "other.cu"; /* part of the line information */
    owner.owner       = "other";    /* not part of the result */
    use_fake();
    expect(&code, false, NULL);
    expect(&options, false, NULL);
    expect(&text, false, NULL);
    expect(&prelude, false, NULL);
    expect(&file, false, NULL);
    expect(&owner, true, NULL);
    architecture = 75;
    expect(&code, false, NULL);
    architecture = 90;
    expect(&code, true, NULL);
    finish();
}

Test(source_cache, a_source_that_includes_files_is_not_kept) {
    static const char *const option[] = {"-I/nowhere"};
    CudaCode                 folder = code, file = code, system_header = code;
    folder.options     = option;
    folder.n_options   = 1;
    file.text          = "#include \"x.h\"\n" TIMES("times");
    system_header.text = "#include <cuda_fp16.h>\n" TIMES("times");
    use_fake();
    for (int i = 0; i < 2; i++) {
        expect(&folder, false, NULL);
        expect(&file, false, NULL);
    }
    cr_expect_str_eq(entry(), "");
    expect(&system_header, false, NULL);
    expect(&system_header, true, NULL);
    finish();
}

Test(source_cache, a_corrupt_entry_is_named_and_replaced) {
    static const struct {
        long        at;
        const char *bytes;
    } damage[] = {
        {0,   "X"       },
        {9,   "\xff"    },
        {40,  "\x01\x02"},
        {70,  "X"       },
        {200, "X"       },
        {-1,  "X"       }
    };
    use_fake();
    expect(&code, false, NULL);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        overwrite(entry(), damage[i].at, damage[i].bytes, strlen(damage[i].bytes));
        expect(&code, false, ".code: is corrupt");
        expect(&code, true, NULL);
    }
    for (long size = 0; size < 300; size += 60) {
        cr_assert_eq(truncate(entry(), size), 0, CASE(size));
        expect(&code, false, size < 64 ? ".code: is no entry of the cache" : ".code: is corrupt");
        expect(&code, true, NULL);
    }
    finish();
}

/* Two keys with one hash: the entry of another key is a miss, not wrong code. */
Test(source_cache, an_entry_of_another_key_is_not_used) {
    CudaCode other = code;
    char     first[512], kept[512];
    other.text = "// other\n" TIMES("times") "// other\n";
    use_fake();
    expect(&code, false, NULL);
    snprintf(first, sizeof first, "%s", entry());
    snprintf(kept, sizeof kept, "%s/kept", net_cache);
    cr_assert_eq(rename(first, kept), 0);
    expect(&other, false, NULL);
    cr_assert_eq(rename(kept, entry()), 0);
    expect(&other, false, NULL);
    expect(&other, true, NULL);
    finish();
}

Test(source_cache, what_other_users_can_write_to_is_not_read) {
    use_fake();
    char folder[128];
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    expect(&code, false, NULL);
    cr_assert_eq(chmod(entry(), 0666), 0);
    expect(&code, false, ".code: other users can write to it");
    cr_assert_eq(chmod(entry(), 0600), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    expect(&code, false, "/reprise: other users can write to it");
    cr_assert_eq(chmod(folder, 0700), 0);
    expect(&code, true, NULL);
    finish();
}

/* Whoever can put a link there would choose what is loaded as code. */
Test(source_cache, a_symbolic_link_is_not_followed) {
    use_fake();
    char folder[128], kept[128];
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    snprintf(kept, sizeof kept, "%s/elsewhere", net_cache);
    expect(&code, false, NULL);
    cr_assert_eq(rename(folder, kept), 0);
    cr_assert_eq(symlink(kept, folder), 0);
    expect(&code, false, "/reprise: is a symbolic link, or no folder");
    cr_assert_eq(unlink(folder), 0);
    cr_assert_eq(rename(kept, folder), 0);
    expect(&code, true, NULL);
    snprintf(kept, sizeof kept, "%s/code", net_cache);
    char path[512];
    snprintf(path, sizeof path, "%s", entry());
    cr_assert_eq(rename(path, kept), 0);
    cr_assert_eq(symlink(kept, path), 0);
    expect(&code, false, "symbolic links");
    finish();
}

/* Sets the time of the last use of all entries. */
static void used_at(time_t second) {
    char folder[128], path[512];
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    DIR *d = opendir(folder);
    cr_assert_not_null(d);
    for (struct dirent *f; (f = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%.200s", folder, f->d_name);
        const struct timespec at[2] = {
            {second, 0},
            {second, 0}
        };
        if (f->d_name[0] != '.') cr_assert_eq(utimensat(AT_FDCWD, path, at, 0), 0, "%s", path);
    }
    closedir(d);
}

Test(source_cache, entries_that_were_not_used_for_the_longest_time_are_removed) {
    enum { LARGE = 400000 };
    CudaCode c[4] = {code, code, code, code};
    use_fake();
    cr_assert_eq(setenv("REPRISE_CODE_CACHE_MB", "1", 1), 0);
    for (int i = 0; i < 4; i++) { /* the last one is larger than the limit */
        char *text = NULL;
        cr_assert_geq(asprintf(&text, "// %*d\n%s", i < 3 ? LARGE : 3 * LARGE, i, TIMES("times")), 0, CASE(i));
        c[i].text = text;
    }
    expect(&c[0], false, NULL);
    expect(&c[1], false, NULL);
    used_at(1000);
    expect(&c[0], true, NULL);
    expect(&c[2], false, NULL); /* removes the second */
    expect(&c[0], true, NULL);
    expect(&c[2], true, NULL);
    used_at(1000);
    expect(&c[2], true, NULL);
    expect(&c[1], false, NULL); /* removes the first */
    expect(&c[2], true, NULL);
    expect(&c[1], true, NULL);
    expect(&c[3], false, "bytes is too large");
    expect(&c[1], true, NULL);
    cr_assert_eq(setenv("REPRISE_CODE_CACHE_MB", "0", 1), 0);
    expect(&c[1], false, "REPRISE_CODE_CACHE_MB=0");
    cr_assert_eq(setenv("REPRISE_CODE_CACHE_MB", "many", 1), 0);
    expect(&c[1], false, "REPRISE_CODE_CACHE_MB='many': must be a number");
    unsetenv("REPRISE_CODE_CACHE_MB");
    expect(&c[1], true, NULL);
    char deep[5000] = "/";
    memset(deep + 1, 'd', sizeof deep - 2);
    cr_assert_eq(setenv("XDG_CACHE_HOME", deep, 1), 0);
    expect(&c[1], false, "the path of the cache is too long");
    cr_assert_eq(setenv("XDG_CACHE_HOME", net_cache, 1), 0);
    for (int i = 0; i < 4; i++) free((void *)(uintptr_t)c[i].text);
    finish();
}

/* A name in #line must not end its string, or the line. */
Test(source_cache, any_file_name_comes_back_in_messages) {
    static const char *const names[] = {"a\"b.cu", "C:\\x\\n.cu", "a\n#error b\n.cu", "\x01\x7f\xff.cu", "a\\", "\"\n"};
    CudaCode                 wrong   = code;
    wrong.text                       = "\n#error here\n";
    use_fake();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char error[64];
        wrong.file           = names[i];
        const CompileJob job = compile(&wrong);
        snprintf(error, sizeof error, "times: %s(2): error: #error here\n", names[i]);
        cr_expect_eq(job.status, RP_E_ARG, CASE(i));
        if (strpbrk(names[i], "\n\x01") == NULL)
            cr_expect_str_eq(job.error, error, CASE(i));
        else
            cr_expect_not_null(strstr(job.error, "(2): error: #error here"), "%s", job.error);
    }
    finish();
}

Test(source_cache, a_folder_that_cannot_be_used_is_named) {
    use_fake();
    char path[128];
    snprintf(path, sizeof path, "%s/file", net_cache);
    fclose(fopen(path, "w"));
    cr_assert_eq(setenv("XDG_CACHE_HOME", path, 1), 0);
    expect(&code, false, net_cache);
    cr_assert_eq(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
    expect(&code, false, "/proc/nowhere: ");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect(&code, false, "neither XDG_CACHE_HOME nor HOME is set");
    cr_assert_eq(setenv("HOME", net_cache, 1), 0); /* .cache/reprise below it */
    expect(&code, false, NULL);
    expect(&code, true, NULL);
    finish();
}

/* Root can write to any folder, so the test becomes another user. */
Test(source_cache, a_folder_that_is_read_only_still_serves_hits) {
    enum { NOBODY = 65534 };
    const bool root = geteuid() == 0;
    char       folder[128];
    use_fake();
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    if (root) cr_assert(chown(net_cache, NOBODY, NOBODY) == 0 && seteuid(NOBODY) == 0);
    expect(&code, false, NULL);
    cr_assert_eq(chmod(folder, 0500), 0);
    expect(&code, true, NULL);
    architecture = 75;
    expect(&code, false, "Permission denied");
    architecture = 90;
    cr_assert_eq(chmod(folder, 0700), 0);
    if (root) cr_assert_eq(seteuid(0), 0);
    finish();
}

Test(source_cache, processes_may_write_one_entry_at_once) {
    use_fake();
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(compile(&code).status != RP_OK);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        cr_assert(waitpid(children[i], &status, 0) == children[i] && status == 0, CASE(i));
    }
    cr_expect(entry()[0] != '\0');
    expect(&code, true, NULL);
    finish();
}

Test(source_cache, many_programs_are_compiled_at_a_time) {
    enum { N = 24 };
    static char texts[N][sizeof TIMES("times") + 32];
    CompileJob  jobs[N];
    RpNvrtc    *n;
    CudaTarget  target;
    use_fake();
    OK(rp_compiler_open(&n));
    OK(rp_nvrtc_target(n, 9, 0, &target));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            snprintf(texts[i], sizeof texts[i], "%s%d\n%s", i % 5 == 4 ? "\n#error " : "// ", i, TIMES("times"));
            jobs[i]           = (CompileJob){.code = code};
            jobs[i].code.text = texts[i];
        }
        cr_assert(rp_compile_all(n, target, jobs, N, NULL), CASE(round));
        for (int i = 0; i < N; i++) {
            char error[64];
            snprintf(error, sizeof error, "times: times.cu(2): error: #error %d\n", i);
            cr_assert_eq(jobs[i].status, i % 5 == 4 ? RP_E_ARG : RP_OK, "%s", jobs[i].error);
            if (i % 5 == 4) cr_expect_str_eq(jobs[i].error, error, CASE(round, i));
            cr_expect_eq(jobs[i].cached, round == 1 && i % 5 != 4, CASE(round, i));
            rp_cuda_binary_free(&jobs[i].binary);
        }
    }
    rp_nvrtc_close(n);
    finish();
}

/* No call of the compiler may leave a program or memory behind; the address sanitizer looks for the latter. */
static bool stop(size_t done, size_t total, void *user) {
    (void)done, (void)total;
    ++*(int *)user;
    return false;
}

Test(source_cache, compiling_ends_when_it_is_cancelled_or_takes_too_long) {
    int                asked     = 0;
    const CompileWatch watches[] = {
        {.progress = stop, .user = &asked},
        {.limit_s = 1e-9               }
    };
    RpNvrtc   *n;
    CudaTarget target;
    use_fake();
    OK(rp_compiler_open(&n));
    OK(rp_nvrtc_target(n, 9, 0, &target));
    for (int i = 0; i < 2; i++) {
        CompileJob jobs[2] = {{.code = code}, {.code = code}};
        cr_expect_eq(rp_compile_all(n, target, jobs, 2, &watches[i]), i == 1, CASE(i));
        for (int k = 0; k < 2; k++) {
            cr_expect_eq(jobs[k].status, i == 0 ? RP_E_CANCELLED : RP_E_NOT_AVAILABLE, CASE(i, k));
            cr_expect_str_eq(jobs[k].error,
                             i == 0 ? "times: cancelled before it was compiled" : "times: not compiled within 0 s",
                             CASE(i, k));
        }
    }
    cr_expect_eq(asked, 1);
    cr_expect_eq(stats().compiled, 0);
    rp_nvrtc_close(n);
    finish();
}

Test(source_cache, every_call_of_the_compiler_may_fail) {
    static const char *const calls[] = {
        "nvrtcCreateProgram", "nvrtcAddNameExpression", "nvrtcCompileProgram", "nvrtcGetPTXSize",
        "nvrtcGetPTX",        "nvrtcGetCUBINSize",      "nvrtcGetCUBIN",       "nvrtcGetLoweredName"};
    use_fake();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        cr_assert_eq(setenv(FAKE_NVRTC_VARIABLE, calls[i], 1), 0, CASE(i));
        const CompileJob job = compile(&code);
        cr_expect(job.status == RP_E_ARG || job.status == RP_E_NOT_AVAILABLE, "%s", calls[i]);
        cr_expect_not_null(strstr(job.error, "made to fail"), "%s: %s", calls[i], job.error);
        cr_expect_null(job.binary.memory, CASE(i));
        cr_expect_eq(stats().live, 0, "%s", calls[i]);
    }
    cr_assert_eq(unsetenv(FAKE_NVRTC_VARIABLE), 0);
    expect(&code, false, NULL);
    finish();
}
