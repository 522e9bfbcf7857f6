/* Chats with tool_choice "auto": replies that stay free of masks, and where in a token a call begins. */
#include "base/text/json_read.h"
#include "model/chat/call_hold.h"
#include "tests/support/scripted_chat.h"
#include "tests/support/vocabulary.h"

TestSuite(chat_calls_free, .init = setup, .fini = teardown);

/* JSON that is an answer: a brace begins no call until the name is that of a tool. */
Test(chat_calls_free, an_answer_that_begins_with_a_brace_is_free) {
    static const char *const replies[] = {"{\"a\": [1, 2]}", "{\"name\": \"Bob\", \"days\": true}", "{no JSON}",
                                          "Use {\"name\": \"now\", \"arguments\": 1}"};
    open_model("llama3", "none", AS_CONTROL, 1.0f);
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        Play held        = {.calls = "llama3", .reasoning = "none", .tools = TOOLS, .parts = {replies[i]}};
        Play freed       = held;
        freed.free_calls = true;
        play(&freed), play(&held);
        cr_expect(held.n_masked == 0 && same_tokens(&held, &freed), "%s: %s", replies[i], joined(&held.t.all));
        play_free(&held), play_free(&freed);
    }
    close_model();
}

/* Reasoning stays free, and so do replies to requests without tools, or with another tool_choice. */
Test(chat_calls_free, reasoning_is_free) {
    static const char call[] = "{\"name\": \"no\", \"arguments\": {\"city\": 1}}";
    char              reply[256];
    snprintf(reply, sizeof reply, "<think>I try <tool_call>%s</tool_call></think>No.", call);
    open_model("hermes", "think", AS_TEXT, 1.0f);
    Play y = {.calls = "hermes", .reasoning = "think", .tools = TOOLS, .parts = {reply}};
    play(&y);
    cr_expect(y.n_masked == 0 && y.t.n_calls == 0, "%s", joined(&y.t.all));
    play_free(&y);
    close_model();
}

Test(chat_calls_free, other_requests_are_free) {
    static const char        reply[]    = "<tool_call>{\"name\": \"no\", \"arguments\": {\"city\": 1}}</tool_call>";
    static const char *const cases[][2] = {
        {"[]",  NULL                               },
        {TOOLS, ", \"tool_choice\": \"none\""      },
        {TOOLS, ", \"builtin_tools\": [\"python\"]"}
    };
    open_model("hermes", "none", AS_CONTROL, 1.0f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Play y = {
            .calls = "hermes", .reasoning = "none", .tools = cases[i][0], .members = cases[i][1], .parts = {reply}};
        play(&y);
        cr_expect(y.n_masked == 0, "%s", joined(&y.t.all));
        play_free(&y);
    }
    close_model();
}

/* A tool whose parameters the format cannot write leaves all calls free. */
Test(chat_calls_free, tools_that_no_grammar_can_have_leave_calls_free) {
    static const char tools[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a b\": {\"type\": \"string\"}}}}]";
    static const char reply[] = "<tool_call>g\n<arg_key>c</arg_key>\n<arg_value>1</arg_value>\n</tool_call>";
    open_model("glm4", "none", AS_CONTROL, 1.0f);
    Play y = {.calls = "glm4", .reasoning = "none", .tools = tools, .parts = {reply}};
    play(&y);
    cr_expect(y.n_masked == 0 && y.t.n_calls == 1 && y.result.n_held == 0, "%s", joined(&y.t.all));
    cr_expect_str_eq(
        notes, "calls are not held: tool_choice: the tool \"f\" has a parameter \"a b\", which calls of the format "
               "\"glm4\" cannot have\n");
    play_free(&y);
    close_model();
}

Test(chat_calls_free, keywords_that_are_not_kept_are_noted) {
    static const char tools[] = "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"array\", "
                                "\"uniqueItems\": true}}}}]";
    static const char reply[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 1]}}</tool_call>";
    open_model("hermes", "none", AS_CONTROL, 1.0f);
    Play y = {.calls = "hermes", .reasoning = "none", .tools = tools, .parts = {reply}};
    play(&y);
    cr_expect(y.n_masked > 0 && !y.diverged && y.result.n_held == 1, "%s", joined(&y.t.all));
    cr_expect_str_eq(notes, "uniqueItems at #/properties/a is ignored\n");
    play_free(&y);
    y.free_calls = true;
    play(&y);
    cr_expect_str_eq(notes, "");
    play_free(&y);
    close_model();
}

/* Several calls in a block, of qwen3-coder with more parameters than have a tree of orders. */
Test(chat_calls_free, many_parameters_come_in_any_order) {
    static const char tools[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "
        "\"boolean\"}, \"c\": {\"type\": \"integer\"}, \"d\": {\"type\": \"string\", \"maxLength\": 3}, \"e\": "
        "{\"type\": "
        "\"integer\"}}, \"required\": [\"c\", \"a\"]}}]";
    static const char right[] =
        "<tool_call>\n<function=f>\n<parameter=e>\n5\n</parameter>\n<parameter=c>\n3\n</parameter>\n"
        "<parameter=d>\nx\n</parameter>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\ntrue\n"
        "</parameter>\n</function>\n</tool_call>";
    static const char wrong[] = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>";
    open_model("qwen3-coder", "none", AS_CONTROL, 1.0f);
    Play y = {.calls = "qwen3-coder", .reasoning = "none", .tools = tools, .parts = {right}};
    play(&y);
    cr_expect(!y.diverged && y.result.n_held == 1, "%s", joined(&y.t.all));
    cr_expect_str_eq(joined(&y.t.arguments[0]), "{\"e\": 5, \"c\": 3, \"d\": \"x\", \"a\": 1, \"b\": true}");
    play_free(&y);
    y = (Play){.calls = "qwen3-coder", .reasoning = "none", .tools = tools, .parts = {wrong}};
    play(&y);
    cr_expect(y.diverged && strstr(joined(&y.t.arguments[0]), "\"c\": ") != NULL, "%s", joined(&y.t.all));
    play_free(&y);
    close_model();
}

/* A token may carry the end of a mark and what follows it. If that does not fit, the call stays free. */
Test(chat_calls_free, what_a_token_has_behind_the_mark_counts) {
    static const Added added[] = {
        {"call>{\"na",    NORMAL, 0},
        {"call>no",       NORMAL, 0},
        {"me\": \"now\"", NORMAL, 0},
    };
    static const char request[] = "{\"messages\": [], \"tools\": " TOOLS "}";
    RpTokenizer      *tk        = vocabulary("qwen2", added, 3);
    const int32_t     n = rp_tokenizer_n_vocab(tk), first = n - 3;
    RpSamplerParams   p = rp_sampler_defaults();
    RpSampler        *s;
    Json              j;
    OK(rp_sampler_new(&p, n, &s));
    OK(rp_json_read("request", request, sizeof request - 1, &j));
    for (int32_t i = 0; i < 2; i++) {
        Transcript                 t     = {0};
        RpTokenList                begin = {0};
        RpReplyParser             *parser;
        CallHold                   h = {0};
        RpSampleExtra              extra;
        const RpReplyParserOptions o = {
            .format      = {"hermes", "none"},
            .tokenizer   = tk,
            .tools       = TOOLS,
            .tools_bytes = sizeof TOOLS - 1,
            .on_event    = transcript_event,
            .user        = &t
        };
        OK(rp_reply_parser_new(&o, &parser));
        OK(rp_call_hold_open(&h, parser, tk, &j, NULL, s));
        OK(rp_tokenize(tk, "Hm. <tool_", 10, 0, &begin));
        OK(rp_token_list_push(&begin, first + i));
        for (size_t k = 0; k < begin.n; k++) {
            cr_expect_null(rp_sampler_extra(s, &extra), CASE(k));
            OK(rp_reply_parser_token(parser, begin.ids[k]));
            OK(rp_call_hold_token(&h, begin.ids[k]));
        }
        const uint32_t *mask = rp_sampler_extra(s, &extra);
        if (i == 0)
            cr_expect(mask != NULL && (mask[(first + 2) / 32] >> ((first + 2) % 32) & 1) != 0 &&
                          (mask[first / 32] >> (first % 32) & 1) == 0,
                      CASE(i));
        else
            cr_expect_null(mask, CASE(i));
        OK(rp_reply_parser_end(parser));
        cr_expect_gt(t.malformed.n, 0, CASE(i)); /* as it was */
        rp_call_hold_close(&h);
        cr_expect_null(rp_sampler_extra(s, &extra), CASE(i));
        rp_reply_parser_free(parser);
        rp_token_list_free(&begin);
        transcript_free(&t);
    }
    rp_json_free(&j);
    rp_sampler_free(s);
    rp_tokenizer_free(tk);
}

Test(chat_calls_free, refuses_a_vocabulary_of_another_model) {
    static const char request[] = "{\"messages\": [], \"tools\": " TOOLS "}";
    RpGrammarVocab   *wrong;
    RpChatReply      *r;
    RpGgufString      none = {"", 0};
    open_model("hermes", "none", AS_TEXT, 1.0f);
    OK(rp_grammar_vocab_of(&none, 1, NULL, 0, &wrong));
    const RpChatOptions o = {
        .json          = request,
        .json_bytes    = sizeof request - 1,
        .format        = {"hermes", "none"},
        .chat_template = plain,
        .vocab         = wrong
    };
    REFUSED(rp_chat_reply_new(model, sampler, &o, &r), RP_E_ARG, "the vocabulary for grammars has 1 tokens, the model");
    rp_grammar_vocab_free(wrong);
    close_model();
}
