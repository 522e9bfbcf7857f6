/* The end of a job: its client gets the end of the answer when place and model of the job are free again, so that its
 * next request is not refused because of the one before. */
#include "server/http/guard.h"
#include "server/jobs/work.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const ServerOptions options = {
    .engine = {.n_ctx = 64, .n_seq = 2, .n_threads = 1, .device = "cpu"}
};
static Model model;
static Work  work;
static bool  early; /* the event loop had the end of an answer while the job had the model */

static void begin(void) {
    work  = (Work){.options = &options, .wake_fd = -1, .models = &model, .n_models = 1, .metrics = metrics_new()};
    model = (Model){.work = &work, .name = "tiny"};
    early = false;
    pthread_mutex_init(&work.lock, NULL);
    pthread_mutex_init(&work.ready_lock, NULL);
    pthread_mutex_init(&work.trace.lock, NULL);
    pthread_cond_init(&work.changed, NULL);
    pthread_cond_init(&model.some, NULL);
}

static void end(void) {
    cr_expect_eq(model.pins, 0);
    cr_expect_eq(atomic_load(&model.n_choices), 0);
    cr_expect_eq(atomic_load(&work.n_jobs), 0);
    metrics_free(work.metrics);
    free(model.live);
}

TestSuite(jobs, .init = begin, .fini = end);

/* Runs after the threads have put the answer and before job_end frees place and model: the end must not be out yet. */
static void look(Job *j) {
    early |= work.ready_first != NULL && j->done;
    cr_expect_eq(model.pins, 1);
}

static const JobType looking = {.release = look};

static Job *new_job(void) {
    Job *j   = job_new(&work, &looking, api_format_of("/v1/completions"), NULL, NULL, 0);
    j->model = &model;
    model.pins++;
    return j;
}

/* The event loop takes the job, which is done. */
static void expect_heard(Job *j, int status, const char *text) {
    cr_assert_eq(work_pop_ready(&work), j);
    cr_expect(j->done);
    cr_expect(!early);
    cr_expect_eq(j->status, status);
    cr_expect_not_null(memmem(j->out.p, j->out.n, text, strlen(text)), "%.*s", (int)j->out.n, j->out.p);
    job_release(j); /* of the list, and of the event loop */
    job_release(j);
}

Test(jobs, an_answer_is_given_when_the_model_is_free) {
    Job  *j   = new_job();
    Bytes out = {0};
    bytes_text(&out, "{}");
    job_give(j, &out);
    expect_heard(j, 200, "{}");
}

Test(jobs, an_error_is_given_when_the_model_is_free) {
    Job     *j = new_job();
    ApiError error;
    (void)http_refuse(&error, 400, "invalid_request_error", "invalid_value", "No.");
    job_fail(j, &error);
    expect_heard(j, 400, "No.");
}

Test(jobs, at_the_end_of_the_server_an_error_does_not_wait) {
    Job     *j = new_job();
    ApiError error;
    (void)http_refuse(&error, 503, "server_error", "shutting_down", "The server is shutting down.");
    job_cut_off(j, &error);
    cr_assert_eq(work_pop_ready(&work), j);
    cr_expect(j->done);
    cr_expect_eq(j->status, 503);
    job_release(j);
    job_end(j);
    cr_expect_null(work_pop_ready(&work));
    job_release(j);
}

/* ---- replies of an engine ---- */

/* Appends n tokens to a prompt. */
static void append(RpTokenList *prompt, int32_t n) {
    RpStatus st = RP_OK;
    for (int32_t i = 0; i < n && st == RP_OK; i++) st = rp_token_list_push(prompt, 1 + i % 4);
    cr_assert_eq(st, RP_OK);
}

/* A choice of the job, as the lane prepares it. */
static void add_choice(Job *j, int i) {
    const RpSamplerParams p = rp_sampler_defaults();
    Choice               *c = &j->choices[i];
    *c                      = (Choice){.job = j, .index = i};
    append(&c->prompt, 4);
    cr_assert_eq(rp_sampler_new(&p, rp_model_info(model.model)->n_vocab, &c->sampler), RP_OK);
    j->n_choices++;
}

static Job *new_reply(bool stream) {
    Job *j     = new_job();
    j->request = (ApiRequest){.format     = j->format,
                              .kind       = API_COMPLETION,
                              .n          = 2,
                              .max_tokens = 3,
                              .n_logprobs = -1,
                              .ignore_end = true,
                              .stream     = stream,
                              .prompts    = json_pack("[s]", "a")};
    j->stream  = stream;
    j->choices = calloc(2, sizeof *j->choices);
    for (int i = 0; i < 2; i++) add_choice(j, i);
    j->origin  = (ApiOrigin){.id = j->id, .model = "tiny", .fingerprint = "fp"};
    j->answer  = api_answer_open(&j->request, &j->origin);
    j->counted = true;
    atomic_fetch_add(&model.n_choices, j->n_choices);
    return j;
}

static void open_engine(void) {
    cr_assert_eq(rp_model_open(RP_SOURCE_DIR "/tests/golden/tiny/llama-f32.gguf", NULL, &model.model), RP_OK);
    cr_assert_eq(rp_engine_open(model.model, &options.engine, &model.engine), RP_OK);
}

static void close_engine(void) {
    rp_engine_free(model.engine);
    rp_model_free(model.model);
}

Test(jobs, replies_end_when_the_model_is_free) {
    open_engine();
    Job *j = new_reply(false);
    run_start(&model, j);
    while (model.n_live > 0) run_step(&model);
    expect_heard(j, 200, "\"finish_reason\":\"length\"");
    close_engine();
}

/* The last event of a stream is of the step that ends it: the event loop, which may look at any time, sends it with the
 * end. */
Test(jobs, streams_end_when_the_model_is_free) {
    open_engine();
    Job *j = new_reply(true);
    run_start(&model, j);
    while (model.n_live > 0) run_step(&model);
    expect_heard(j, 200, "data: [DONE]");
    close_engine();
}

Test(jobs, a_reply_that_does_not_fit_is_refused_when_the_model_is_free) {
    open_engine();
    Job *j = new_reply(false);
    append(&j->choices[1].prompt, 100);
    run_start(&model, j); /* the first one waits in the engine */
    cr_expect_null(work.ready_first);
    while (model.n_live > 0) run_step(&model);
    expect_heard(j, 400, "a prompt of 104 tokens does not fit: a sequence holds 64");
    close_engine();
}
