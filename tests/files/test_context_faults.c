/* Memory and files that fail while a context is saved and restored: every call once. The file stays the old one or is
 * the new one as a whole. */
#include "tests/support/case.h"
#include "tests/support/host_scenario.h"

#include "reprise/engine.h"

TestSuite(context_faults, .init = make_folder, .fini = remove_folder);

static char path[128];

/* Whatever failed, the file can be restored, and has the tokens of one of the two contexts. */
static void check_file(RpSession *s) {
    RpTokenList t = {0};
    char       *note;
    OK(rp_session_restore(s, path, &t, &note));
    cr_expect(strcmp(note, "old") == 0 ? t.n == 3 : strcmp(note, "new") == 0 && t.n == 5, "%s has %zu tokens", note,
              t.n);
    free(note);
    rp_token_list_free(&t);
}

/* Runs a prompt of n tokens, and one token of its reply. */
static RpStatus run_prompt(RpEngine *e, int32_t n) {
    int32_t         ids[128];
    uint64_t        id;
    RpSampler      *sampler;
    RpEngineEvent   v = {0};
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = 0.0f;
    RP_TRY(rp_sampler_new(&p, rp_model_info(rp_engine_model(e))->n_vocab, &sampler));
    for (int32_t i = 0; i < n; i++) ids[i] = 5 + i % 9;
    RpStatus st =
        rp_engine_add(e, &(RpRequest){.prompt = ids, .n_prompt = (size_t)n, .sampler = sampler, .max_tokens = 1}, &id);
    while (st == RP_OK && rp_engine_pending(e) > 0) st = rp_engine_step(e);
    while (rp_engine_poll(e, &v)) st = st == RP_OK ? v.status : st;
    rp_sampler_free(sampler);
    return st;
}

/* `arg`: whether the failures are in saving or in restoring. */
static RpStatus replace(const char *arg) {
    const int32_t ids[5] = {5, 6, 7, 8, 9};
    RpModel      *m      = NULL;
    RpSession    *s      = NULL;
    RpTokenList   t = {0}, read = {0};
    char         *note   = NULL;
    const bool    saving = strcmp(arg, "save") == 0;
    RpStatus      st     = rp_model_open(GOLDEN_DIR "tiny/qwen35-mix.gguf", NULL, &m);
    if (st == RP_OK) st = rp_session_open(m, &(RpSessionOptions){.n_ctx = 16, .n_threads = 1, .device = "cpu"}, &s);
    for (int i = 0; i < 5 && st == RP_OK; i++) st = rp_token_list_push(&t, ids[i]);
    if (st == RP_OK) st = rp_session_prefill(s, ids, 5, NULL, NULL);
    if (st == RP_OK && saving) st = rp_session_save(s, &t, "new", path);
    if (st == RP_OK && !saving) st = rp_session_restore(s, path, &read, &note);
    if (st == RP_OK && !saving) add_result(read.ids, read.n * sizeof *read.ids);
    if (st == RP_OK && !saving) add_result(note, strlen(note));
    if (st != RP_OK && s != NULL) cr_expect(note == NULL && read.n == 0);
    free(note);
    rp_token_list_free(&t);
    rp_token_list_free(&read);
    rp_session_free(s);
    rp_model_free(m);
    return st;
}

/* Whatever failed, the engine has no block more than it had. */
static void check_engine(RpEngine *e, int32_t kept, size_t n) {
    const RpEngineStats stats = rp_engine_stats(e);
    cr_expect(stats.used == 0 && stats.kept == kept && n == 0, "%d blocks used, %d kept, %zu tokens", stats.used,
              stats.kept, n);
}

/* The same with an engine, which has the first of the three blocks. */
static RpStatus replace_by_engine(const char *arg) {
    RpModel    *m = NULL;
    RpEngine   *e = NULL;
    RpTokenList t = {0}, read = {0};
    char       *note   = NULL;
    const bool  saving = strcmp(arg, "save") == 0;
    RpStatus    st     = rp_model_open(GOLDEN_DIR "tiny/qwen35-mix.gguf", NULL, &m);
    if (st == RP_OK)
        st = rp_engine_open(m, &(RpEngineOptions){.n_ctx = 128, .n_seq = 1, .n_threads = 1, .n_mtp = -1}, &e);
    if (st == RP_OK) st = run_prompt(e, 40);
    for (int32_t i = 0; i < 40 && st == RP_OK; i++) st = rp_token_list_push(&t, 5 + i % 9);
    const bool    ran  = st == RP_OK;
    const int32_t kept = ran ? rp_engine_stats(e).kept : 0;
    if (st == RP_OK && saving) st = rp_engine_save(e, &t, "new", path);
    if (st == RP_OK && !saving) st = rp_engine_restore(e, path, &read, NULL, &note);
    if (st == RP_OK && !saving) add_result(read.ids, read.n * sizeof *read.ids);
    if (st == RP_OK && !saving) add_result(note, strlen(note));
    if (st != RP_OK && ran) check_engine(e, kept, read.n);
    cr_expect(st == RP_OK || note == NULL);
    free(note);
    rp_token_list_free(&t);
    rp_token_list_free(&read);
    rp_engine_free(e);
    rp_model_free(m);
    return st;
}

/* The file of the engine: 96 tokens, of which the one above has the first 32. */
static void write_old_of_engine(bool check) {
    RpModel    *m;
    RpEngine   *e;
    RpTokenList t = {0};
    char       *note;
    snprintf(path, sizeof path, "%s/a.context", folder);
    OK(rp_model_open(GOLDEN_DIR "tiny/qwen35-mix.gguf", NULL, &m));
    OK(rp_engine_open(m, &(RpEngineOptions){.n_ctx = 128, .n_seq = 1, .n_threads = 1, .n_mtp = -1}, &e));
    if (check) {
        OK(rp_engine_restore(e, path, &t, NULL, &note));
        cr_expect(strcmp(note, "old") == 0 ? t.n == 96 : strcmp(note, "new") == 0 && t.n == 32, "%s has %zu tokens",
                  note, t.n);
        free(note);
        t.n = 0;
    }
    OK(run_prompt(e, 100));
    for (int32_t i = 0; i < 100; i++) OK(rp_token_list_push(&t, 5 + i % 9));
    OK(rp_engine_save(e, &t, "old", path));
    rp_token_list_free(&t);
    rp_engine_free(e);
    rp_model_free(m);
}

static void write_old(bool check) {
    RpModel    *m;
    RpSession  *s;
    RpTokenList t = {0};
    snprintf(path, sizeof path, "%s/a.context", folder);
    OK(rp_model_open(GOLDEN_DIR "tiny/qwen35-mix.gguf", NULL, &m));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 16, .n_threads = 1, .device = "cpu"}, &s));
    for (int32_t i = 0; i < 3; i++) OK(rp_token_list_push(&t, 10 + i));
    if (check) check_file(s);
    OK(rp_session_rewind(s, 0));
    OK(rp_session_prefill(s, t.ids, t.n, NULL, NULL));
    OK(rp_session_save(s, &t, "old", path));
    rp_token_list_free(&t);
    rp_session_free(s);
    rp_model_free(m);
}

Test(context_faults, saving) {
    write_old(false);
    fail_each_call("context", replace, "save");
    write_old(true);
}

Test(context_faults, restoring) {
    write_old(false);
    fail_each_call("context", replace, "restore");
    write_old(true);
}

Test(context_faults, saving_of_an_engine) {
    write_old_of_engine(false);
    fail_each_call("context of an engine", replace_by_engine, "save");
    write_old_of_engine(true);
}

Test(context_faults, restoring_by_an_engine) {
    write_old_of_engine(false);
    fail_each_call("context of an engine", replace_by_engine, "restore");
    write_old_of_engine(true);
}
