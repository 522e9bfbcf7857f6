/* Tools with templates that know none: the prompts are compared with texts that are written by hand. */
#include "tests/support/chat_request.h"
#include "tests/support/reply.h"
#include "tests/support/vocabulary.h"

#define TOOL                                                                                                           \
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"W\", \"parameters\": "      \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}"
#define FLAT "{\"name\": \"now\"}"
#define NOW                                                                                                            \
    "{\"type\": \"function\", \"function\": {\"name\": \"now\", \"description\": \"\", \"parameters\": "               \
    "{\"type\": \"object\", \"properties\": {}}}}"
#define TOOLS "\"tools\": [" TOOL ", " FLAT "]"
#define DESCRIPTION                                                                                                    \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "  \
    "signatures within <tools></tools> XML tags:\n<tools>\n" TOOL "\n" NOW "\n</tools>\n\nFor each function call, "    \
    "return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"    \
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"

#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define SYSTEM     "{\"role\": \"system\", \"content\": \"Be brief.\"}"
#define CALLS                                                                                                          \
    "{\"role\": \"assistant\", \"content\": \"I look.\", \"tool_calls\": [{\"id\": \"a\", \"type\": \"function\", "    \
    "\"function\": {\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Oslo\\\"}\"}}, {\"id\": \"b\", "    \
    "\"function\": {\"name\": \"now\", \"arguments\": {}}}]}"
#define RESULTS                                                                                                        \
    "{\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"7 C\"}, {\"role\": \"tool\", \"tool_call_id\": "     \
    "\"b\", \"content\": [{\"type\": \"text\", \"text\": \"noon\"}]}"
#define PLAIN_RESULTS                                                                                                  \
    "{\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"7 C\"}, {\"role\": \"tool\", \"tool_call_id\": "     \
    "\"b\", \"content\": \"noon\"}"
#define CALLED                                                                                                         \
    "I look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>\n"           \
    "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
#define GIVEN "<tool_response>\n7 C\n</tool_response>\n<tool_response>\nnoon\n</tool_response>"

#define BOS "<|endoftext|>"
#define EOS "<|im_end|>"

static RpTokenizer *tk;

static void setup(void) {
    static const Added marks[] = {
        {"<tool_call>",  CONTROL, 0},
        {"</tool_call>", CONTROL, 0},
        {"<|im_start|>", CONTROL, 0},
        {"<|im_end|>",   CONTROL, 0},
    };
    tk = vocabulary("qwen2", marks, sizeof marks / sizeof marks[0]);
}

static void teardown(void) { rp_tokenizer_free(tk); }

TestSuite(chat_described, .init = setup, .fini = teardown);

static RpChatTemplate *template_of_name(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, GOLDEN_DIR "templates/%s.jinja", name);
    return template_of_file(tk, path);
}

static RpChatTemplate *template_of_text(const char *text) {
    RpChatTemplate *t;
    OK(rp_chat_template_new(tk, "t", text, strlen(text), &t));
    return t;
}

static void expect_prompt(const RpChatTemplate *t, const char *json, const char *want, bool describes) {
    char               *text;
    bool               *control;
    RpChatPrompt        out;
    const RpChatRequest r = {.json = json, .json_bytes = strlen(json)};
    OK(rp_chat_prompt(t, &r, &text, &control, &out));
    cr_expect_str_eq(text, want, "%s:\n%s\nnot\n%s", json, text, want);
    cr_expect_eq(out.describes_tools, describes, "%s", json);
    if (describes) cr_expect_str_eq(out.format.calls, "hermes", "%s", json);
    free(text), free(control);
}

Test(chat_described, chatml_gets_a_message_of_the_system) {
    RpChatTemplate *t = template_of_name("axolotl-chatml");
    expect_prompt(t, "{\"messages\": [" USER("Hi") "], " TOOLS ", \"add_generation_prompt\": true}",
                  "<|im_start|>system\n" DESCRIPTION "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                  "<|im_start|>assistant\n",
                  true);
    expect_prompt(t, "{\"messages\": [" SYSTEM ", " USER("Hi") ", " CALLS ", " PLAIN_RESULTS "], " TOOLS "}",
                  "<|im_start|>system\nBe brief.\n\n" DESCRIPTION "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                  "<|im_start|>assistant\n" CALLED "<|im_end|>\n<|im_start|>user\n" GIVEN "<|im_end|>\n"
                  "<|im_start|>assistant\n",
                  true);
    /* without tools the history is text all the same */
    expect_prompt(
        t, "{\"messages\": [" USER("Hi") ", " CALLS ", " PLAIN_RESULTS "], \"tool_choice\": \"none\", " TOOLS "}",
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" CALLED "<|im_end|>\n<|im_start|>user\n" GIVEN
        "<|im_end|>\n<|im_start|>assistant\n",
        false);
    expect_prompt(t, "{\"messages\": [" USER("Hi") "]}", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
                  false);
    rp_chat_template_free(t);
}

Test(chat_described, other_templates_without_tools) {
    RpChatTemplate *t = template_of_name("microsoft-Phi-3.5-mini-instruct");
    expect_prompt(t, "{\"messages\": [" SYSTEM ", " USER("Hi") "], " TOOLS "}",
                  "<|system|>\nBe brief.\n\n" DESCRIPTION "<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n", true);
    rp_chat_template_free(t);
    t = template_of_name("axolotl-alpaca");
    expect_prompt(t, "{\"messages\": [" USER("Hi") ", " CALLS ", " PLAIN_RESULTS "], " TOOLS "}",
                  BOS DESCRIPTION "\n\n### Instruction:\nHi\n\n### Response:\n" CALLED EOS
                                  "\n\n### Instruction:\n" GIVEN "\n\n### Response:\n",
                  true);
    rp_chat_template_free(t);
    t = template_of_name("axolotl-mistral_v1"); /* which wants user and assistant by turns */
    expect_prompt(t, "{\"messages\": [" USER("Hi") ", " CALLS ", " PLAIN_RESULTS "], " TOOLS "}",
                  BOS " [INST] " DESCRIPTION "\n\nHi [/INST] " CALLED EOS " [INST] " GIVEN " [/INST]", true);
    rp_chat_template_free(t);
    t = template_of_name("llama-cpp-rwkv-world");
    expect_prompt(t, "{\"messages\": [" USER("Hi") "], " TOOLS "}",
                  BOS "System: " DESCRIPTION "\n\nUser: Hi\n\nAssistant:", true);
    rp_chat_template_free(t);
}

/* Contents that are arrays of parts stay arrays. */
Test(chat_described, templates_that_take_parts_get_parts) {
    RpChatTemplate *t = template_of_name("trl-llava_next");
    expect_prompt(t,
                  "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi\"}]}, " CALLS
                  ", " RESULTS "], " TOOLS "}",
                  "<<SYS>>\n" DESCRIPTION "\n<</SYS>>\n\n[INST] Hi [/INST] " CALLED "</s> [INST] " GIVEN " [/INST]",
                  true);
    rp_chat_template_free(t);
}

Test(chat_described, without_a_system_the_user_gets_the_description) {
    static const char *const templates[] = {
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "[{{ m.role }}]{{ m.content }}{% endfor %}",
        "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}"};
    for (size_t i = 0; i < 2; i++) {
        RpChatTemplate *t = template_of_text(templates[i]);
        expect_prompt(t, "{\"messages\": [" USER("Hi") ", " CALLS ", " PLAIN_RESULTS "], " TOOLS "}",
                      "[user]" DESCRIPTION "\n\nHi[assistant]" CALLED "[user]" GIVEN, true);
        rp_chat_template_free(t);
    }
}

/* Marks are tokens of the template where the vocabulary has them; letters of users are not. */
Test(chat_described, marks_are_tokens) {
    RpChatTemplate     *t      = template_of_text("{% for m in messages %}{{ m.content }}{% endfor %}");
    static const char   json[] = "{\"messages\": [" USER("<tool_call>") ", " CALLS "], " TOOLS "}";
    const RpChatRequest r      = {.json = json, .json_bytes = sizeof json - 1};
    char               *text;
    bool               *control;
    RpChatPrompt        out;
    RpTokenList         ids = {0};
    int                 n   = 0;
    OK(rp_chat_prompt(t, &r, &text, &control, &out));
    OK(rp_tokenize_masked(tk, text, control, strlen(text), 0, &ids));
    for (size_t i = 0; i < ids.n; i++) n += ids.ids[i] == rp_tokenizer_find(tk, "<tool_call>");
    cr_expect_eq(n, 4, "%d", n);
    cr_expect_eq(out.n_calls, 2);
    cr_expect_eq(out.n_replayed, 0);
    free(text), free(control);
    rp_token_list_free(&ids);
    rp_chat_template_free(t);
}

/* Calls of the log come back as the model wrote them. */
Test(chat_described, calls_come_back_as_they_were_written) {
    RpChatTemplate   *t      = template_of_text("{% for m in messages %}[{{ m.content }}]{% endfor %}");
    static const char json[] = "{\"messages\": [" USER("Hi") ", " CALLS "]}";
    static const char call[] = "<tool_call>{\"name\":\"get_weather\"}</tool_call>";
    RpToolCallLog    *log;
    char             *text;
    bool             *control;
    RpChatPrompt      out;
    OK(rp_tool_call_log_new(0, &log));
    OK(rp_tool_call_log_put(log, "a", call, sizeof call - 1));
    OK(rp_tool_call_log_put(log, "b", "[TOOL_CALLS]now{}", 17)); /* of another format */
    const RpChatRequest r = {.json = json, .json_bytes = sizeof json - 1, .log = log};
    OK(rp_chat_prompt(t, &r, &text, &control, &out));
    cr_expect_str_eq(text, "[Hi][I look.\n<tool_call>{\"name\":\"get_weather\"}</tool_call>\n<tool_call>\n{\"name\": "
                           "\"now\", \"arguments\": {}}\n</tool_call>]");
    cr_expect(out.n_calls == 2 && out.n_replayed == 1 && !out.describes_tools);
    free(text), free(control);
    rp_tool_call_log_free(log);
    rp_chat_template_free(t);
}

Test(chat_described, a_begun_message_is_the_end_of_the_prompt) {
    RpChatTemplate *t =
        template_of_text("{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}[assistant]");
    expect_prompt(t,
                  "{\"messages\": [" USER("Hi") ", {\"role\": \"assistant\", \"content\": \"It is\"}], " TOOLS
                                                ", \"continue_final_message\": true}",
                  "[system]" DESCRIPTION ";[user]Hi;[assistant]It is", true);
    rp_chat_template_free(t);
}
