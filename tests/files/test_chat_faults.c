/* Memory that fails while replies are taken apart, prompts made, and chats run: every allocation once. */
#include "tests/support/case.h"
#include "tests/support/host_scenario.h"

#include "reprise/chat.h"

TestSuite(chat_faults, .init = make_folder, .fini = remove_folder);

static bool note_event(const RpReplyEvent *e, void *user) {
    size_t *n_arguments = user;
    if (e->kind == RP_REPLY_CALL_ARGUMENTS) *n_arguments += e->len;
    if (e->kind != RP_REPLY_CALL_ARGUMENTS) add_result(e->text, e->len);
    return true;
}

/* Tools, and a call with values that are kept. Bytes that were refused are given again: nothing is lost. */
static RpStatus parse_reply(const char *format) {
    static const char tools[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"integer\"}}}}]";
    static const char *const parts[] = {"<tool_call><function=f><parameter=a>1</parameter><parameter=b>",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "</parameter></function></tool_call>"};
    RpReplyParser           *p;
    RpStatus                 first       = RP_OK;
    size_t                   n_arguments = 0;
    char                     chunk[700];
    memset(chunk, '1', sizeof chunk);
    RP_TRY(rp_reply_parser_new(
        &(RpReplyParserOptions){
            .format      = {format, NULL},
            .tools       = tools,
            .tools_bytes = sizeof tools - 1,
            .on_event    = note_event,
            .user        = &n_arguments
    },
        &p));
    for (int i = 0; i < 6; i++) {
        const char  *text = *parts[i] != '\0' ? parts[i] : chunk;
        const size_t n    = *parts[i] != '\0' ? strlen(text) : sizeof chunk;
        RpStatus     st   = rp_reply_parser_bytes(p, text, n, false);
        if (st != RP_OK) first = st, st = rp_reply_parser_bytes(p, text, n, false);
        cr_expect_eq(st, RP_OK, CASE(i));
    }
    const RpStatus st = rp_reply_parser_end(p);
    if (st != RP_OK) {
        first = st;
        cr_expect_eq(rp_reply_parser_end(p), RP_OK);
    }
    cr_expect_eq(n_arguments, 2815);
    rp_reply_parser_free(p);
    return first;
}

Test(chat_faults, parsing_a_reply) { fail_each_call("reply", parse_reply, "qwen3-coder"); }

/* A request with tools and two calls, one of which is in the log. */
static RpStatus make_prompt(const char *source) {
    static const char json[] =
        "{\"tools\": [{\"name\": \"f\"}], \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
        "\"assistant\", \"tool_calls\": [{\"id\": \"a\", "
        "\"name\": \"f\", \"arguments\": \"{}\"}, {\"id\": \"b\", \"name\": \"f\", \"arguments\": {\"x\": 1}}]}]}";
    RpGgufFile       *f      = NULL;
    RpTokenizer      *tk     = NULL;
    RpChatTemplate   *t      = NULL;
    static const char call[] = "<tool_call>{\"y\":1}</tool_call>";
    RpToolCallLog    *log    = NULL;
    char             *text   = NULL;
    bool             *control;
    RpChatPrompt      out;
    RpStatus          st = rp_gguf_open(GOLDEN_DIR "tokenizer/smollm.gguf", &f);
    if (st == RP_OK) st = rp_tokenizer_new(f, &tk);
    if (st == RP_OK) st = rp_chat_template_new(tk, "t", source, strlen(source), &t);
    if (st == RP_OK) st = rp_tool_call_log_new(0, &log);
    if (st == RP_OK) st = rp_tool_call_log_put(log, "a", call, sizeof call - 1);
    const RpChatRequest r = {.json = json, .json_bytes = sizeof json - 1, .log = log};
    if (st == RP_OK) st = rp_chat_prompt(t, &r, &text, &control, &out);
    if (st == RP_OK) {
        add_result(text, strlen(text));
        cr_expect_eq(out.n_replayed, 1);
        free(text);
        free(control);
    }
    rp_tool_call_log_free(log);
    rp_chat_template_free(t);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
    return st;
}

/* A chat with a context and a budget, on a session that is open. */
static RpStatus chat_on_session(const char *json) {
    RpModel        *m       = NULL;
    RpSession      *session = NULL;
    RpSampler      *sampler = NULL;
    RpChatTemplate *t       = NULL;
    RpTokenList     context = {0};
    RpChatResult    r       = {.n_kept = 0};
    RpStatus        st      = rp_model_open(GOLDEN_DIR "tiny/llama-mix.gguf", NULL, &m);
    if (st == RP_OK) st = rp_session_open(m, &(RpSessionOptions){.n_ctx = 64, .n_threads = 1}, &session);
    const RpSamplerParams greedy = rp_sampler_defaults();
    if (st == RP_OK) st = rp_sampler_new(&greedy, rp_model_info(m)->n_vocab, &sampler);
    if (st == RP_OK) st = rp_chat_template_new(rp_model_tokenizer(m), "t", "a{{ tools | length }}<think>", 28, &t);
    const RpChatOptions o = {
        .json             = json,
        .json_bytes       = strlen(json),
        .format           = {"hermes", "think"},
        .chat_template    = t,
        .context          = &context,
        .max_tokens       = 6,
        .reasoning_budget = 2
    };
    if (st == RP_OK) st = rp_chat_generate(session, sampler, &o, &r);
    if (st == RP_OK) add_result(&r.n_generated, sizeof r.n_generated);
    if (st == RP_OK) add_result(context.ids, context.n * sizeof *context.ids);
    rp_token_list_free(&context);
    rp_chat_template_free(t);
    rp_sampler_free(sampler);
    rp_session_free(session);
    rp_model_free(m);
    return st;
}

Test(chat_faults, chatting) {
    fail_each_call("chat", chat_on_session, "{\"messages\": [], \"tools\": [{\"name\": \"f\"}]}");
}

Test(chat_faults, chatting_held_to_a_call) {
    fail_each_call("held", chat_on_session,
                   "{\"messages\": [], \"stop\": [\"x\"], \"tool_choice\": \"required\", \"tools\": [{\"name\": \"f\", "
                   "\"parameters\": {\"properties\": {\"a\": {\"enum\": [1]}}}}], \"response_format\": {\"type\": "
                   "\"json_object\"}}");
}

Test(chat_faults, chatting_held_to_json) {
    fail_each_call("held", chat_on_session,
                   "{\"messages\": [], \"tools\": [{\"name\": \"f\"}], \"response_format\": {\"type\": "
                   "\"json_schema\", \"schema\": {\"enum\": [1]}}}");
}

/* A call that the model begins by itself: the tokens are given, not sampled. */
static RpStatus call_begun(const char *call) {
    RpModel          *m       = NULL;
    RpSampler        *sampler = NULL;
    RpChatTemplate   *t       = NULL;
    RpChatReply      *reply   = NULL;
    RpTokenList       tokens  = {0};
    RpRequest         request = {0};
    RpChatResult      r       = {.n_kept = 0};
    RpStatus          st      = rp_model_open(GOLDEN_DIR "tiny/llama-mix.gguf", NULL, &m);
    bool              more    = true;
    RpSamplerParams   greedy  = rp_sampler_defaults();
    static const char json[] =
        "{\"messages\": [], \"tools\": [{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": "
        "{\"enum\": [1]}}}}]}";
    if (st == RP_OK) st = rp_sampler_new(&greedy, rp_model_info(m)->n_vocab, &sampler);
    if (st == RP_OK) st = rp_chat_template_new(rp_model_tokenizer(m), "t", "a{{ tools | length }}", 21, &t);
    const RpChatOptions o = {
        .json = json, .json_bytes = sizeof json - 1, .format = {"hermes", "none"},
                   .chat_template = t
    };
    if (st == RP_OK) st = rp_chat_reply_new(m, sampler, &o, &reply);
    if (st == RP_OK) st = rp_chat_reply_request(reply, &request);
    if (st == RP_OK) st = rp_tokenize(rp_model_tokenizer(m), call, strlen(call), 0, &tokens);
    for (size_t i = 0; st == RP_OK && more && i < tokens.n; i++)
        more = request.on_token(tokens.ids[i], request.token_user);
    if (st == RP_OK) st = rp_chat_reply_end(reply, &(RpEngineEvent){.end = true, .reason = RP_STOP_END_TOKEN}, &r);
    if (st == RP_OK) add_result(&r.n_held, sizeof r.n_held);
    rp_token_list_free(&tokens);
    rp_chat_reply_free(reply);
    rp_chat_template_free(t);
    rp_sampler_free(sampler);
    rp_model_free(m);
    return st;
}

Test(chat_faults, a_call_that_the_model_begins) {
    fail_each_call("begun", call_begun, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>");
}

Test(chat_faults, making_a_prompt) {
    fail_each_call(
        "prompt", make_prompt,
        "{{ tools | length }}{% for c in messages[1].tool_calls %}<tool_call>{{ c.function.arguments | tojson }}"
        "</tool_call>{% endfor %}");
}

Test(chat_faults, making_a_prompt_of_a_template_without_tools) {
    fail_each_call("described", make_prompt,
                   "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}");
    fail_each_call("described", make_prompt, "{% for m in messages %}{{ m.content }}{% endfor %}");
}
