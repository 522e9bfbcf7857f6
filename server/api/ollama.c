/* Ollama's list of models, for editors that look for them there (plain.h). */
#include "server/api/json.h"
#include "server/api/plain.h"

#include <stdio.h>

static const char *or_empty(const char *text) { return text != NULL ? text : ""; }

/* "7.6B", "135M" */
static void put_size(int64_t n_params, Bytes *out) {
    char         text[32];
    const double x = (double)n_params;
    if (x >= 1e9)
        snprintf(text, sizeof text, "%.1fB", x / 1e9);
    else if (x >= 1e6)
        snprintf(text, sizeof text, "%.0fM", x / 1e6);
    else
        snprintf(text, sizeof text, "%.0fK", x / 1e3);
    json_put(out, "%s", text);
}

static void put_details(const ApiModel *m, Bytes *out) {
    json_put(out, "'details':{'parent_model':'','format':'gguf','family':%s,'families':[%s],'parameter_size':",
             or_empty(m->architecture), or_empty(m->architecture));
    put_size(m->n_params, out);
    json_put(out, ",'quantization_level':%s}", or_empty(m->quantization));
}

void api_tags_body(const ApiModel *models, size_t n, Bytes *out) {
    json_put(out, "{'models':[");
    for (size_t i = 0; i < n; i++) {
        const ApiModel *m = &models[i];
        json_put(out, "%r{'name':%s,'model':%s,'modified_at':%z,", i > 0 ? "," : "", m->id, m->id, m->created);
        json_put(out, "'size':%l,'digest':%s,", m->size, or_empty(m->digest));
        put_details(m, out);
        bytes_text(out, "}");
    }
    bytes_text(out, "]}");
}

bool api_show_parse(const json_t *body, const char **model, ApiError *error) {
    const char *name = NULL;
    if (!api_read_string(body, "", "name", &name, error) || !api_read_string(body, "", "model", &name, error))
        return false;
    if (name == NULL || *name == '\0') return api_refuse(error, "", "model", "must be a string that is not empty");
    *model = name;
    return true;
}

void api_show_body(const ApiModel *m, Bytes *out) {
    const char *architecture = or_empty(m->architecture);
    json_put(out, "{'license':'','modelfile':'','parameters':%s,'template':%s,'modified_at':%z,", or_empty(m->sampling),
             or_empty(m->chat_template), m->created);
    put_details(m, out);
    json_put(out, ",'model_info':{'general.architecture':%s,'general.parameter_count':%l,", architecture, m->n_params);
    json_put(out, "'%r.context_length':%d,'%r.embedding_length':%d},", architecture, m->n_ctx, architecture, m->n_embd);
    json_put(out, "'capabilities':[%s", m->embedding ? "embedding" : "completion");
    if (m->tools) json_put(out, ",'tools'");
    if (m->thinking) json_put(out, ",'thinking'");
    if (m->insert) json_put(out, ",'insert'");
    bytes_text(out, "]}");
}
