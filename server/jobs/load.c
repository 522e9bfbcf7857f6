/* load.c - loads a model for its worker: the file, its chat template, and an engine or an embedder. */
#include "server/jobs/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool embeds(const RpModelInfo *info) { return info->bidirectional || info->pooling != 0; }

bool worker_is_named(const Model *m) { return m->work->options->model != NULL && m == &m->work->models[0]; }

RpEngineOptions worker_engine_options(const Model *m, const RpModel *model) {
    const ServerOptions *given     = m->work->options;
    const int32_t        n_trained = rp_model_info(model)->n_ctx_train;
    RpEngineOptions      o         = given->engine;
    if (worker_is_named(m)) return o;
    o.draft = NULL;
    if (n_trained > 0 && o.n_ctx > n_trained) o.n_ctx = n_trained;
    return o;
}

/* The CPU runs instead of a GPU, or a GPU in a lesser mode (I10). */
static void warn_of_fallback(const Model *m, const RpExecutorInfo *info) {
    const bool chosen = strcmp(info->device, "cpu") == 0 && !info->fell_back;
    if (chosen || info->reason[0] == '\0') return;
    log_line(m->work->log, "warning",
             json_pack("{s:s, s:s, s:s}", "text", info->reason, "model", m->name, "device", info->device));
}

static void warn_of_no_copy(const Model *m) {
    log_line(m->work->log, "warning",
             json_pack("{s:s, s:s, s:s}", "text", "the weights are not repacked: --memory has no room for the copy",
                       "model", m->name, "device", "cpu"));
}

static void note_device(Model *m, const RpExecutorInfo *info) {
    m->repacked = info->repack_bytes > 0;
    snprintf(m->device, sizeof m->device, "%s", info->device);
    snprintf(m->backend, sizeof m->backend, "%s", info->backend);
}

RpStatus worker_open_engine(Model *m) {
    RpEngineOptions o = worker_engine_options(m, m->model);
    if (m->no_copy) o.repack = "off";
    RP_TRY(rp_engine_open(m->model, &o, &m->engine));
    const RpExecutorInfo info = rp_engine_info(m->engine);
    warn_of_fallback(m, &info);
    return RP_OK;
}

static RpStatus open_embedder(Model *m) {
    const RpEngineOptions e = worker_engine_options(m, m->model);
    RpEmbedderOptions     o = {.n_ctx     = e.n_ctx,
                               .n_threads = e.n_threads,
                               .passes    = e.passes,
                               .repack    = e.repack,
                               .device    = e.device,
                               .backend   = e.backend};
    RP_TRY(rp_embedder_open(m->model, &o, &m->embedder));
    RpEmbedderInfo info = rp_embedder_info(m->embedder);
    m->n_ctx            = info.n_ctx;
    RP_TRY(work_make_room(m, info.arena + info.kv + rp_model_info(m->model)->weight_bytes, info.repack_bytes));
    if (m->no_copy && info.repack_bytes > 0) {
        warn_of_no_copy(m);
        rp_embedder_free(m->embedder);
        m->embedder = NULL;
        o.repack    = "off";
        RP_TRY(rp_embedder_open(m->model, &o, &m->embedder));
        info = rp_embedder_info(m->embedder);
    }
    const RpExecutorInfo executor = {.device       = info.device,
                                     .reason       = info.reason,
                                     .fell_back    = info.fell_back,
                                     .backend      = info.backend,
                                     .repack_bytes = info.repack_bytes};
    warn_of_fallback(m, &executor);
    note_device(m, &executor);
    return RP_OK;
}

static RpStatus open_engine(Model *m) {
    const RpEngineOptions o = worker_engine_options(m, m->model);
    RpEngineMemory        memory;
    RP_TRY(rp_engine_memory(m->model, &o, &memory));
    RP_TRY(work_make_room(m, memory.total, memory.repack));
    if (m->no_copy && memory.repack > 0) warn_of_no_copy(m);
    m->n_ctx = memory.n_ctx;
    RP_TRY(worker_open_engine(m));
    const RpExecutorInfo info = rp_engine_info(m->engine);
    note_device(m, &info);
    work_count(m, memory.total + info.repack_bytes);
    return RP_OK;
}

RpStatus worker_chat_template(const Model *m, const RpModel *model, RpChatTemplate **out, RpGgufString *source) {
    const ServerOptions *o    = m->work->options;
    const RpTokenizer   *tk   = rp_model_tokenizer(model);
    const RpGgufFile    *file = rp_model_file(model);
    *out                      = NULL;
    *source                   = (RpGgufString){0};
    if (o->chat_template != NULL && worker_is_named(m)) {
        *source = (RpGgufString){o->chat_template, strlen(o->chat_template)};
        return rp_chat_template_new(tk, o->template_name, source->ptr, source->len, out);
    }
    if (rp_chat_template_of(file, tk, out) != RP_OK) return RP_OK;
    (void)!rp_gguf_get_string(file, "tokenizer.chat_template", source);
    return RP_OK;
}

/* Whether replies can have reasoning and calls. A file may have a second template, for requests with tools. */
static void detect_replies(Model *m) {
    const ServerOptions *o      = m->work->options;
    RpReplyFormat        format = {0}, second = {0};
    RpGgufString         for_tools = {NULL, 0};
    if (m->chat_source.ptr != NULL) rp_reply_format_detect(m->chat_source.ptr, m->chat_source.len, &format);
    if (m->chat != NULL && (o->chat_template == NULL || !worker_is_named(m)))
        (void)!rp_gguf_get_string(rp_model_file(m->model), "tokenizer.chat_template.tool_use", &for_tools);
    if (for_tools.ptr != NULL) rp_reply_format_detect(for_tools.ptr, for_tools.len, &second);
    const char *calls = second.calls != NULL ? second.calls : format.calls;
    m->reasons        = (format.reasoning != NULL && strcmp(format.reasoning, "none") != 0) ||
                 (calls != NULL && strcmp(calls, "harmony") == 0);
    m->calls_tools = m->chat != NULL && calls != NULL && strcmp(calls, "none") != 0;
}

RpStatus worker_load(Model *m) {
    const ServerOptions *o = m->work->options;
    RP_TRY(o->open_model(m->path, &m->model, o->user));
    const RpTokenizer *tk = rp_model_tokenizer(m->model);
    if (tk == NULL) return rp_fail(RP_E_UNSUPPORTED, "%s has no tokenizer", m->path);
    if (embeds(rp_model_info(m->model))) return open_embedder(m);
    RpSamplerParams sampler = o->sampler;
    RP_TRY(rp_sampler_recommended(rp_model_file(m->model), &sampler, m->sampling, sizeof m->sampling));
    RP_TRY(worker_chat_template(m, m->model, &m->chat, &m->chat_source));
    m->no_chat[0] = '\0';
    if (m->chat == NULL)
        snprintf(m->no_chat, sizeof m->no_chat, "%.480s%s", rp_last_error(), worker_is_named(m) ? " (--template)" : "");
    detect_replies(m);
    RP_TRY(rp_tool_call_log_new(0, &m->log));
    RP_TRY(rp_grammar_vocab_new(tk, &m->vocab));
    RP_TRY(open_engine(m));
    const RpEngineOptions engine = worker_engine_options(m, m->model);
    return record_model(m, &engine);
}

void worker_unload(Model *m) {
    while (m->calls != NULL) {
        WrittenCall *next = m->calls->next;
        free(m->calls);
        m->calls = next;
    }
    record_free(m);
    rp_tool_call_log_free(m->log);
    m->log = NULL;
    rp_engine_free(m->engine);
    rp_embedder_free(m->embedder);
    rp_grammar_vocab_free(m->vocab);
    rp_chat_template_free(m->chat);
    rp_model_free(m->model);
    m->engine      = NULL;
    m->embedder    = NULL;
    m->vocab       = NULL;
    m->chat        = NULL;
    m->chat_source = (RpGgufString){0};
    m->model       = NULL;
}

void worker_keep_stats(Model *m) {
    const RpEngineStats *s = &m->stats;
    m->before.steps += s->steps;
    m->before.generated += s->generated;
    m->before.prompt_tokens += s->prompt_tokens;
    m->before.cached += s->cached;
    m->before.drafted += s->drafted;
    m->before.accepted += s->accepted;
    m->before.evicted += s->evicted;
    m->before.preempted += s->preempted;
    m->stats = (RpEngineStats){0};
}
