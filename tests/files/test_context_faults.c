/* Memory and files that fail while a context is saved and restored: every call once. The file stays the old one or is
 * the new one as a whole. */
#include "tests/support/case.h"
#include "tests/support/host_scenario.h"

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
