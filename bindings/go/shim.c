/* Callbacks of the library, passed on to callbacks.go. */
#include "shim.h"
#include "_cgo_export.h"

#include <stdlib.h>

static bool on_progress(size_t done, size_t total, void *user) {
    return repriseGoProgress(done, total, (uintptr_t)user);
}

static bool on_prefill(int64_t done, int64_t total, void *user) {
    return repriseGoPrefill(done, total, (uintptr_t)user);
}

static bool on_text(const char *text, size_t len, void *user) {
    return repriseGoText((char *)text, len, (uintptr_t)user);
}

static void on_logits(size_t i, const float *logits, void *user) {
    repriseGoLogits(i, (float *)logits, (uintptr_t)user);
}

RpStatus reprise_go_model_open(const char *path, bool copy, uintptr_t handle, RpModel **out) {
    const RpModelOptions options = {.progress = handle != 0 ? on_progress : NULL, .user = (void *)handle, .copy = copy};
    return rp_model_open(path, &options, out);
}

RpStatus reprise_go_prefill(RpSession *s, const int32_t *tokens, size_t n, uintptr_t handle) {
    return rp_session_prefill(s, tokens, n, handle != 0 ? on_prefill : NULL, (void *)handle);
}

RpStatus reprise_go_score(RpSession *s, const int32_t *tokens, size_t n, uintptr_t handle) {
    return rp_session_score(s, tokens, n, on_logits, (void *)handle);
}

RpStatus reprise_go_generate(RpSession *s, RpSampler *sampler, const int32_t *prompt, size_t n_prompt,
                             int32_t max_tokens, char **stop, size_t n_stop, bool ignore_end, bool print_special,
                             uintptr_t handle, RpMatcher *matcher, RpTokenList *tokens, RpGenerateResult *result) {
    const RpGenerateOptions options = {.max_tokens       = max_tokens,
                                       .stop             = (const char *const *)stop,
                                       .n_stop           = n_stop,
                                       .ignore_end       = ignore_end,
                                       .print_special    = print_special,
                                       .prefill_progress = on_prefill,
                                       .on_text          = on_text,
                                       .user             = (void *)handle,
                                       .tokens           = tokens,
                                       .matcher          = matcher};
    return rp_generate(s, sampler, prompt, n_prompt, &options, result);
}

static bool on_event(const RpReplyEvent *e, void *user) {
    return repriseGoEvent((int)e->kind, e->call, (char *)e->text, e->len, (char *)e->id, (char *)e->name,
                          (uintptr_t)user);
}

RpStatus reprise_go_chat(RpSession *s, RpSampler *sampler, const RpChatOptions *options, uintptr_t handle,
                         RpChatResult *result) {
    RpChatOptions o = *options;
    o.on_event      = on_event;
    o.user          = (void *)handle;
    return rp_chat_generate(s, sampler, &o, result);
}

RpStatus reprise_go_dump(const ComputeGraph *g, int format, char **out) {
    size_t bytes = 0;
    *out         = NULL;
    FILE *file   = open_memstream(out, &bytes);
    if (file == NULL) return rp_fail(RP_E_NOMEM, "out of memory");
    const RpDumpOptions options = {.format = (RpDumpFormat)format};
    const RpStatus      st      = rp_graph_dump(g, &options, file);
    if (fclose(file) == 0 && st == RP_OK) return RP_OK;
    free(*out);
    *out = NULL;
    return st != RP_OK ? st : rp_fail(RP_E_NOMEM, "out of memory");
}

RpStatus reprise_go_external_new(const char *name, int dtype, void *data, const int64_t *ne, bool read_only,
                                 RpExternalTensor **out) {
    const RpExternalMemory memory = {
        .name  = name,
        .view  = {.data = data, .dtype = (RpDtype)dtype, .ne = {ne[0], ne[1], ne[2], ne[3]}},
        .flags = read_only ? RP_EXTERNAL_READ_ONLY : 0
    };
    return rp_external_new(&memory, out);
}
