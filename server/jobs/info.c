/* info.c - descriptions of models. */
#include "server/jobs/info.h"

#include "server/api/plain.h"
#include "server/http/guard.h"
#include "server/jobs/infill.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ModelInfo {
    ApiModel said;
    char     arch[64];
    char     sampling[512]; /* in lines, as Ollama has it */
    char    *chat_template; /* or NULL */
};

/* The type of the largest number of bytes. */
static const char *main_type(const RpGgufFile *f) {
    enum { MOST = 64 }; /* types that are counted */
    uint32_t types[MOST] = {0};
    size_t   bytes[MOST] = {0};
    int      n = 0, best = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        int                 k = 0;
        while (k < n && types[k] != t->gguf_type) k++;
        if (k == MOST) continue;
        if (k == n) types[n++] = t->gguf_type;
        bytes[k] += t->bytes;
    }
    for (int k = 1; k < n; k++)
        if (bytes[k] > bytes[best]) best = k;
    return rp_gguf_type_name(types[best]);
}

/* "temperature 0.6, top_k 20" in lines. */
static void keep_sampling(const char *said, char *out) {
    for (; *said != '\0'; said++) {
        const bool comma = *said == ',';
        *out++           = comma ? '\n' : *said;
        said += comma; /* the space behind it */
    }
    *out = '\0';
}

void info_keep(Model *m) {
    const RpModelInfo *i    = rp_model_info(m->model);
    const RpGgufFile  *f    = rp_model_file(m->model);
    ModelInfo         *info = calloc(1, sizeof *info);
    if (info == NULL) return; /* clients hear less of it */
    snprintf(info->arch, sizeof info->arch, "%s", i->arch);
    if (m->chat_source.ptr != NULL) info->chat_template = strndup(m->chat_source.ptr, m->chat_source.len);
    keep_sampling(m->sampling, info->sampling);
    info->said = (ApiModel){.architecture  = info->arch,
                            .quantization  = main_type(f),
                            .chat_template = info->chat_template,
                            .sampling      = info->sampling,
                            .n_params      = i->n_params,
                            .size          = (int64_t)rp_gguf_bytes(f),
                            .n_vocab       = i->n_vocab,
                            .n_ctx         = m->n_ctx,
                            .n_ctx_train   = i->n_ctx_train,
                            .n_embd        = i->n_embd,
                            .tools         = m->calls_tools,
                            .thinking      = m->reasons,
                            .insert        = infill_is_known(m->model),
                            .embedding     = m->embedder != NULL};
    pthread_mutex_lock(&m->work->lock);
    ModelInfo *old = m->info;
    m->info        = old != NULL ? old : info;
    pthread_mutex_unlock(&m->work->lock);
    if (old == NULL) return;
    free(info->chat_template);
    free(info);
}

void info_free(Model *m) {
    if (m->info != NULL) free(m->info->chat_template);
    free(m->info);
}

/* Under the lock. */
static ApiModel describe(const Model *m) {
    ApiModel    said = m->info != NULL ? m->info->said : (ApiModel){0};
    struct stat s;
    said.id      = m->name;
    said.created = m->created;
    if (m->info == NULL && stat(m->path, &s) == 0) said.size = s.st_size;
    return said;
}

static void list(Work *w, Bytes *out, void (*body)(const ApiModel *, size_t, Bytes *)) {
    ApiModel *all = calloc((size_t)w->n_models + 1, sizeof *all);
    if (all == NULL) {
        out->failed = true;
        return;
    }
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->n_models; i++) all[i] = describe(&w->models[i]);
    pthread_mutex_unlock(&w->lock);
    body(all, (size_t)w->n_models, out); /* texts of models stay */
    free(all);
}

void info_models(Work *w, Bytes *out) { list(w, out, api_models_body); }
void info_tags(Work *w, Bytes *out) { list(w, out, api_tags_body); }

static bool find(Work *w, const char *name, ApiModel *out) {
    for (int i = 0; i < w->n_models; i++) {
        if (strcmp(w->models[i].name, name) != 0) continue;
        pthread_mutex_lock(&w->lock);
        *out = describe(&w->models[i]);
        pthread_mutex_unlock(&w->lock);
        return true;
    }
    return false;
}

bool info_model(Work *w, const char *name, Bytes *out) {
    ApiModel said;
    if (!find(w, name, &said)) return false;
    api_model_body(&said, out);
    return true;
}

bool info_show(Work *w, const char *name, Bytes *out, ApiError *error) {
    ApiModel said;
    if (!find(w, name, &said)) {
        (void)http_refuse(error, 404, "invalid_request_error", "model_not_found", "There is no model %.100s.", name);
        return false;
    }
    api_show_body(&said, out);
    return true;
}
