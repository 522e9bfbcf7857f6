/* The wire formats of the server: what bodies become (tests/server/data/requests.jsonl), and what events become
 * (answers.jsonl). */
#include "tests/server/api/replay.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define DATA RP_SOURCE_DIR "/tests/server/data/"

/* The members of a request that a case can name. */
static json_t *request_json(const ApiRequest *r) {
    json_t                *all     = json_object();
    const RpSamplerParams *p       = &r->sampler;
    const char            *kinds[] = {"chat", "completion", "infill"};
    json_t                *stop = json_array(), *bias = json_array();
    for (size_t i = 0; i < r->n_stop; i++) json_array_append_new(stop, json_string(r->stop[i]));
    for (size_t i = 0; i < p->n_logit_bias; i++)
        json_array_append_new(bias, json_pack("[i, s]", p->logit_bias[i].token,
                                              isinf(p->logit_bias[i].bias) ? "never"
                                              : p->logit_bias[i].bias > 0  ? "+"
                                                                           : "-"));
    json_object_update_new(all,
                           json_pack("{s:s, s:s?, s:O?, s:O?, s:O?, s:s?, s:s?, s:s?}", "kind", kinds[r->kind], "model",
                                     r->model, "chat", r->chat, "prompts", r->prompts, "schema", r->schema, "grammar",
                                     r->grammar, "regex", r->regex, "samplers", p->samplers));
    json_object_update_new(all, json_pack("{s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "max_tokens", r->max_tokens, "n", r->n,
                                          "n_logprobs", r->n_logprobs, "reasoning_budget", r->reasoning_budget,
                                          "priority", r->priority, "stop", stop, "logit_bias", bias));
    json_object_update_new(all, json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:O?}", "stream", r->stream, "usage",
                                          r->usage, "echo", r->echo, "ignore_end", r->ignore_end, "one_call",
                                          r->one_call, "has_seed", r->has_seed, "extra", r->extra));
    json_object_update_new(all, json_pack("{s:I, s:i, s:i, s:i, s:i, s:i, s:i}", "seed", (json_int_t)p->seed, "top_k",
                                          p->top_k, "repeat_last_n", p->repeat_last_n, "dry_penalty_last_n",
                                          p->dry_penalty_last_n, "mirostat", p->mirostat, "n_breakers",
                                          (int)p->n_dry_breakers, "min_keep", p->min_keep));
    const struct {
        const char *name;
        float       value;
    } floats[] = {
        {"temperature",       p->temperature      },
        {"top_p",             p->top_p            },
        {"min_p",             p->min_p            },
        {"repeat_penalty",    p->repeat_penalty   },
        {"typical_p",         p->typical_p        },
        {"frequency_penalty", p->frequency_penalty},
        {"presence_penalty",  p->presence_penalty },
        {"top_n_sigma",       p->top_n_sigma      },
        {"dry_multiplier",    p->dry_multiplier   },
        {"xtc_probability",   p->xtc_probability  },
    };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        json_object_set_new(all, floats[i].name, json_real((double)floats[i].value));
    return all;
}

/* Equal, numbers by their value. */
static bool same(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return fabs(json_number_value(a) - json_number_value(b)) < 1e-6;
    return json_equal(a, b);
}

/* What a case wants of a body: members of the request, or of the error. "" or what differs. */
static const char *check_request(const json_t *line, char *why, size_t room) {
    const ApiFormat *f        = api_format_of(json_string_value(json_object_get(line, "path")));
    const ApiRequest defaults = replay_defaults();
    const json_t    *text = json_object_get(line, "text"), *want = json_object_get(line, "want");
    char      *body = text != NULL ? strdup(json_string_value(text)) : json_dumps(json_object_get(line, "body"), 0);
    ApiRequest r;
    ApiError   error;
    json_t    *parsed = NULL, *got;
    const bool ok = api_body_read(body, strlen(body), &parsed, &error) && f->parse(f, parsed, &defaults, &r, &error);
    got           = ok ? request_json(&r) : json_pack("{s:s, s:s}", "error", error.message, "param", error.param);
    if (ok) api_request_free(&r);
    json_decref(parsed);
    free(body);
    *why = '\0';
    const char *name;
    json_t     *value;
    json_object_foreach((json_t *)(uintptr_t)want, name, value) {
        const json_t *has = json_object_get(got, name);
        if (same(has, value)) continue;
        char *text_of = json_dumps(ok ? has : got, JSON_ENCODE_ANY | JSON_COMPACT);
        snprintf(why, room, "%s is %s", name, text_of != NULL ? text_of : "absent");
        free(text_of);
    }
    json_decref(got);
    return why;
}

static json_t *read_lines(const char *path) {
    FILE   *f     = fopen(path, "r");
    json_t *lines = json_array();
    char   *line  = NULL;
    size_t  room  = 0;
    cr_assert_not_null(f, "%s cannot be opened", path);
    while (getline(&line, &room, f) > 0) {
        json_error_t why;
        json_t      *one = json_loads(line, 0, &why);
        cr_assert_not_null(one, "%s: %s: %s", path, why.text, line);
        json_array_append_new(lines, one);
    }
    free(line);
    fclose(f);
    return lines;
}

Test(api, bodies_become_requests_or_are_refused) {
    json_t       *lines = read_lines(DATA "requests.jsonl");
    const json_t *line;
    size_t        i;
    char          why[2000];
    cr_assert_gt(json_array_size(lines), 20);
    json_array_foreach(lines, i, line)
        cr_expect_str_eq(check_request(line, why, sizeof why), "", "line %zu: %s", i + 1, why);
    json_decref(lines);
}

Test(api, events_become_answers) {
    json_t       *lines = read_lines(DATA "answers.jsonl");
    const json_t *line;
    size_t        i;
    RpGgufFile   *g;
    RpTokenizer  *tk;
    cr_assert_eq(rp_gguf_open(RP_SOURCE_DIR "/assets/demo.gguf", &g), RP_OK);
    cr_assert_eq(rp_tokenizer_new(g, &tk), RP_OK);
    cr_assert_gt(json_array_size(lines), 5);
    json_array_foreach(lines, i, line) {
        char *body = json_dumps(json_object_get(line, "body"), 0);
        Bytes out  = {0};
        replay(json_string_value(json_object_get(line, "path")), body, json_object_get(line, "events"), tk, &out);
        cr_expect_str_eq(out.p, json_string_value(json_object_get(line, "bytes")), "line %zu: %s", i + 1, out.p);
        bytes_free(&out);
        free(body);
    }
    json_decref(lines);
    rp_tokenizer_free(tk), rp_gguf_close(g);
}

/* Bodies that are no JSON, too deep, or have numbers and strings that JSON cannot have. */
/* Codex runs a call whose item is done. */
Test(api, a_call_that_a_failure_cuts_is_not_done) {
    json_t *events = json_loads("[{\"text\": \"a\"}, {\"call\": 0, \"id\": \"call_0\", \"name\": \"f\"},"
                                " {\"call\": 0, \"arguments\": \"{\\\"a\"}, {\"fail\": \"gone\"}]",
                                0, NULL);
    Bytes   out    = {0};
    cr_assert_eq(replay("/v1/responses", "{\"input\": \"hi\", \"stream\": true}", events, NULL, &out), 200);
    bytes_put(&out, "", 1);
    const char *begun = strstr(out.p, "response.function_call_arguments.delta"),
               *end   = strstr(out.p, "response.failed");
    cr_assert(begun != NULL && end > begun, "%s", out.p);
    cr_expect_null(strstr(begun, "response.function_call_arguments.done"), "%s", begun);
    cr_expect_null(strstr(begun, "response.output_item.done"), "%s", begun);
    cr_expect_null(strstr(end, "\"function_call\""), "%s", end);
    cr_expect_not_null(strstr(end, "\"text\":\"a\""), "%s", end);
    bytes_free(&out);
    json_decref(events);
}

Test(api, hostile_bodies_are_refused) {
    char *deep = malloc(200001);
    memset(deep, '[', 100000);
    memset(deep + 100000, ']', 100000);
    deep[200000] = '\0';
    const struct {
        const char *body, *text;
    } cases[] = {
        {"",                              "the body is no JSON: line 1, "           },
        {"{\"a\": 1",                     "the body is no JSON: line 1, "           },
        {"[]",                            "the body must be a JSON object"          },
        {"3",                             "the body must be a JSON object"          },
        {"{\"a\": 1e999}",                "the body is no JSON: line 1, real number"},
        {"{\"a\": 99999999999999999999}", "the body is no JSON: line 1, too big"    },
        {"{\"a\": \"\\u0000\"}",          "the body is no JSON: line 1, \\u0000"    },
        {"{\"a\": \"\xff\"}",             "the body is no JSON: line 1, unable to d"},
        {"{\"a\": \"\xed\xa0\x80\"}",     "the body is no JSON: line 1, unable to d"},
        {"{\"a\": \"\\ud800\"}",          "the body is no JSON: line 1, invalid Uni"},
        {"{\"a\": NaN}",                  "the body is no JSON: line 1, invalid tok"},
        {deep,                            "the body is no JSON: line 1, maximum par"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t  *out   = NULL;
        ApiError error = {0};
        cr_expect(!api_body_read(cases[i].body, strlen(cases[i].body), &out, &error), "case %zu", i);
        cr_expect(strncmp(error.message, cases[i].text, strlen(cases[i].text)) == 0, "case %zu: %s", i, error.message);
        cr_expect_eq(error.status, 400, "case %zu", i);
        cr_expect_null(out, "case %zu", i);
    }
    json_t  *out;
    ApiError error;
    cr_expect(!api_body_read("{\"a\": \"x\0y\"}", 12, &out, &error), "a NUL in the body");
    free(deep);
}

Test(api, paths_without_a_format_have_none) {
    cr_expect_null(api_format_of("/v1/chat"));
    cr_expect_str_eq(api_format_of("/v1/completions")->path, "/v1/completions");
}
