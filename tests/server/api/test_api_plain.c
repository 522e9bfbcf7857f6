/* The paths of the server that need no stream: models, embeddings, tokens, Ollama's list, counts. And requests
 * as Codex and Claude Code send them. */
#include "server/api/plain.h"
#include "tests/server/api/replay.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static RpGgufFile  *file;
static RpTokenizer *vocabulary;

static void open_vocabulary(void) {
    cr_assert_eq(rp_gguf_open(RP_SOURCE_DIR "/assets/demo.gguf", &file), RP_OK);
    cr_assert_eq(rp_tokenizer_new(file, &vocabulary), RP_OK);
}

static void close_vocabulary(void) { rp_tokenizer_free(vocabulary), rp_gguf_close(file); }

TestSuite(api_plain, .init = open_vocabulary, .fini = close_vocabulary);

static json_t *body_of(const char *text) {
    json_t  *body = NULL;
    ApiError error;
    cr_assert(api_body_read(text, strlen(text), &body, &error), "%s", error.message);
    return body;
}

/* Compares what was written with JSON, and releases it. */
static void expect_json(Bytes *out, const char *want) {
    json_t *has = json_loads(out->p, 0, NULL), *wanted = json_loads(want, 0, NULL);
    cr_assert_not_null(wanted, "%s", want);
    cr_expect(json_equal(has, wanted), "%s", out->p);
    json_decref(has), json_decref(wanted), bytes_free(out);
}

static const ApiModel model = {.id           = "tiny",
                               .architecture = "llama",
                               .quantization = "Q4_K",
                               .digest       = "ab",
                               .created      = 1764000000,
                               .n_params     = 134500000,
                               .size         = 90000000,
                               .n_vocab      = 64,
                               .n_ctx        = 512,
                               .n_ctx_train  = 2048,
                               .n_embd       = 32,
                               .tools        = true,
                               .insert       = true};

#define MODEL                                                                                                          \
    "{\"id\": \"tiny\", \"object\": \"model\", \"created\": 1764000000, \"owned_by\": \"reprise\", \"type\": "         \
    "\"model\","                                                                                                       \
    " \"display_name\": \"tiny\", \"created_at\": \"2025-11-24T16:00:00Z\", \"meta\": {\"n_vocab\": 64, \"n_ctx\": "   \
    "512,"                                                                                                             \
    " \"n_ctx_train\": 2048, \"n_embd\": 32, \"n_params\": 134500000, \"size\": 90000000}}"
#define DETAILS                                                                                                        \
    "\"details\": {\"parent_model\": \"\", \"format\": \"gguf\", \"family\": \"llama\", \"families\": [\"llama\"],"    \
    " \"parameter_size\": \"134M\", \"quantization_level\": \"Q4_K\"}"

Test(api_plain, models_are_listed) {
    Bytes out = {0};
    api_models_body(&model, 1, &out);
    expect_json(&out, "{\"object\": \"list\", \"data\": [" MODEL
                      "], \"has_more\": false, \"first_id\": \"tiny\", \"last_id\":"
                      " \"tiny\"}");
    api_models_body(NULL, 0, &out);
    expect_json(&out,
                "{\"object\": \"list\", \"data\": [], \"has_more\": false, \"first_id\": null, \"last_id\": null}");
}

Test(api_plain, ollama_lists_and_shows_models) {
    Bytes       out  = {0};
    const char *name = NULL;
    ApiError    error;
    api_tags_body(&model, 1, &out);
    expect_json(&out,
                "{\"models\": [{\"name\": \"tiny\", \"model\": \"tiny\", \"modified_at\": \"2025-11-24T16:00:00Z\","
                " \"size\": 90000000, \"digest\": \"ab\", " DETAILS "}]}");
    api_show_body(&model, &out);
    expect_json(&out,
                "{\"license\": \"\", \"modelfile\": \"\", \"parameters\": \"\", \"template\": \"\", \"modified_at\":"
                " \"2025-11-24T16:00:00Z\", " DETAILS ", \"model_info\": {\"general.architecture\": \"llama\","
                " \"general.parameter_count\": 134500000, \"llama.context_length\": 512, \"llama.embedding_length\":"
                " 32}, \"capabilities\": [\"completion\", \"tools\", \"insert\"]}");
    json_t *body = body_of("{\"name\": \"a\", \"model\": \"b\"}");
    cr_expect(api_show_parse(body, &name, &error));
    cr_expect_str_eq(name, "b");
    json_decref(body);
    body = body_of("{}");
    cr_expect(!api_show_parse(body, &name, &error));
    cr_expect_str_eq(error.message, "model: must be a string that is not empty");
    json_decref(body);
}

Test(api_plain, embeddings_are_numbers_or_base64) {
    const float         rows[] = {1.0f, -2.0f, 2.0f, 0.5f, 0.0f, 3.0f};
    Bytes               out    = {0};
    ApiEmbeddingRequest r;
    ApiError            error;
    json_t             *body = body_of("{\"input\": [\"a\", [1, 2]], \"model\": \"tiny\"}");
    cr_assert(api_embeddings_parse(body, 3, &r, &error), "%s", error.message);
    json_decref(body);
    cr_expect_eq(json_array_size(r.inputs), 2);
    api_embeddings_body(&r, "tiny", rows, 2, 3, 5, &out);
    expect_json(
        &out, "{\"object\": \"list\", \"data\": [{\"object\": \"embedding\", \"index\": 0, \"embedding\": [1, -2, 2]},"
              " {\"object\": \"embedding\", \"index\": 1, \"embedding\": [0.5, 0, 3]}], \"model\": \"tiny\","
              " \"usage\": {\"prompt_tokens\": 5, \"total_tokens\": 5}}");
    api_embeddings_free(&r);
    /* base64 of Python: struct.pack("<3f", 1, -2, 2), and with 2 dimensions of (3, 4): (0.6, 0.8) */
    body = body_of("{\"input\": \"a\", \"encoding_format\": \"base64\"}");
    cr_assert(api_embeddings_parse(body, 3, &r, &error));
    json_decref(body);
    api_embeddings_body(&r, "tiny", rows, 1, 3, 1, &out);
    cr_expect(strstr(out.p, "\"embedding\":\"AACAPwAAAMAAAABA\"") != NULL, "%s", out.p);
    api_embeddings_free(&r), bytes_free(&out);
    const float other[] = {3.0f, 4.0f, 7.0f};
    body                = body_of("{\"input\": [1, 2], \"encoding_format\": \"base64\", \"dimensions\": 2}");
    cr_assert(api_embeddings_parse(body, 3, &r, &error));
    json_decref(body);
    api_embeddings_body(&r, "tiny", other, 1, 3, 1, &out);
    cr_expect(strstr(out.p, "\"embedding\":\"mpkZP83MTD8=\"") != NULL, "%s", out.p);
    api_embeddings_free(&r), bytes_free(&out);
}

Test(api_plain, embeddings_of_wrong_bodies_are_refused) {
    const struct {
        const char *body, *text;
    } cases[] = {
        {"{}",                                             "input: must be a string, an array of token ids, or an array of these"},
        {"{\"input\": []}",                                "input: must be a string, an array of token ids, or an array of these"},
        {"{\"input\": [\"a\", {}]}",                       "input[1]: must be a string or an array of token ids"                 },
        {"{\"input\": \"a\", \"dimensions\": 4}",          "dimensions: must be a whole number from 1 to 3"                      },
        {"{\"input\": \"a\", \"encoding_format\": \"x\"}", "encoding_format: must be \"float\" or \"base64\""                    },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ApiEmbeddingRequest r;
        ApiError            error = {0};
        json_t             *body  = body_of(cases[i].body);
        cr_expect(!api_embeddings_parse(body, 3, &r, &error), "case %zu", i);
        cr_expect_str_eq(error.message, cases[i].text, "case %zu: %s", i, error.message);
        json_decref(body);
    }
}

Test(api_plain, texts_become_tokens_and_back) {
    Bytes       out = {0};
    ApiError    error;
    RpTokenList ids = {0};
    cr_assert_eq(rp_tokenize(vocabulary, "hello", 5, RP_TOK_PARSE_SPECIAL, &ids), RP_OK);
    json_t *body = body_of("{\"content\": \"hello\"}");
    cr_assert(api_tokenize(body, vocabulary, &out, &error), "%s", error.message);
    json_decref(body);
    json_t *has = json_loads(out.p, 0, NULL), *tokens = json_object_get(has, "tokens");
    cr_assert_eq(json_array_size(tokens), ids.n);
    for (size_t i = 0; i < ids.n; i++)
        cr_expect_eq(json_integer_value(json_array_get(tokens, i)), ids.ids[i], "token %zu", i);
    bytes_free(&out);
    cr_assert(api_detokenize(has, vocabulary, &out, &error), "%s", error.message);
    expect_json(&out, "{\"content\": \"hello\"}");
    json_decref(has);
    body = body_of("{\"content\": \"hello\", \"with_pieces\": true, \"add_special\": true}");
    cr_assert(api_tokenize(body, vocabulary, &out, &error));
    cr_expect(strstr(out.p, "\"piece\":") != NULL, "%s", out.p);
    json_decref(body), bytes_free(&out), rp_token_list_free(&ids);
    body = body_of("{\"content\": 3}");
    cr_expect(!api_tokenize(body, vocabulary, &out, &error));
    cr_expect_str_eq(error.message, "content: must be a string");
    json_decref(body);
    body = body_of("{\"tokens\": [1, 100000000]}");
    cr_expect(!api_detokenize(body, vocabulary, &out, &error));
    cr_expect_str_eq(error.message, "tokens[1]: must be the id of a token");
    json_decref(body), bytes_free(&out);
}

Test(api_plain, counts_of_tokens_need_no_limit) {
    const ApiRequest defaults = replay_defaults();
    ApiRequest       r;
    ApiError         error;
    Bytes            out  = {0};
    json_t          *body = body_of("{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}");
    cr_assert(api_count_tokens_parse(body, &defaults, &r, &error), "%s", error.message);
    json_decref(body), api_request_free(&r);
    api_count_tokens_body(17, &out);
    expect_json(&out, "{\"input_tokens\": 17}");
}

/* The chat of a request of tests/server/data. The caller releases it. */
static json_t *chat_of(const char *name, const char *path) {
    const ApiRequest defaults = replay_defaults();
    ApiRequest       r;
    ApiError         error;
    char             full[400];
    snprintf(full, sizeof full, RP_SOURCE_DIR "/tests/server/data/%s", name);
    json_t *body = json_load_file(full, 0, NULL);
    cr_assert_not_null(body, "%s", full);
    cr_assert(api_format_of(path)->parse(api_format_of(path), body, &defaults, &r, &error), "%s", error.message);
    json_t *chat = json_incref(r.chat);
    json_decref(body), api_request_free(&r);
    return chat;
}

static const char *text_at(const json_t *chat, size_t message) {
    return json_string_value(json_object_get(json_array_get(json_object_get(chat, "messages"), message), "content"));
}

/* The prompt that a template makes of a chat. The caller frees it. */
static char *prompt_of(const char *name, const json_t *chat) {
    RpChatTemplate *t = NULL;
    char            path[400], source[40000], *json = json_dumps(chat, JSON_COMPACT), *text = NULL;
    bool           *control = NULL;
    RpChatPrompt    prompt;
    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/templates/%s.jinja", name);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    const size_t n = fread(source, 1, sizeof source, f);
    fclose(f);
    cr_assert_eq(rp_chat_template_new(vocabulary, name, source, n, &t), RP_OK, "%s", rp_last_error());
    const RpChatRequest r = {.json = json, .json_bytes = strlen(json)};
    cr_expect_eq(rp_chat_prompt(t, &r, &text, &control, &prompt), RP_OK, "%s: %s", name, rp_last_error());
    rp_chat_template_free(t);
    free(json), free(control);
    return text;
}

static size_t common(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n]) n++;
    return n;
}

/* Templates take what the formats make of requests of agents. The second prompt of a conversation begins with the first
 * one, up to what asks for the reply. */
Test(api_plain, templates_take_requests_of_agents) {
    static const char *const names[] = {"Qwen-Qwen3-0.6B",
                                        "Qwen3.5-4B",
                                        "Qwen3-Coder",
                                        "GLM-4.6",
                                        "openai-gpt-oss-120b",
                                        "google-gemma-4-31B-it",
                                        "ibm-granite-granite-4.0"};
    json_t *codex = chat_of("codex.json", "/v1/responses"), *first = chat_of("claude-code.json", "/v1/messages");
    json_t *second = chat_of("claude-code-2.json", "/v1/messages");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *a = prompt_of(names[i], first), *b = prompt_of(names[i], second), *c = prompt_of(names[i], codex);
        if (a != NULL && b != NULL && c != NULL) {
            cr_expect(strstr(a, "Runs a command.") != NULL, "%s: a tool is lost", names[i]);
            cr_expect(strstr(c, "Exit code: 0") != NULL, "%s: the result of a tool is lost", names[i]);
            cr_expect_gt(common(a, b) + 60, strlen(a), "%s: %zu of %zu bytes in common", names[i], common(a, b),
                         strlen(a));
        }
        free(a), free(b), free(c);
    }
    json_decref(codex), json_decref(first), json_decref(second);
}

Test(api_plain, codex_sends_items_and_tools_of_its_own) {
    json_t *chat = chat_of("codex.json", "/v1/responses");
    cr_expect_eq(json_array_size(json_object_get(chat, "messages")), 6);
    cr_expect_eq(json_array_size(json_object_get(chat, "tools")), 2);
    cr_expect(strncmp(text_at(chat, 0), "You are Codex", 13) == 0, "%s", text_at(chat, 0));
    cr_expect(strstr(text_at(chat, 0), "\n\n<permissions") != NULL, "%s", text_at(chat, 0));
    free(prompt_of("Mistral-Small-3.2-24B-Instruct-2506", chat)); /* it wants users and assistants in turn */
    json_decref(chat);
}

Test(api_plain, claude_code_has_the_same_prefix_in_each_request) {
    json_t *first  = chat_of("claude-code.json", "/v1/messages"),
           *second = chat_of("claude-code-2.json", "/v1/messages");
    cr_expect_str_eq(text_at(first, 0), text_at(second, 0));
    cr_expect_null(strstr(text_at(first, 0), "billing"), "%s", text_at(first, 0));
    cr_expect(json_equal(json_object_get(first, "tools"), json_object_get(second, "tools")));
    cr_expect_eq(json_array_size(json_object_get(second, "messages")), 5);
    json_decref(first), json_decref(second);
}
