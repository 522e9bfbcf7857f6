/* formats.c - prepares requests of the wire formats: from a body to choices for an engine. */
#include "server/jobs/formats.h"

#include "server/http/guard.h"
#include "server/jobs/infill.h"
#include "server/jobs/record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static bool parse(Job *j, ApiError *error) {
    ApiRequest r = {0};
    if (!api_body_read(j->body, j->n_body, &j->json, error)) return false;
    free(j->body);
    j->body = NULL;
    if (!j->format->parse(j->format, j->json, &j->work->defaults, &r, error)) return false;
    json_decref(j->json);
    j->json   = NULL;
    j->parsed = true;
    pthread_mutex_lock(&j->lock);
    j->request = r;
    j->stream  = r.stream;
    pthread_mutex_unlock(&j->lock);
    return true;
}

/* Seeds that are drawn have 32 bits, which every client can read as a number. */
static uint64_t draw_seed(void) {
    uint32_t seed = 0;
    (void)!getrandom(&seed, sizeof seed, 0);
    return seed;
}

static RpStatus make_ids(const Job *j, const json_t *prompt, RpTokenList *out) {
    const RpTokenizer *tk = rp_model_tokenizer(j->model->model);
    const json_t      *id;
    size_t             i;
    if (j->request.kind == API_INFILL) return infill_tokenize(j->model->model, prompt, out);
    if (json_is_string(prompt))
        return rp_tokenize(tk, json_string_value(prompt), json_string_length(prompt),
                           RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, out);
    json_array_foreach(prompt, i, id) {
        const json_int_t n = json_integer_value(id);
        if (n < 0 || n >= rp_tokenizer_n_vocab(tk))
            return rp_fail(RP_E_ARG, "the prompt has a token %lld, and the vocabulary has %d", (long long)n,
                           rp_tokenizer_n_vocab(tk));
        RP_TRY(rp_token_list_push(out, (int32_t)n));
    }
    return RP_OK;
}

static RpStatus make_prompt(const Job *j, const json_t *prompt, RpTokenList *out) {
    RP_TRY(make_ids(j, prompt, out));
    if (out->n > 0) return RP_OK;
    return rp_fail(RP_E_ARG, "the prompt is empty, and the model puts no token in front of a text");
}

static RpStatus make_grammar(Job *j) {
    const ApiRequest *r = &j->request;
    if (r->grammar != NULL) return rp_grammar_gbnf(r->grammar, strlen(r->grammar), &j->grammar);
    if (r->regex != NULL) return rp_grammar_regex(r->regex, strlen(r->regex), &j->grammar);
    if (r->schema == NULL) return RP_OK;
    char *text = json_dumps(r->schema, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a schema");
    j->schema_text = text;
    return rp_grammar_json_schema(text, strlen(text), 0, &j->grammar);
}

/* Choice i draws with the seed of the request plus i. */
static RpStatus make_sampler(Job *j, Choice *c) {
    RpSamplerParams p = j->request.sampler;
    p.seed            = j->origin.seed + (uint64_t)c->index;
    p.tokenizer       = rp_model_tokenizer(j->model->model);
    RP_TRY(rp_sampler_new(&p, rp_model_info(j->model->model)->n_vocab, &c->sampler));
    record_begin(c);
    return RP_OK;
}

/* Calls of earlier replies, which engines have left for this thread. */
static void take_calls(Model *m) {
    pthread_mutex_lock(&m->calls_lock);
    WrittenCall *call = m->calls;
    m->calls          = NULL;
    pthread_mutex_unlock(&m->calls_lock);
    while (call != NULL) {
        WrittenCall   *next = call->next;
        const RpStatus st   = rp_tool_call_log_put(m->log, call->id, call->text, call->n);
        (void)st; /* without memory the template writes the call */
        free(call);
        call = next;
    }
}

/* The options that all replies of the job share. */
static RpStatus make_chat(Job *j) {
    Model *m = j->model;
    if (m->chat == NULL) return rp_fail(RP_E_UNSUPPORTED, "the model %.100s cannot chat: %s", m->name, m->no_chat);
    j->chat_text = json_dumps(j->request.chat, JSON_COMPACT);
    if (j->chat_text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for messages");
    take_calls(m);
    return RP_OK;
}

/* For the log, from the first choice. */
static void on_note(const char *text, void *user) {
    enum { MOST_NOTES = 16 };
    Choice *c = user;
    Job    *j = c->job;
    if (c->index != 0) return;
    pthread_mutex_lock(&j->lock);
    if (j->notes == NULL) j->notes = json_array();
    if (json_array_size(j->notes) < MOST_NOTES) (void)json_array_append_new(j->notes, json_string(text));
    pthread_mutex_unlock(&j->lock);
}

static RpStatus make_reply(Job *j, Choice *c) {
    const ApiRequest   *r = &j->request;
    const Model        *m = j->model;
    const RpChatOptions o = {.json             = j->chat_text,
                             .json_bytes       = strlen(j->chat_text),
                             .log              = m->log,
                             .chat_template    = m->chat,
                             .max_tokens       = r->max_tokens,
                             .reasoning_budget = m->reasons ? r->reasoning_budget : 0,
                             .id_seed          = j->id_seed + (uint64_t)c->index,
                             .on_event         = run_on_reply,
                             .user             = c,
                             .on_note          = on_note,
                             .stop             = (const char *const *)r->stop,
                             .n_stop           = r->n_stop,
                             .vocab            = m->vocab};
    RP_TRY(rp_chat_reply_new(m->model, c->sampler, &o, &c->reply));
    c->n_prompt = rp_chat_reply_prompt(c->reply)->n;
    return RP_OK;
}

/* Choices of the i-th prompt. */
static RpStatus make_choices(Job *j, size_t i, const json_t *prompt) {
    for (int32_t k = 0; k < j->request.n; k++) {
        Choice *c = &j->choices[j->n_choices];
        c->job    = j;
        c->index  = (int)i * j->request.n + k;
        j->n_choices++;
        RP_TRY(make_sampler(j, c));
        if (j->request.kind == API_CHAT) {
            RP_TRY(make_reply(j, c));
            continue;
        }
        RP_TRY(job_name_place(make_prompt(j, prompt, &c->prompt), j->request.prompts, "prompt", i));
        c->n_prompt = c->prompt.n;
        if (j->grammar != NULL) RP_TRY(rp_matcher_new(j->grammar, j->model->vocab, &c->matcher));
    }
    return RP_OK;
}

static RpStatus make_all(Job *j) {
    const json_t *prompts = j->request.prompts;
    const bool    several = j->request.kind == API_COMPLETION;
    const size_t  n       = several ? json_array_size(prompts) : 1;
    j->choices            = calloc(n * (size_t)j->request.n, sizeof *j->choices);
    if (j->choices == NULL) return rp_fail(RP_E_NOMEM, "out of memory for replies");
    RP_TRY(rp_sampler_recommended(rp_model_file(j->model->model), &j->request.sampler, NULL, 0));
    if (j->request.kind == API_CHAT)
        RP_TRY(make_chat(j));
    else
        RP_TRY(make_grammar(j));
    for (size_t i = 0; i < n; i++) RP_TRY(make_choices(j, i, several ? json_array_get(prompts, i) : prompts));
    return RP_OK;
}

/* False, with status 429, if as many replies wait as are allowed. */
static bool has_room(Job *j, ApiError *error) {
    const ServerOptions *o    = j->work->options;
    const int            have = atomic_load(&j->model->n_choices);
    if (have > 0 && have + j->n_choices > o->queue + o->engine.n_seq) {
        (void)http_refuse(error, 429, "rate_limit_error", "queue_full", "%d replies are waiting already (--queue).",
                          have);
        return false;
    }
    atomic_fetch_add(&j->model->n_choices, j->n_choices);
    j->counted = true;
    return true;
}

static void prepare(Job *j) {
    ApiError error;
    if (!j->parsed && !parse(j, &error)) {
        job_fail(j, &error);
        return;
    }
    if (!work_acquire(j, j->request.model)) return;
    const Model *m = j->model;
    if (m->embedder != NULL) { /* an engine may be missing because it has failed, which run_start answers */
        (void)http_refuse(&error, 400, "invalid_request_error", "model_not_supported",
                          "The model %.100s makes embeddings, and no text.", m->name);
        job_fail(j, &error);
        return;
    }
    j->origin = (ApiOrigin){.id          = j->id,
                            .model       = m->name,
                            .created     = time(NULL),
                            .fingerprint = j->work->fingerprint,
                            .tokenizer   = rp_model_tokenizer(m->model),
                            .seed        = j->request.has_seed ? j->request.sampler.seed : draw_seed()};
    (void)!getrandom(&j->id_seed, sizeof j->id_seed, 0);
    const RpStatus st = make_all(j);
    if (st != RP_OK) {
        job_fail_status(j, st);
        return;
    }
    j->origin.n_prompt = (int32_t)j->choices[0].n_prompt;
    pthread_mutex_lock(&j->lock);
    j->answer = api_answer_open(&j->request, &j->origin);
    pthread_mutex_unlock(&j->lock);
    if (j->answer == NULL)
        job_fail_status(j, rp_fail(RP_E_NOMEM, "out of memory for an answer"));
    else if (!has_room(j, &error))
        job_fail(j, &error);
    else
        work_submit(j);
}

RpStatus formats_count(Job *j, int32_t *n) {
    if (j->model->engine == NULL) return rp_fail(RP_E_UNSUPPORTED, "the model %.100s makes no text", j->model->name);
    RP_TRY(make_all(j));
    *n = (int32_t)j->choices[0].n_prompt;
    return RP_OK;
}

const JobType format_job = {.prepare = prepare, .generates = true};
