/* plain.c - tokens, and what is said of a model. */
#include "server/jobs/plain.h"

#include "server/api/plain.h"
#include "server/http/guard.h"
#include "server/jobs/formats.h"
#include "server/jobs/info.h"
#include "server/jobs/work.h"

#include <stdlib.h>

bool plain_read(Job *j) {
    ApiError error;
    if (j->json != NULL) return true;
    if (api_body_read(j->body, j->n_body, &j->json, &error)) return true;
    job_fail(j, &error);
    return false;
}

typedef bool Convert(const json_t *body, const RpTokenizer *tk, Bytes *out, ApiError *error);

static void convert(Job *j, Convert *function) {
    Bytes    out = {0};
    ApiError error;
    if (!plain_read(j) || !work_acquire(j, json_string_value(json_object_get(j->json, "model")))) return;
    if (!function(j->json, rp_model_tokenizer(j->model->model), &out, &error)) {
        bytes_free(&out);
        job_fail(j, &error);
        return;
    }
    job_give(j, &out);
}

static void tokenize(Job *j) { convert(j, api_tokenize); }
static void detokenize(Job *j) { convert(j, api_detokenize); }

static void count(Job *j) {
    ApiError error;
    Bytes    out = {0};
    int32_t  n;
    if (!plain_read(j)) return;
    if (!j->parsed && !api_count_tokens_parse(j->json, &j->work->defaults, &j->request, &error)) {
        job_fail(j, &error);
        return;
    }
    j->parsed = true;
    if (!work_acquire(j, j->request.model)) return;
    const RpStatus st = formats_count(j, &n);
    if (st != RP_OK) {
        job_fail_status(j, st);
        return;
    }
    api_count_tokens_body(n, &out);
    job_give(j, &out);
}

static void show(Job *j) {
    const char *name;
    ApiError    error;
    Bytes       out = {0};
    if (!plain_read(j)) return;
    if (!api_show_parse(j->json, &name, &error) || !info_show(j->work, name, &out, &error)) {
        bytes_free(&out);
        job_fail(j, &error);
        return;
    }
    job_give(j, &out);
}

const JobType tokenize_job   = {.prepare = tokenize};
const JobType detokenize_job = {.prepare = detokenize};
const JobType count_job      = {.prepare = count};
const JobType show_job       = {.prepare = show};
