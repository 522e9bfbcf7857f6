/* embeddings.c - /v1/embeddings: texts are tokenised on the lane, and computed by the worker of the model. */
#include "server/api/plain.h"
#include "server/http/guard.h"
#include "server/jobs/plain.h"
#include "server/jobs/work.h"

#include <stdlib.h>
#include <string.h>

typedef struct Embedding {
    ApiEmbeddingRequest request;
    RpTokenList        *inputs; /* [n] */
    size_t              n;
    float              *rows; /* [n, n_out] */
} Embedding;

static void release(Job *j) {
    Embedding *e = j->data;
    if (e == NULL) return;
    for (size_t i = 0; i < e->n; i++) rp_token_list_free(&e->inputs[i]);
    free(e->inputs);
    free(e->rows);
    api_embeddings_free(&e->request);
    free(e);
}

static RpStatus make_input(const Job *j, const json_t *input, RpTokenList *out) {
    const json_t *id;
    size_t        i;
    if (json_is_string(input))
        return rp_tokenize(rp_model_tokenizer(j->model->model), json_string_value(input), json_string_length(input),
                           RP_TOK_ADD_SPECIAL, out);
    json_array_foreach(input, i, id) {
        const json_int_t n = json_integer_value(id);
        if (n < 0 || n >= rp_model_info(j->model->model)->n_vocab)
            return rp_fail(RP_E_ARG, "the input has a token %lld, and the vocabulary has %d", (long long)n,
                           rp_model_info(j->model->model)->n_vocab);
        RP_TRY(rp_token_list_push(out, (int32_t)n));
    }
    return RP_OK;
}

static RpStatus make_inputs(Job *j, Embedding *e) {
    const size_t n = json_array_size(e->request.inputs);
    e->inputs      = calloc(n + 1, sizeof *e->inputs);
    e->rows        = calloc(n + 1, (size_t)rp_embedder_info(j->model->embedder).n_out * sizeof *e->rows);
    if (e->inputs == NULL || e->rows == NULL) return rp_fail(RP_E_NOMEM, "out of memory for embeddings");
    for (size_t i = 0; i < n; i++) {
        e->n++;
        const RpStatus st = make_input(j, json_array_get(e->request.inputs, i), &e->inputs[i]);
        RP_TRY(job_name_place(st, e->request.inputs, "input", i));
    }
    return RP_OK;
}

static void prepare(Job *j) {
    ApiError error;
    if (!plain_read(j) || !work_acquire(j, json_string_value(json_object_get(j->json, "model")))) return;
    const Model *m = j->model;
    if (m->embedder == NULL || rp_embedder_info(m->embedder).pooling == RP_POOLING_NONE ||
        rp_embedder_info(m->embedder).pooling == RP_POOLING_RANK) {
        (void)http_refuse(&error, 400, "invalid_request_error", "model_not_supported",
                          "The model %.100s makes no embeddings.", m->name);
        job_fail(j, &error);
        return;
    }
    Embedding *e = j->data = calloc(1, sizeof *e);
    if (e == NULL) {
        job_fail_status(j, rp_fail(RP_E_NOMEM, "out of memory for embeddings"));
    } else if (!api_embeddings_parse(j->json, rp_embedder_info(m->embedder).n_out, &e->request, &error)) {
        job_fail(j, &error);
    } else {
        const RpStatus st = make_inputs(j, e);
        if (st == RP_OK)
            work_submit(j);
        else
            job_fail_status(j, st);
    }
}

static void run(Job *j) {
    Embedding    *e     = j->data;
    const int32_t n_out = rp_embedder_info(j->model->embedder).n_out;
    Bytes         out   = {0};
    RpStatus      st    = RP_OK;
    for (size_t i = 0; i < e->n && st == RP_OK; i++) {
        if (job_fail_cancelled(j)) return;
        st = rp_embed(j->model->embedder, e->inputs[i].ids, e->inputs[i].n, e->rows + i * (size_t)n_out);
        st = job_name_place(st, e->request.inputs, "input", i);
        pthread_mutex_lock(&j->lock);
        j->tokens.prompt += (int32_t)e->inputs[i].n;
        pthread_mutex_unlock(&j->lock);
        if (j->key != NULL) key_charge(j->key, (int64_t)e->inputs[i].n); /* also if a later input fails */
    }
    if (st != RP_OK) {
        job_fail_status(j, st);
        return;
    }
    api_embeddings_body(&e->request, j->model->name, e->rows, e->n, n_out, j->tokens.prompt, &out);
    job_give(j, &out);
}

const JobType embeddings_job = {.prepare = prepare, .run = run, .release = release};
