/* Requests of chats: what is refused, tools in three forms, and calls that come back as the model wrote them. */
#include "tests/support/chat_request.h"
#include "tests/support/reply.h"
#include "tests/support/vocabulary.h"

#define TOOL                                                                                                           \
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"W\", \"parameters\": "      \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}}}}}"

static RpTokenizer    *tk;
static RpChatTemplate *simple;

static RpChatTemplate *template_of_name(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, GOLDEN_DIR "templates/%s.jinja", name);
    return template_of_file(tk, path);
}

static void setup(void) {
    static const char source[] =
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
        "{% for c in m.tool_calls %}<tool_call>{\"name\": {{ c.function.name | tojson }}, "
        "\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}<think>";
    static const Added marks[] = {
        {"<tool_call>",   USER_DEFINED, 0},
        {"</tool_call>",  USER_DEFINED, 0},
        {"<think>",       USER_DEFINED, 0},
        {"</think>",      USER_DEFINED, 0},
        {"<|start|>",     CONTROL,      0},
        {"<|end|>",       CONTROL,      0},
        {"<|channel|>",   CONTROL,      0},
        {"<|message|>",   CONTROL,      0},
        {"<|call|>",      CONTROL,      0},
        {"<|constrain|>", CONTROL,      0},
    };
    tk = vocabulary("qwen2", marks, sizeof marks / sizeof marks[0]);
    OK(rp_chat_template_new(tk, "t", source, sizeof source - 1, &simple));
}

static void teardown(void) {
    rp_chat_template_free(simple);
    rp_tokenizer_free(tk);
}

TestSuite(chat_prompt, .init = setup, .fini = teardown);

/* The tokens of a request's prompt. */
static RpTokenList tokens_of(const RpChatTemplate *t, const char *json, const RpToolCallLog *log) {
    char               *text;
    bool               *control;
    RpChatPrompt        out;
    RpTokenList         ids = {0};
    const RpChatRequest r   = {.json = json, .json_bytes = strlen(json), .log = log};
    OK(rp_chat_prompt(t, &r, &text, &control, &out));
    OK(rp_tokenize_masked(tk, text, control, strlen(text), 0, &ids));
    free(text), free(control);
    return ids;
}

static char *render(const RpChatTemplate *t, const char *json, const RpToolCallLog *log, RpChatPrompt *out) {
    char               *text;
    bool               *control;
    const RpChatRequest r = {.json = json, .json_bytes = strlen(json), .log = log};
    cr_assert_eq(rp_chat_prompt(t, &r, &text, &control, out), RP_OK, "%s: %s", rp_last_error(), json);
    free(control);
    return text;
}

Test(chat_prompt, refuses_bad_histories) {
    static const struct {
        const char *messages;
        RpStatus    status;
        const char *why;
    } cases[] = {
        {"5",                                                                                        RP_E_FORMAT, "the request has no array of messages"           },
        {"[5]",                                                                                      RP_E_FORMAT, "messages[0] must be an object"                  },
        {"[{}]",                                                                                     RP_E_FORMAT, "messages[0] has no role"                        },
        {"[{\"role\": \"user\", \"content\": 1}]",                                                   RP_E_FORMAT,
         "messages[0]: content must be a string, null, or an array of parts"                                                                                       },
        {"[{\"role\": \"assistant\", \"tool_calls\": {}}]",                                          RP_E_FORMAT, "messages[0]: tool_calls must be an array"       },
        {"[{\"role\": \"user\", \"tool_calls\": [{\"name\": \"f\"}]}]",                              RP_E_ARG,
         "messages[0]: only the assistant has tool_calls"                                                                                                          },
        {"[{\"role\": \"assistant\", \"tool_calls\": [{}]}]",                                        RP_E_FORMAT, "messages[0]: tool_calls[0] has no name"         },
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"id\": 1}]}]",              RP_E_FORMAT,
         "messages[0]: the id of tool_calls[0] must be a string"                                                                                                   },
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"arguments\": \"[1]\"}]}]", RP_E_FORMAT,
         "messages[0]: the arguments of tool_calls[0] must be an object, or its JSON as a string"                                                                  },
        {"[{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"tool\", \"content\": \"\"}]",       RP_E_ARG,
         "messages[1]: the result of a tool, but no message before it has a call"                                                                                  },
        {"[{\"role\": \"tool\", \"tool_call_id\": 3}]",                                              RP_E_FORMAT, "messages[0]: tool_call_id must be a string"     },
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"id\": \"a\"}]}, {\"role\": \"tool\", "
         "\"tool_call_id\": \"b\"}]",                                                       RP_E_ARG,    "messages[1]: no call before it has the id \"b\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[512];
        snprintf(json, sizeof json, "{\"messages\": %s}", cases[i].messages);
        expect_refused(simple, json, cases[i].status, cases[i].why);
    }
}

Test(chat_prompt, refuses_bad_tools) {
    static const struct {
        const char *members;
        RpStatus    status;
        const char *why;
    } cases[] = {
        {"\"tools\": 1",                                                                                               RP_E_FORMAT, "tools must be an array"                             },
        {"\"tools\": [1]",                                                                                             RP_E_FORMAT, "tools[0] must be an object"                         },
        {"\"tools\": [{\"type\": \"web\", \"function\": {}}]",                                                         RP_E_FORMAT, "tools[0]: the type must be \"function\""            },
        {"\"tools\": [{\"name\": \"\"}]",                                                                              RP_E_FORMAT, "tools[0] has no name"                               },
        {"\"tools\": [{\"name\": \"a b\"}]",                                                                           RP_E_FORMAT,
         "tools[0]: the name \"a b\" has a character that names of tools cannot have"                                                                                                    },
        {"\"tools\": [{\"name\": \"a\", \"parameters\": []}]",                                                         RP_E_FORMAT,
         "tools[0] \"a\": the parameters must be a JSON schema, an object"                                                                                                               },
        {"\"tools\": [{\"name\": \"a\", \"description\": []}]",                                                        RP_E_FORMAT,
         "tools[0] \"a\": the description must be a string"                                                                                                                              },
        {"\"tools\": [{\"name\": \"a\"}, {\"function\": {\"name\": \"a\"}}]",                                          RP_E_FORMAT,
         "tools[1]: there are two tools \"a\""                                                                                                                                           },
        {"\"tool_choice\": \"required\"",                                                                              RP_E_ARG,    "tool_choice asks for a call, but there are no tools"},
        {"\"tool_choice\": \"any\"",                                                                                   RP_E_FORMAT,
         "tool_choice must be \"auto\", \"none\", \"required\", or name a function"                                                                                                      },
        {"\"tools\": [{\"name\": \"a\"}], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"b\"}}",
         RP_E_ARG,                                                                                                                  "tool_choice: there is no tool \"b\""                },
        {"\"response_format\": {\"type\": \"xml\"}",                                                                   RP_E_FORMAT,
         "response_format: the type must be \"text\", \"json_object\", \"json_schema\", \"grammar\" or \"regex\""                                                                        },
        {"\"response_format\": {\"type\": \"json_schema\"}",                                                           RP_E_FORMAT, "response_format: json_schema has no schema"         },
        {"\"response_format\": {\"type\": \"grammar\"}",                                                               RP_E_FORMAT,
         "response_format: grammar must be a text that is not empty"                                                                                                                     },
        {"\"response_format\": {\"type\": \"regex\", \"regex\": \"\"}",                                                RP_E_FORMAT,
         "response_format: regex must be a text that is not empty"                                                                                                                       },
        {"\"stop\": [1]",                                                                                              RP_E_FORMAT, "stop must be a string or an array of strings"       },
        {"\"max_tokens\": 0",                                                                                          RP_E_FORMAT, "max_tokens must be a whole number above 0"          },
    };
    char        *text;
    bool        *control;
    RpChatPrompt out;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[512];
        snprintf(json, sizeof json, "{\"messages\": [], %s}", cases[i].members);
        expect_refused(simple, json, cases[i].status, cases[i].why);
    }
    RpChatTemplate *plain;
    OK(rp_chat_template_new(tk, "t", "x", 1, &plain));
    static const char tools[] = "{\"messages\": [], \"tools\": [" TOOL "]}";
    RpChatRequest     request = {.json = tools, .json_bytes = sizeof tools - 1};
    REFUSED(rp_chat_prompt(plain, &request, &text, &control, &out), RP_E_UNSUPPORTED,
            "the chat template of this model drops the description of tools");
    request.format.calls = "llama3";
    REFUSED(rp_chat_prompt(plain, &request, &text, &control, &out), RP_E_UNSUPPORTED,
            "the chat template of this model has no tools: calls have the format \"hermes\", not \"llama3\"");
    REFUSED(rp_chat_prompt(plain, &(RpChatRequest){.json = "[]", .json_bytes = 2}, &text, &control, &out), RP_E_FORMAT,
            "the request must be an object");
    REFUSED(rp_chat_prompt(plain, &(RpChatRequest){.json_bytes = 2}, &text, &control, &out), RP_E_ARG,
            "the request has no JSON");
    rp_chat_template_free(plain);
}

/* On every machine, whether its char has a sign or not. */
Test(chat_prompt, names_of_tools_may_have_letters_of_other_languages) {
    RpChatPrompt out;
    char        *text = render(simple, "{\"messages\": [], \"tools\": [{\"name\": \"fu\u0308r\"}]}", NULL, &out);
    cr_expect_not_null(strstr(text, "\"name\": \"fu\u0308r\""), "%s", text);
    free(text);
}

Test(chat_prompt, tools_get_one_form) {
    static const char want[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"\", \"parameters\": "
        "{\"type\": \"object\", \"properties\": {}}}}][user]a<think>";
    static const char *const tools[] = {
        "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}", "{\"name\": \"f\"}",
        "{\"name\": \"f\", \"parameters\": null}",
        "{\"name\": \"f\", \"description\": null, \"input_schema\": {\"type\": \"object\", \"properties\": {}}}"};
    char         json[512];
    RpChatPrompt out;
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
        snprintf(json, sizeof json, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [%s]}",
                 tools[i]);
        char *text = render(simple, json, NULL, &out);
        cr_expect_str_eq(text, want, CASE(i));
        free(text);
    }
    cr_expect_str_eq(out.format.calls, "hermes");
    cr_expect_str_eq(out.format.reasoning, "none"); /* the template has no closing mark */
    char *text = render(simple, "{\"messages\": [], \"tools\": [" TOOL "], \"tool_choice\": \"none\"}", NULL, &out);
    cr_expect_str_eq(text, "<think>");
    free(text);
}

/* As Gemma 2's, which knows no tools either. */
Test(chat_prompt, a_message_of_the_system_that_is_refused) {
    static const char source[] =
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
    static const struct {
        const char *messages, *want;
    } cases[] = {
        {"{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"U\"}",  "[user]S\n\nU"                   },
        {"{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"U\"}, {\"role\": "
         "\"assistant\", \"content\": \"A\"}, {\"role\": \"user\", \"content\": \"V\"}", "[user]S\n\nU[assistant]A[user]V"},
    };
    RpChatTemplate *t;
    RpChatPrompt    out;
    char            json[1024];
    OK(rp_chat_template_new(tk, "t", source, sizeof source - 1, &t));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(json, sizeof json, "{\"messages\": [%s]}", cases[i].messages);
        char *text = render(t, json, NULL, &out);
        cr_expect_str_eq(text, cases[i].want, CASE(i));
        free(text);
        snprintf(json, sizeof json, "{\"messages\": [%s], \"tools\": [" TOOL "]}", cases[i].messages);
        text = render(t, json, NULL, &out);
        cr_expect(strncmp(text, "[user]S\n\n# Tools", 16) == 0 && strstr(text, "\n\nU") != NULL, "%s", text);
        cr_expect(out.describes_tools, CASE(i));
        free(text);
    }
    expect_refused(t, "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}]}", RP_E_ARG,
                   "t:1:56: the template refuses the conversation: System role not supported");
    rp_chat_template_free(t);
}

/* tokenizer.chat_template.tool_use, for requests with tools and for histories with calls. */
Test(chat_prompt, a_second_template_for_tools) {
    static const char first[]  = "{% for m in messages %}[{{ m.role }}]{% endfor %}";
    static const char second[] = "{{ tools | length if tools }}<tool_call></tool_call>";
    Bytes             b        = {0};
    RpGgufFile       *f;
    RpChatTemplate   *t;
    RpChatPrompt      out;
    put_header(&b, 3, 0, 2);
    put_key_string(&b, "tokenizer.chat_template", first);
    put_key_string(&b, "tokenizer.chat_template.tool_use", second);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    OK(rp_chat_template_of(f, tk, &t));
    char *text = render(t, "{\"messages\": [{\"role\": \"user\", \"content\": \"U\"}]}", NULL, &out);
    cr_expect_str_eq(text, "[user]");
    cr_expect_str_eq(out.format.calls, "none");
    free(text);
    text = render(t, "{\"messages\": [{\"role\": \"user\", \"content\": \"U\"}], \"tools\": [" TOOL "]}", NULL, &out);
    cr_expect_str_eq(text, "1<tool_call></tool_call>");
    cr_expect_str_eq(out.format.calls, "hermes");
    cr_expect(!out.describes_tools);
    free(text);
    rp_chat_template_free(t);
    rp_gguf_close(f);
    free(b.p);
}

/* ---- calls come back as the model wrote them ---- */

static bool keep_call(const RpReplyEvent *e, void *user) {
    RpToolCallLog *log = user;
    return e->kind != RP_REPLY_CALL_END || rp_tool_call_log_put(log, "id0000000", e->text, e->len) == RP_OK;
}

/* A request, a reply of a model to it, and the request that has the reply and the result of the tool. Its prompt begins
 * with the first prompt and the reply. `content`: members of the assistant's message. */
static void expect_replay(const char *name, const char *reply, const char *content, bool exact) {
    static const char head[] = "{\"tools\": [" TOOL "], \"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}";
    RpChatTemplate   *t      = template_of_name(name);
    RpToolCallLog    *log;
    RpReplyParser    *p;
    RpChatPrompt      first, second;
    char              json[4096];
    OK(rp_tool_call_log_new(0, &log));
    snprintf(json, sizeof json, "%s]}", head);
    char       *before = render(t, json, log, &first);
    RpTokenList ids    = tokens_of(t, json, log);
    OK(rp_tokenize(tk, reply, strlen(reply), RP_TOK_PARSE_SPECIAL, &ids));
    OK(rp_reply_parser_new(
        &(RpReplyParserOptions){
            .format = first.format, .in_reasoning = first.in_reasoning, .on_event = keep_call, .user = log},
        &p));
    OK(rp_reply_parser_bytes(p, reply, strlen(reply), false));
    OK(rp_reply_parser_end(p));
    rp_reply_parser_free(p);
    cr_assert(rp_tool_call_log_find(log, "id0000000", NULL) != NULL, "%s: no call in %s", name, reply);
    snprintf(json, sizeof json,
             "%s, {\"role\": \"assistant\", %s, \"tool_calls\": [{\"id\": \"id0000000\", \"function\": {\"name\": "
             "\"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Oslo\\\"}\"}}]}, {\"role\": \"tool\", "
             "\"tool_call_id\": \"id0000000\", \"content\": \"7\"}]}",
             head, content);
    char        *after = render(t, json, log, &second), *plain = render(t, json, NULL, &first);
    const size_t n = strlen(before);
    cr_expect_eq(second.n_calls, 1, "%s", name);
    cr_expect_eq(second.n_replayed, 1, "%s", name);
    cr_expect_eq(first.n_replayed, 0, "%s", name);
    if (exact) { /* the tokens of the first prompt, then those of the reply */
        RpTokenList all = tokens_of(t, json, log);
        cr_expect(all.n > ids.n && memcmp(all.ids, ids.ids, ids.n * sizeof *ids.ids) == 0, "%s: other tokens", name);
        rp_token_list_free(&all);
        cr_expect(strncmp(after, before, n) == 0 && strncmp(after + n, reply, strlen(reply)) == 0,
                  "%s: the prompt does not begin with the first one and the reply: %s", name, after + n - 20);
    } else {
        cr_expect(strstr(after, rp_tool_call_log_find(log, "id0000000", NULL)) != NULL, "%s: %s", name, after);
    }
    cr_expect_eq(strstr(plain, reply) == NULL, true, "%s: the template itself gives the text of the model", name);
    rp_token_list_free(&ids);
    free(before), free(after), free(plain);
    rp_tool_call_log_free(log);
    rp_chat_template_free(t);
}

/* Other white space, orders and escapes than those of the templates. */
Test(chat_prompt, calls_come_back_as_they_were_written) {
    expect_replay("Qwen-Qwen2.5-7B-Instruct",
                  "<tool_call>\n{\"arguments\":{\"city\":\"Oslo\"},\"name\":\"get_weather\"}\n</tool_call>",
                  "\"content\": \"\"", true);
    expect_replay("Qwen3-Coder",
                  "<tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>\n</tool_call>",
                  "\"content\": \"\"", false);
    expect_replay("Qwen-Qwen3-0.6B",
                  "<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                  "{\"city\":\"O\\u0073lo\"}}\n</tool_call>",
                  "\"content\": \"\", \"reasoning_content\": \"Hm.\"", true);
    expect_replay(
        "openai-gpt-oss-120b",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>",
        "\"content\": null", true);
    expect_replay("GLM-4.6",
                  "<tool_call>get_weather\n<arg_key>city</arg_key> <arg_value>Oslo</arg_value>\n</tool_call>",
                  "\"content\": \"\"", false);
    expect_replay("google-gemma-4-31B-it", "<|tool_call>call:get_weather{ city: <|\"|>Oslo<|\"|> }<tool_call|>",
                  "\"content\": \"\"", false);
    expect_replay("Mistral-Small-3.2-24B-Instruct-2506",
                  "[TOOL_CALLS]get_weather[CALL_ID]id0000000[ARGS]{ \"city\":\"Oslo\"}", "\"content\": \"\"", false);
}

Test(chat_prompt, a_log_is_bounded) {
    RpToolCallLog *log;
    char           text[100] = {0}, id[16];
    size_t         n;
    memset(text, 'x', sizeof text);
    OK(rp_tool_call_log_new(600, &log));
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "call%d", i);
        OK(rp_tool_call_log_put(log, id, text, sizeof text));
    }
    cr_expect_null(rp_tool_call_log_find(log, "call5", NULL));
    cr_expect_eq(strlen(rp_tool_call_log_find(log, "call9", &n)), 100);
    cr_expect_eq(n, 100);
    cr_expect(rp_tool_call_log_find(log, "call6", NULL) != NULL);
    OK(rp_tool_call_log_put(log, "call9", "new", 3));
    cr_expect_str_eq(rp_tool_call_log_find(log, "call9", NULL), "new");
    OK(rp_tool_call_log_put(log, "large", text, 601));
    cr_expect_null(rp_tool_call_log_find(log, "large", &n));
    cr_expect_eq(n, 0);
    rp_tool_call_log_free(log);
}
