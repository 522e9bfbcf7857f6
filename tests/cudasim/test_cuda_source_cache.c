/* The cache of compiled kernels: hits, misses, and everything that can be wrong with it, none of which may be fatal or
 * silent (I10). Also custom ops of source text inside a model, whose replies are one launch. */
#include "tests/cudasim/source_net.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The path of the only entry; "" if there is none. Fails for more, also for temporary files that were left. */
static const char *entry(void) {
    static char    path[512];
    char           folder[128];
    int            n = 0;
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

/* Opens once more: whether it compiled, and what info.kernels ends with. */
static void expect(TensorOp op, int want_compiled, const char *text) {
    int         compiled;
    const char *got = open_text(op, &compiled);
    cr_assert_eq(compiled, want_compiled, "%s", got);
    cr_assert_not_null(strstr(got, text), "\"%s\" does not say \"%s\"", got, text);
    cr_assert(strstr(text, ": ") != NULL || strstr(got, "; cache:") == NULL, "%s", got);
}

static void overwrite(const char *path, long at, const void *bytes, size_t n) {
    FILE *f = fopen(path, "r+b");
    cr_assert(f != NULL && fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) == 0 && fwrite(bytes, 1, n, f) == n &&
              fclose(f) == 0);
}

Test(source_cache, compiles_once) {
    const TensorOp op = start();
    struct stat    s;
    expect(op, 1, "1 compiled, 0 from the cache");
    cr_assert_eq(stat(entry(), &s), 0);
    cr_expect_eq(s.st_mode & 0777u, 0600u);
    for (int i = 0; i < 3; i++) expect(op, 0, "0 compiled, 1 from the cache");
    finish();
}

Test(source_cache, whatever_the_result_depends_on_is_part_of_the_key) {
    static const char *const  option[] = {"-DX=1"};
    static const RpCudaSource options  = {.text = TIMES("times"), .kernel = "times", .grid = RP_GRID_ELEMENTS,
                                          .options = option, .n_options = 1, .file = "times.cu"},
                              text     = {.text = "// other\n" TIMES("times"), .kernel = "times", .grid = RP_GRID_ELEMENTS},
                              same     = {.text = TIMES("times"), .kernel = "times", .grid = RP_GRID_ELEMENTS,
                                          .block = 96, .file = "times.cu"};
    const TensorOp op = start();
    TensorOp       a, b, c;
    OK(net_register("with_options", &options, true, &a));
    OK(net_register("with_text", &text, true, &b));
    OK(net_register("another_launch", &same, true, &c));
    expect(op, 1, "1 compiled");
    expect(a, 1, "1 compiled");
    expect(b, 1, "1 compiled");
    expect(c, 0, "1 from the cache");
    sim_capability(7, 5);
    expect(op, 1, "1 compiled");
    sim_capability(9, 0);
    expect(op, 0, "1 from the cache");
    finish();
}

Test(source_cache, a_source_that_includes_files_is_not_kept) {
    static const char *const  option[] = {"-I/nowhere"};
    static const RpCudaSource folder = {.text = TIMES("times"), .kernel = "times", .grid = RP_GRID_ELEMENTS,
                                        .options = option, .n_options = 1},
                              file   = {.text = "#include \"x.h\"\n" TIMES("times"), .kernel = "times",
                                        .grid = RP_GRID_ELEMENTS},
                              system_header = {.text = "#include <cuda_fp16.h>\n" TIMES("times"), .kernel = "times",
                                               .grid = RP_GRID_ELEMENTS};
    TensorOp a, b, c;
    (void)start();
    OK(net_register("folder", &folder, true, &a));
    OK(net_register("file", &file, true, &b));
    OK(net_register("system_header", &system_header, true, &c));
    for (int i = 0; i < 2; i++) {
        expect(a, 1, "1 compiled");
        expect(b, 1, "1 compiled");
    }
    cr_expect_str_eq(entry(), "");
    expect(c, 1, "1 compiled");
    expect(c, 0, "1 from the cache");
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
    const TensorOp op = start();
    expect(op, 1, "1 compiled");
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        overwrite(entry(), damage[i].at, damage[i].bytes, strlen(damage[i].bytes));
        expect(op, 1, "; cache: ");
        expect(op, 0, "1 from the cache");
    }
    for (long size = 0; size < 300; size += 60) {
        cr_assert_eq(truncate(entry(), size), 0);
        expect(op, 1, "; cache: ");
        expect(op, 0, "1 from the cache");
    }
    finish();
}

/* Two keys with one hash: the entry of another key is a miss, not wrong code. */
Test(source_cache, an_entry_of_another_key_is_not_used) {
    static const RpCudaSource other = {.text = "// other\n" TIMES("times"), .kernel = "times", .grid = RP_GRID_ELEMENTS};
    const TensorOp            op    = start();
    TensorOp                  b;
    char                      first[512], kept[512], command[1200];
    OK(net_register("other", &other, true, &b));
    expect(op, 1, "1 compiled");
    snprintf(first, sizeof first, "%s", entry());
    snprintf(kept, sizeof kept, "%s/kept", net_cache);
    cr_assert_eq(rename(first, kept), 0);
    expect(b, 1, "1 compiled");
    snprintf(command, sizeof command, "mv '%s' '%s'", kept, entry());
    cr_assert_eq(system(command), 0);
    expect(b, 1, "1 compiled");
    expect(b, 0, "1 from the cache");
    finish();
}

Test(source_cache, what_other_users_can_write_to_is_not_read) {
    const TensorOp op = start();
    char           folder[128];
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    expect(op, 1, "1 compiled");
    cr_assert_eq(chmod(entry(), 0666), 0);
    expect(op, 1, ".code: other users can write to it");
    cr_assert_eq(chmod(entry(), 0600), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    expect(op, 1, "/reprise: other users can write to it");
    cr_assert_eq(chmod(folder, 0700), 0);
    expect(op, 0, "1 from the cache");
    finish();
}

Test(source_cache, a_folder_that_cannot_be_used_is_named) {
    const TensorOp op = start();
    char           path[128];
    snprintf(path, sizeof path, "%s/file", net_cache);
    fclose(fopen(path, "w"));
    cr_assert_eq(setenv("XDG_CACHE_HOME", path, 1), 0);
    expect(op, 1, "; cache: ");
    cr_assert_eq(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
    expect(op, 1, "; cache: /proc/nowhere: ");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect(op, 1, "; cache: neither XDG_CACHE_HOME nor HOME is set");
    cr_assert_eq(setenv("HOME", net_cache, 1), 0); /* .cache/reprise below it */
    expect(op, 1, "1 compiled");
    expect(op, 0, "1 from the cache");
    finish();
}

/* A folder without permission to write; root may always write. */
Test(source_cache, a_folder_that_is_read_only_still_serves_hits) {
    const TensorOp op = start();
    char           folder[128];
    if (geteuid() == 0) {
        net_remove_cache();
        cr_skip_test("root can write to any folder");
    }
    snprintf(folder, sizeof folder, "%s/reprise", net_cache);
    expect(op, 1, "1 compiled");
    cr_assert_eq(chmod(folder, 0500), 0);
    expect(op, 0, "1 from the cache");
    sim_capability(7, 5);
    expect(op, 1, "; cache: ");
    sim_capability(9, 0);
    cr_assert_eq(chmod(folder, 0700), 0);
    finish();
}

Test(source_cache, processes_may_write_one_entry_at_once) {
    const TensorOp op = start();
    pid_t          children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            Net n;
            net_plan(op, &n);
            const RpStatus st = net_open(&n, "cuda", RP_MODE_EAGER, NULL);
            net_close(&n);
            _exit(st != RP_OK);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status;
        cr_assert(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    cr_expect(entry()[0] != '\0');
    expect(op, 0, "1 from the cache");
    finish();
}

/* ---- inside a model ---- */

/* mul(a, x), the product of the feed-forward network, as a kernel of source text. The second source is at byte 160. */
static RpStatus product_cpu(const RpOpArgs *args, RpKernelCtx *ctx) {
    const float *a = args->binary.a.data, *b = args->binary.b.data;
    float       *y = args->dst.data;
    for (int64_t i = ctx->ith; i < rp_view_elems(&args->dst); i += ctx->nth) y[i] = a[i] * b[i];
    return RP_OK;
}

/* The factor of `times` becomes an element of the second source. */
static char *product_text(void) {
    static const char old[] = "ld.param.f32 %f2, [p+1200];",
                      with[] = "ld.param.u64 %rd5, [p+160]; cvta.to.global.u64 %rd6, %rd5; add.s64 %rd8, %rd6, %rd7; "
                               "ld.global.f32 %f2, [%rd8];";
    char *text = malloc(strlen(times.text) + sizeof with), *at;
    const size_t before = (size_t)(strstr(times.text, old) - times.text);
    memcpy(text, times.text, before);
    at = text + before;
    memcpy(at, with, sizeof with - 1);
    strcpy(at + sizeof with - 1, times.text + before + strlen(old));
    /* all elements, not one row: dst.ne[0] * dst.ne[1] */
    return text;
}

static void reply(const RpModel *m, const char *device, RpExecMode mode, int32_t ids[12]) {
    static const int32_t    prompt[] = {5, 17, 40};
    const RpSessionOptions  o = {.n_ctx = 24, .prefill_chunk = 1, .device = device, .mode = mode, .n_threads = 1,
                                 .passes = "-all,+product"};
    const RpGenerateOptions g = {.max_tokens = 12, .ignore_end = true, .tokens = &(RpTokenList){0}};
    RpSamplerParams         p = rp_sampler_defaults();
    RpSampler              *sampler;
    RpSession              *s;
    RpGenerateResult        r;
    p.temperature = 0.0f;
    OK(rp_sampler_new(&p, rp_model_info(m)->n_vocab, &sampler));
    OK(rp_session_open(m, &o, &s));
    if (strcmp(device, "cuda") == 0) cr_assert_eq(rp_session_info(s).mode, mode, "%s", rp_session_info(s).reason);
    OK(rp_generate(s, sampler, prompt, 3, &g, &r));
    cr_assert_eq(g.tokens->n, (size_t)12);
    memcpy(ids, g.tokens->ids, 12 * sizeof *ids);
    rp_token_list_free(g.tokens);
    rp_session_free(s);
    rp_sampler_free(sampler);
}

Test(source_cache, a_reply_in_one_launch_has_the_same_tokens) {
    static const RpGraphPattern pattern = {.name = "product", .match = "mul(silu(a), b)", .make = "product(x, b)"};
    (void)start();
    char                       *text = product_text();
    const RpCudaSource          s    = {.text = text, .kernel = "times", .grid = RP_GRID_ELEMENTS};
    RpGraphPattern              plain = pattern;
    const RpOpDescription       d    = {.name = "product", .n_required = 2, .n_sources = 2, .shape = net_shape,
                                        .flags = RP_FLAG_FUSED, .cpu = product_cpu};
    int32_t                     cpu[12], other[12];
    TensorOp                    op;
    plain.match = "mul(a, b)";
    plain.make  = "product(a, b)";
    OK(rp_op_register_source(&d, &s, &op));
    OK(rp_pattern_register(&plain));
    RpModel *m = golden_open_tiny("llama-f32");
    reply(m, "cpu", RP_MODE_AUTO, cpu);
    for (RpExecMode mode = RP_MODE_EAGER; mode <= RP_MODE_LOOP; mode++) {
        reply(m, "cuda", mode, other);
        cr_expect_arr_eq(other, cpu, sizeof cpu, "%s", rp_mode_name(mode));
    }
    rp_model_free(m);
    free(text);
    finish();
}
