/* The list of models, for clients of OpenAI and of Anthropic (plain.h). */
#include "server/api/json.h"
#include "server/api/plain.h"

void api_model_body(const ApiModel *m, Bytes *out) {
    json_put(out, "{'id':%s,'object':'model','created':%l,'owned_by':'reprise',", m->id, m->created);
    json_put(out, "'type':'model','display_name':%s,'created_at':%z,", m->id, m->created);
    json_put(out, "'meta':{'n_vocab':%d,'n_ctx':%d,'n_ctx_train':%d,'n_embd':%d,", m->n_vocab, m->n_ctx, m->n_ctx_train,
             m->n_embd);
    json_put(out, "'n_params':%l,'size':%l}}", m->n_params, m->size);
}

void api_models_body(const ApiModel *models, size_t n, Bytes *out) {
    json_put(out, "{'object':'list','data':[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) bytes_text(out, ",");
        api_model_body(&models[i], out);
    }
    json_put(out, "],'has_more':false,'first_id':%s,'last_id':%s}", n > 0 ? models[0].id : NULL,
             n > 0 ? models[n - 1].id : NULL);
}
