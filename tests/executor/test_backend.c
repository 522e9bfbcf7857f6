/* Backends in shared objects: one that hands every step back gives the bits of the built-in kernels, one by OpenBLAS
 * their logits within a bound; what is refused, with its text. Each test copies the shared object to a folder of its
 * own, because the folder of a build may be writable by others. */
#include "tests/support/case.h"
#include "tests/support/decoder.h"
#include "tests/support/folder.h"

#include "tests/executor/backends/backend.h"

#include "reprise/embed.h"
#include "reprise/engine.h"
#include "reprise/options.h"
#include "reprise/session.h"

#include <dlfcn.h>
#include <elf.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILT RP_BUILD_DIR "/tests/backends/backend_"

static char path[128];

/* `path` is a copy of the file `from`, as NAME.so. */
static const char *copy_as(const char *from, const char *name) {
    char buffer[4096];
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    cr_assert(in != NULL && out != NULL, "%s", from);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        cr_assert_eq(fwrite(buffer, 1, n, out), n, "%s", from);
    fclose(in);
    cr_assert_eq(fclose(out), 0);
    cr_assert_eq(chmod(path, 0644), 0);
    return path;
}

static BackendCalls *calls_of(const char *loaded) {
    void *handle = dlopen(loaded, RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(handle, "%s", loaded);
    BackendCalls *calls = dlsym(handle, "backend_calls");
    cr_assert_not_null(calls);
    dlclose(handle);
    return calls;
}

static RpStatus open_with(const Decoder *d, const char *backend, RpExecutor **out) {
    return rp_executor_open(d->plan, &(RpExecutorOptions){.n_threads = 2, .backend = backend}, out);
}

/* The decoder with this backend in the place of the built-in kernels. */
static Decoder decoder_with(const RpModel *m, const char *backend) {
    Decoder d;
    decoder_plan(m, false, &d);
    OK(open_with(&d, backend, &d.exec));
    return d;
}

Test(backend, steps_that_are_handed_back_give_the_bits_of_the_built_in_kernels) {
    make_folder();
    RpModel *m = golden_open_tiny("llama-mix");
    Decoder  d = decoder_with(m, copy_as(BUILT "handing.so", "handing")), want = decoder_open(m, RP_MODE_AUTO, false);
    BackendCalls     *calls = calls_of(path);
    RpExecutorStates *states;
    cr_expect_str_eq(rp_executor_info(d.exec).backend, "handing: every step is handed back");
    cr_expect_str_eq(rp_executor_info(want.exec).backend, "");
    cr_expect_eq(calls->outside, RP_E_STATE, "run_steps is for `run` only");
    for (int i = 0; i < 4; i++)
        cr_expect_arr_eq(decoder_run(&d, 3 + i, i), decoder_run(&want, 3 + i, i), d.n_vocab * sizeof(float), CASE(i));
    cr_expect(calls->opened == 1 && calls->runs == 4 && calls->binds == 0 &&
              calls->steps == rp_plan_memory(d.plan).n_steps);
    const void *logits = rp_executor_data(d.exec, rp_graph_find(d.graph, "logits"));
    cr_expect_eq(calls->reads, 4);
    cr_expect_eq(calls->read_at, logits, "the output is read after each run");
    OK(rp_executor_states_new(d.exec, &states));
    OK(rp_executor_states_bind(d.exec, states));
    cr_expect_eq(calls->binds, 1);
    const TensorNode *k = rp_graph_find(d.graph, "k.0");
    char              byte;
    OK(rp_executor_get(d.exec, k, &byte, 1));
    cr_expect(calls->reads == 5 && calls->read_bytes == 1);
    OK(rp_executor_states_bind(d.exec, NULL));
    rp_executor_states_free(states);
    decoder_close(&d);
    cr_expect_eq(calls->freed, 1);
    decoder_close(&want);
    rp_model_free(m);
    remove_folder();
}

/* Executors that share have the backend of their owner, each with a state of its own. */
Test(backend, sessions_run_every_chunk_by_it) {
    make_folder();
    RpModel               *m    = golden_open_tiny("llama-mix");
    const RpSessionOptions o[2] = {
        {.n_ctx = 64,     .n_threads = 2,      .device = "cpu",                       .prefill_chunk = 16},
        { .n_ctx = 64, .n_threads = 2, .prefill_chunk = 16, .backend = copy_as(BUILT "handing.so",          "handing")}
    };
    RpSession *s[2];
    int32_t    ids[20];
    for (int i = 0; i < 20; i++) ids[i] = 3 + i;
    for (int k = 0; k < 2; k++) {
        OK(rp_session_open(m, &o[k], &s[k]));
        OK(rp_session_prefill(s[k], ids, 20, NULL, NULL));
    }
    cr_expect_arr_eq(rp_session_logits(s[1]), rp_session_logits(s[0]), 64 * sizeof(float));
    cr_expect_str_eq(rp_session_info(s[1]).backend, "handing: every step is handed back");
    BackendCalls *calls  = calls_of(path);
    const int     opened = calls->opened;
    cr_expect_gt(opened, 1, "one for each chunk length");
    for (int k = 0; k < 2; k++) rp_session_free(s[k]);
    cr_expect_eq(calls->freed, opened);
    rp_model_free(m);
    remove_folder();
}

enum { N_REQUESTS = 3, N_TOKENS = 9 };

typedef struct Replies {
    int32_t tokens[N_REQUESTS][N_TOKENS];
    int     n[N_REQUESTS];
    float   logits[N_REQUESTS][DECODER_VOCAB]; /* of the last token */
} Replies;

static void on_sampled(const RpSampledToken *s, void *user) {
    memcpy(user, s->logits, (size_t)s->n_vocab * sizeof *s->logits);
}

/* Prompts of three lengths, beside each other. */
static Replies engine_replies(const RpModel *m, RpEngine *e) {
    static Replies        r;
    RpSampler            *samplers[N_REQUESTS];
    RpEngineEvent         event;
    const RpSamplerParams params  = {.temperature = 1.0f, .seed = 5, .top_p = 1.0f, .repeat_penalty = 1.0f};
    const int32_t         n_vocab = rp_model_info(m)->n_vocab;
    int32_t               ids[40];
    uint64_t              id;
    memset(&r, 0, sizeof r);
    for (int i = 0; i < 40; i++) ids[i] = 3 + i % 50;
    for (int k = 0; k < N_REQUESTS; k++) {
        OK(rp_sampler_new(&params, n_vocab, &samplers[k]));
        rp_sampler_observe(samplers[k], on_sampled, r.logits[k]);
        OK(rp_engine_add(e,
                         &(RpRequest){.prompt     = ids,
                                      .n_prompt   = (size_t)(4 + 16 * k),
                                      .sampler    = samplers[k],
                                      .max_tokens = N_TOKENS,
                                      .ignore_end = true,
                                      .n_draft    = k, /* guesses */
                                      .user       = (void *)(intptr_t)k},
                         &id));
    }
    while (rp_engine_pending(e) > 0) {
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &event)) {
            const intptr_t k = (intptr_t)event.user;
            OK(event.status);
            if (event.token >= 0) r.tokens[k][r.n[k]++] = event.token;
        }
    }
    for (int k = 0; k < N_REQUESTS; k++) rp_sampler_free(samplers[k]);
    return r;
}

Test(backend, engines_run_every_step_by_it) {
    make_folder();
    RpModel        *m = golden_open_tiny("llama-mix");
    RpEngineOptions o = {.n_ctx = 64, .n_seq = N_REQUESTS, .n_threads = 2, .device = "cpu", .step_tokens = 16};
    RpEngine       *e;
    int             alone = 5;
    OK(rp_engine_open(m, &o, &e));
    const Replies want = engine_replies(m, e);
    cr_expect_str_eq(rp_engine_info(e).backend, "");
    rp_engine_free(e);
    o.backend = copy_as(BUILT "handing.so", "handing");
    for (int draft = 0; draft < 2; draft++) {
        o.device = NULL;
        o.draft  = draft ? m : NULL;
        OK(rp_engine_open(m, &o, &e));
        cr_expect_str_eq(rp_engine_info(e).backend, "handing: every step is handed back", CASE(draft));
        const BackendCalls *calls = calls_of(path);
        const int           runs = calls->runs, opened = calls->opened - calls->freed;
        cr_expect_gt(opened, alone,
                     CASE(draft, opened)); /* one for each length of a step; the draft model has some too */
        alone             = opened;
        const Replies got = engine_replies(m, e);
        cr_expect_arr_eq(&got, &want, sizeof want, CASE(draft));
        cr_expect_geq(calls->runs - runs, (int)rp_engine_stats(e).steps, CASE(draft, calls->runs, runs));
        rp_engine_free(e);
    }
    rp_model_free(m);
    remove_folder();
}

Test(backend, embedders_run_every_length_by_it) {
    make_folder();
    copy_as(BUILT "handing.so", "handing");
    for (int encodes = 0; encodes < 2; encodes++) {
        RpModel          *m;
        RpEmbedderOptions o = {.n_ctx = 40, .n_threads = 2, .pooling = RP_POOLING_MEAN, .device = "cpu"};
        RpEmbedder       *e[2];
        float             out[2][256];
        int32_t           ids[40];
        for (int i = 0; i < 40; i++) ids[i] = 3 + i % 50;
        OK(rp_model_open(encodes ? GOLDEN_DIR "embed/bert-f32.gguf" : GOLDEN_DIR "tiny/llama-mix.gguf", NULL, &m));
        OK(rp_embedder_open(m, &o, &e[0]));
        o.backend = path;
        o.device  = NULL;
        OK(rp_embedder_open(m, &o, &e[1]));
        cr_expect_str_eq(rp_embedder_info(e[0]).backend, "", CASE(encodes));
        cr_expect_str_eq(rp_embedder_info(e[1]).backend, "handing: every step is handed back", CASE(encodes));
        const int n_out = rp_embedder_info(e[0]).n_out;
        cr_assert_leq(n_out, 256, CASE(encodes));
        for (size_t n = 5; n <= 40; n += 35) { /* an encoder opens a graph for each length */
            const int runs = calls_of(path)->runs;
            for (int k = 0; k < 2; k++) OK(rp_embed(e[k], ids, n, out[k]));
            cr_expect_arr_eq(out[1], out[0], (size_t)n_out * sizeof(float), CASE(encodes, (int)n));
            cr_expect_gt(calls_of(path)->runs, runs, CASE(encodes, (int)n));
        }
        for (int k = 0; k < 2; k++) rp_embedder_free(e[k]);
        rp_model_free(m);
    }
    remove_folder();
}

/* The same texts as of an executor. */
Test(backend, bad_ones_of_engines_and_embedders_are_refused_at_open) {
    make_folder();
    RpModel          *m = golden_open_tiny("llama-mix");
    RpEngineOptions   o = {.n_ctx = 64, .n_threads = 1, .backend = "/none/none.so"};
    RpEmbedderOptions x = {.n_ctx = 40, .n_threads = 1, .pooling = RP_POOLING_MEAN, .backend = "/none/none.so"};
    RpEngine         *e;
    RpEmbedder       *b;
    REFUSED(rp_engine_open(m, &o, &e), RP_E_NOT_AVAILABLE, "backend '/none/none.so': its folder cannot be opened");
    cr_expect_null(e);
    REFUSED(rp_embedder_open(m, &x, &b), RP_E_NOT_AVAILABLE, "backend '/none/none.so': its folder cannot be opened");
    cr_expect_null(b);
    o.backend = x.backend = copy_as(BUILT "handing.so", "handing");
    o.device = x.device = "cuda:0";
    REFUSED(rp_engine_open(m, &o, &e), RP_E_ARG, "runs plans on the CPU, device cuda:0 is asked for");
    REFUSED(rp_embedder_open(m, &x, &b), RP_E_ARG, "runs plans on the CPU, device cuda:0 is asked for");
    o.device = x.device = NULL, o.repack = x.repack = "on";
    REFUSED(rp_engine_open(m, &o, &e), RP_E_ARG,
            ": repack must not be on, repacked weights are for the built-in kernels");
    REFUSED(rp_embedder_open(m, &x, &b), RP_E_ARG,
            ": repack must not be on, repacked weights are for the built-in kernels");
    rp_model_free(m);
    remove_folder();
}

Test(backend, failures_have_its_name_and_what_was_bound_stays) {
    make_folder();
    RpModel          *m = golden_open_tiny("llama-mix");
    Decoder           d = decoder_with(m, copy_as(BUILT "handing.so", "handing"));
    float             want[DECODER_VOCAB];
    char              byte;
    BackendCalls     *calls = calls_of(path);
    RpExecutorStates *states;
    RpExecutor       *second;
    memcpy(want, decoder_run(&d, 3, 0), d.n_vocab * sizeof *want);
    calls->fail_at = "run";
    REFUSED(decoder_try(&d, 3, 0), RP_E_STATE, "backend handing, run: the test asked for it");
    calls->fail_at = "bind";
    OK(rp_executor_states_new(d.exec, &states));
    REFUSED(rp_executor_states_bind(d.exec, states), RP_E_STATE, "backend handing, bind: the test asked for it");
    calls->fail_at = "eread";
    REFUSED(rp_executor_get(d.exec, rp_graph_find(d.graph, "k.0"), &byte, 1), RP_E_STATE,
            "backend handing, read: the test asked for it");
    calls->fail_at = "open";
    REFUSED(open_with(&d, path, &second), RP_E_STATE, "backend handing, open: the test asked for it");
    cr_expect_null(second);
    calls->fail_at  = NULL;
    calls->steps    = rp_plan_memory(d.plan).n_steps;
    calls->too_many = 1000;
    REFUSED(decoder_try(&d, 3, 0), RP_E_ARG,
            "backend handing, run: steps 0 to 1000: must be in order, and at most the 15 of the plan");
    calls->too_many = -1;
    cr_expect_arr_eq(decoder_run(&d, 3, 0), want, d.n_vocab * sizeof *want);
    rp_executor_states_free(states);
    decoder_close(&d);
    rp_model_free(m);
    remove_folder();
}

/* The error is `text` with the path in the place of "%s", and possibly more behind it. */
static void refuse_options(const Decoder *d, RpExecutorOptions o, RpStatus status, const char *text) {
    RpExecutor *e;
    const char *named = strstr(text, "%s");
    cr_assert_not_null(named, "%s", text);
    REFUSED(rp_executor_open(d->plan, &o, &e), status, named + 2);
    cr_expect_null(e, "%s", text);
    cr_expect_eq(strncmp(rp_last_error(), text, (size_t)(named - text)), 0, "%s", rp_last_error());
    cr_expect_not_null(strstr(rp_last_error(), o.backend), "%s", rp_last_error());
}

static void refuse(const Decoder *d, const char *backend, RpStatus status, const char *text) {
    refuse_options(d, (RpExecutorOptions){.n_threads = 2, .backend = backend}, status, text);
}

static bool never(const TensorNode *node, const RpTensorView *view, const void *got, const void *want, void *user) {
    (void)node, (void)view, (void)got, (void)want, (void)user;
    return false;
}

Test(backend, what_it_does_not_run_is_refused) {
    make_folder();
    RpModel          *m = golden_open_tiny("llama-mix");
    Decoder           d = decoder_with(m, copy_as(BUILT "handing.so", "handing"));
    RpExecutorOptions o = {.n_threads = 1, .backend = path};
    double            ns[64], total;
    REFUSED(rp_executor_verify(d.exec, never, NULL), RP_E_UNSUPPORTED,
            "verify looks at the built-in kernels, not at backend handing");
    REFUSED(rp_executor_profile(d.exec, 1, ns, &total), RP_E_UNSUPPORTED, "profile looks at the built-in kernels");
    REFUSED(rp_executor_run_steps(d.exec, 0, 1), RP_E_UNSUPPORTED, "a run in parts looks at the built-in kernels");
    o.device = "cuda:0";
    refuse_options(&d, o, RP_E_ARG, "backend '%s' runs plans on the CPU, device cuda:0 is asked for");
    o.device = NULL, o.repack = "on";
    refuse_options(&d, o, RP_E_ARG,
                   "backend '%s': repack must not be on, repacked weights are for the built-in kernels");
    o.repack = NULL, o.share = d.exec;
    refuse_options(&d, o, RP_E_ARG,
                   "backend '%s': must not be given with share, an executor that shares has the backend of its owner");
    decoder_close(&d);
    rp_model_free(m);
    remove_folder();
}

/* ---- loading ---- */

/* Changes two bytes of a file. */
static void put_half(const char *file, size_t at, Elf64_Half value) {
    FILE *f = fopen(file, "r+b");
    cr_assert(f != NULL && fseek(f, (long)at, SEEK_SET) == 0 && fwrite(&value, sizeof value, 1, f) == 1);
    cr_assert_eq(fclose(f), 0);
}

Test(backend, shared_objects_that_do_not_fit_are_refused) {
    make_folder();
    RpModel *m = golden_open_tiny("llama-mix");
    Decoder  d;
    decoder_plan(m, false, &d);
    refuse(&d, copy_as(BUILT "other_version.so", "b"), RP_E_UNSUPPORTED,
           "backend '%s': it is made for version 2 of the interface, this library has 1");
    refuse(&d, copy_as(BUILT "small.so", "c"), RP_E_UNSUPPORTED,
           "backend '%s': its table has 8 bytes, must be at least 64");
    refuse(&d, copy_as(BUILT "nameless.so", "d"), RP_E_UNSUPPORTED,
           "backend '%s': its table lacks a name, open, run or describe");
    refuse(&d, copy_as(BUILT "absent.so", "i"), RP_E_NOT_AVAILABLE, "backend '%s': it cannot run here");
    refuse(&d, copy_as(BUILT "no_symbol.so", "e"), RP_E_UNSUPPORTED, "backend '%s': it has no function rp_backend");
    refuse(&d, copy_as(GOLDEN_DIR "tiny/llama-mix.gguf", "f"), RP_E_ARG, "backend '%s': it is no shared object");
    put_half(copy_as(BUILT "handing.so", "g"), offsetof(Elf64_Ehdr, e_machine), EM_SPARC);
    refuse(&d, path, RP_E_UNSUPPORTED, "backend '%s': it is for another machine (ELF machine 2, here ");
    put_half(copy_as(BUILT "handing.so", "h"), offsetof(Elf64_Ehdr, e_phnum), 0);
    refuse(&d, path, RP_E_NOT_AVAILABLE, "backend '%s': it cannot be loaded: ");
    decoder_close(&d);
    rp_model_free(m);
    remove_folder();
}

Test(backend, files_that_others_can_change_are_refused) {
    make_folder();
    RpModel *m = golden_open_tiny("llama-mix");
    Decoder  d;
    char     link[128];
    decoder_plan(m, false, &d);
    copy_as(BUILT "handing.so", "handing");
    OK(open_with(&d, path, &d.exec));
    rp_executor_free(d.exec);
    d.exec = NULL;
    cr_assert_eq(chmod(path, 0664), 0);
    refuse(&d, path, RP_E_ARG, "backend '%s': the file can be written by others (mode 664)");
    cr_assert_eq(chmod(path, 0646), 0);
    refuse(&d, path, RP_E_ARG, "backend '%s': the file can be written by others (mode 646)");
    cr_assert(chmod(path, 0644) == 0 && chmod(folder, 0777) == 0);
    refuse(&d, path, RP_E_ARG, "backend '%s': the folder can be written by others (mode 777)");
    cr_assert_eq(chmod(folder, 0700), 0);
    snprintf(link, sizeof link, "%s/link.so", folder);
    cr_assert_eq(symlink(path, link), 0);
    refuse(&d, link, RP_E_ARG, "backend '%s': it is a symbolic link");
    refuse(&d, folder, RP_E_ARG,
           "backend '%s': "); /* a folder: /tmp can be written by others, or it is no regular file */
    snprintf(link, sizeof link, "%s/pipe.so", folder);
    cr_assert_eq(mkfifo(link, 0600), 0);
    refuse(&d, link, RP_E_ARG, "backend '%s': it is no regular file");
    snprintf(link, sizeof link, "%s/none/none.so", folder);
    refuse(&d, link, RP_E_NOT_AVAILABLE, "backend '%s': its folder cannot be opened: No such file or directory");
    refuse(&d, "", RP_E_ARG, "backend '%s': no name or path");
    if (geteuid() == 0) { /* only root can give files away */
        cr_assert_eq(chown(path, 12345, 12345), 0);
        refuse(&d, path, RP_E_ARG, "backend '%s': the file belongs to user 12345, must be root's or your own");
    }
    decoder_close(&d);
    rp_model_free(m);
    remove_folder();
}

Test(backend, names_are_looked_for_in_the_folder_of_backends) {
    make_folder();
    RpModel *m = golden_open_tiny("llama-mix");
    Decoder  d;
    decoder_plan(m, false, &d);
    copy_as(BUILT "handing.so", "handing");
    setenv("REPRISE_BACKEND_DIR", folder, 1);
    OK(open_with(&d, "handing", &d.exec));
    rp_executor_free(d.exec);
    d.exec = NULL;
    refuse(&d, "other", RP_E_NOT_AVAILABLE, "backend '%s.so': the file cannot be opened: No such file or directory");
    unsetenv("REPRISE_BACKEND_DIR");
    refuse(&d, "no-such-backend", RP_E_NOT_AVAILABLE, "backend '%s.so': its folder cannot be opened");
    decoder_close(&d);
    rp_model_free(m);
    remove_folder();
}

/* ---- OpenBLAS ---- */

#ifdef BACKEND_BLAS
/* Logits after a prefill of 32 tokens, without fused ops. */
static void prefill(const RpModel *m, const char *backend, float *logits, char *described) {
    RpSession *s;
    int32_t    ids[32];
    for (int i = 0; i < 32; i++) ids[i] = 3 + i;
    OK(rp_session_open(m,
                       &(RpSessionOptions){.n_ctx         = 64,
                                           .n_threads     = 2,
                                           .device        = backend == NULL ? "cpu" : NULL,
                                           .prefill_chunk = 32,
                                           .passes        = "-all",
                                           .backend       = backend},
                       &s));
    OK(rp_session_prefill(s, ids, 32, NULL, NULL));
    memcpy(logits, rp_session_logits(s), (size_t)rp_model_info(m)->n_vocab * sizeof *logits);
    snprintf(described, 128, "%s", rp_session_info(s).backend);
    rp_session_free(s);
}
#endif

Test(backend, products_by_openblas_have_the_logits_of_the_built_in_kernels) {
#ifdef BACKEND_BLAS
    static const char *const models[] = {"llama-f32", "llama-f16", "llama-q4_0"};
    make_folder();
    copy_as(BACKEND_BLAS, "blas");
    for (int i = 0; i < 3; i++) {
        RpModel *m = golden_open_tiny(models[i]);
        float    got[DECODER_VOCAB], want[DECODER_VOCAB], top = 0.0f, off = 0.0f;
        char     described[128], none[128];
        prefill(m, NULL, want, none);
        prefill(m, path, got, described);
        for (int k = 0; k < rp_model_info(m)->n_vocab; k++) {
            top = fmaxf(top, fabsf(want[k]));
            off = fmaxf(off, fabsf(got[k] - want[k]));
        }
        cr_expect_leq(off, 1e-4f * top, "%s: %g of %g", models[i], (double)off, (double)top);
        cr_expect_not_null(strstr(described, " steps by OpenBLAS "), "%s", described);
        rp_model_free(m);
    }
    remove_folder();
#else
    cr_skip_test("OpenBLAS is not installed (Debian package libopenblas-dev)");
#endif
}
