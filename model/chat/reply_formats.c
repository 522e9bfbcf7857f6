/* The formats of replies, and how their chat templates are recognised. Sources of the formats: the chat templates of
 * the models, and for gpt-oss the description of harmony (github.com/openai/harmony). */
#include "model/chat/parser.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const ReplyFormat calls[] = {
    {.name = "none"},
    {.name = "harmony", .syntax = SYNTAX_HARMONY,
     .marks = {[MARK_HEADER] = "<|start|>", [MARK_CHANNEL] = "<|channel|>", [MARK_MESSAGE] = "<|message|>",
               [MARK_CONSTRAIN] = "<|constrain|>", [MARK_MESSAGE_END] = "<|end|>", [MARK_CALL_END] = "<|call|>",
               [MARK_RETURN] = "<|return|>"}},
    {.name = "gemma4", .syntax = SYNTAX_GEMMA,
     .marks = {[MARK_CALL] = "<|tool_call>", [MARK_CALL_END] = "<tool_call|>", [MARK_NAME] = "call:",
               [MARK_QUOTE] = "<|\"|>"}},
    {.name = "functiongemma", .syntax = SYNTAX_GEMMA,
     .marks = {[MARK_CALL] = "<start_function_call>", [MARK_CALL_END] = "<end_function_call>", [MARK_NAME] = "call:",
               [MARK_QUOTE] = "<escape>"}},
    {.name = "deepseek-v3.2", .syntax = SYNTAX_XML,
     .marks = {[MARK_CALLS] = "<｜DSML｜function_calls>", [MARK_CALLS_END] = "</｜DSML｜function_calls>",
               [MARK_NAME] = "<｜DSML｜invoke name=\"", [MARK_NAME_END] = "\">",
               [MARK_FUNCTION_END] = "</｜DSML｜invoke>", [MARK_KEY] = "<｜DSML｜parameter name=\"",
               [MARK_KEY_END] = "\" string=\"false\">", [MARK_STRING_KEY_END] = "\" string=\"true\">",
               [MARK_VALUE_END] = "</｜DSML｜parameter>"}},
    {.name = "deepseek-v4", .syntax = SYNTAX_XML,
     .marks = {[MARK_CALLS] = "<｜DSML｜tool_calls>", [MARK_CALLS_END] = "</｜DSML｜tool_calls>",
               [MARK_NAME] = "<｜DSML｜invoke name=\"", [MARK_NAME_END] = "\">",
               [MARK_FUNCTION_END] = "</｜DSML｜invoke>", [MARK_KEY] = "<｜DSML｜parameter name=\"",
               [MARK_KEY_END] = "\" string=\"false\">", [MARK_STRING_KEY_END] = "\" string=\"true\">",
               [MARK_VALUE_END] = "</｜DSML｜parameter>"}},
    {.name = "deepseek-v3", .syntax = SYNTAX_NAMED, .flags = FORMAT_FENCE,
     .marks = {[MARK_CALLS] = "<｜tool▁calls▁begin｜>", [MARK_CALLS_END] = "<｜tool▁calls▁end｜>",
               [MARK_CALL] = "<｜tool▁call▁begin｜>", [MARK_CALL_END] = "<｜tool▁call▁end｜>",
               [MARK_NAME_END] = "<｜tool▁sep｜>"}},
    {.name = "kimi-k2", .syntax = SYNTAX_NAMED, .flags = FORMAT_OWN_IDS,
     .marks = {[MARK_CALLS] = "<|tool_calls_section_begin|>", [MARK_CALLS_END] = "<|tool_calls_section_end|>",
               [MARK_CALL] = "<|tool_call_begin|>", [MARK_CALL_END] = "<|tool_call_end|>",
               [MARK_NAME_END] = "<|tool_call_argument_begin|>"}},
    {.name = "minimax-m2", .syntax = SYNTAX_XML, .flags = FORMAT_LINES,
     .marks = {[MARK_CALLS] = "<minimax:tool_call>", [MARK_CALLS_END] = "</minimax:tool_call>",
               [MARK_NAME] = "<invoke name=\"", [MARK_NAME_END] = "\">", [MARK_FUNCTION_END] = "</invoke>",
               [MARK_KEY] = "<parameter name=\"", [MARK_KEY_END] = "\">", [MARK_VALUE_END] = "</parameter>"}},
    {.name = "seed-oss", .syntax = SYNTAX_XML, .flags = FORMAT_LINES,
     .marks = {[MARK_CALL] = "<seed:tool_call>", [MARK_CALL_END] = "</seed:tool_call>", [MARK_NAME] = "<function=",
               [MARK_NAME_END] = ">", [MARK_FUNCTION_END] = "</function>", [MARK_KEY] = "<parameter=",
               [MARK_KEY_END] = ">", [MARK_VALUE_END] = "</parameter>"}},
    {.name = "glm4", .syntax = SYNTAX_XML,
     .marks = {[MARK_CALL] = "<tool_call>", [MARK_CALL_END] = "</tool_call>", [MARK_KEY] = "<arg_key>",
               [MARK_KEY_END] = "</arg_key>", [MARK_VALUE] = "<arg_value>", [MARK_VALUE_END] = "</arg_value>"}},
    {.name = "qwen3-coder", .syntax = SYNTAX_XML, .flags = FORMAT_LINES | FORMAT_BARE_NAME,
     .marks = {[MARK_CALL] = "<tool_call>", [MARK_CALL_END] = "</tool_call>", [MARK_NAME] = "<function=",
               [MARK_NAME_END] = ">", [MARK_FUNCTION_END] = "</function>", [MARK_KEY] = "<parameter=",
               [MARK_KEY_END] = ">", [MARK_VALUE_END] = "</parameter>"}},
    {.name = "mistral", .syntax = SYNTAX_NAMED, .flags = FORMAT_SHORT_IDS,
     .marks = {[MARK_CALL] = "[TOOL_CALLS]", [MARK_NAME_END] = "[ARGS]", [MARK_ID] = "[CALL_ID]"}},
    {.name = "lfm2", .syntax = SYNTAX_PYTHON,
     .marks = {[MARK_CALL] = "<|tool_call_start|>", [MARK_CALL_END] = "<|tool_call_end|>"}},
    {.name = "gemma3", .syntax = SYNTAX_PYTHON, .marks = {[MARK_CALL] = "```tool_code", [MARK_CALL_END] = "```"}},
    {.name = "granite3", .syntax = SYNTAX_JSON, .marks = {[MARK_CALL] = "<|tool_call|>"}},
    {.name = "phi4", .syntax = SYNTAX_JSON,
     .marks = {[MARK_CALL] = "<|tool_call|>", [MARK_CALL_END] = "<|/tool_call|>"}},
    {.name = "nemotron2", .syntax = SYNTAX_JSON,
     .marks = {[MARK_CALL] = "<TOOLCALL>", [MARK_CALL_END] = "</TOOLCALL>"}},
    {.name = "command-r7b", .syntax = SYNTAX_JSON,
     .marks = {[MARK_CALL] = "<|START_ACTION|>", [MARK_CALL_END] = "<|END_ACTION|>"}},
    {.name = "minimax-m1", .syntax = SYNTAX_JSON,
     .marks = {[MARK_CALL] = "<tool_calls>", [MARK_CALL_END] = "</tool_calls>"}},
    {.name = "llama3", .syntax = SYNTAX_JSON, .flags = FORMAT_BARE_JSON, .marks = {[MARK_CALL] = "<|python_tag|>"}},
    {.name = "hermes", .syntax = SYNTAX_JSON,
     .marks = {[MARK_CALL] = "<tool_call>", [MARK_CALL_END] = "</tool_call>"}},
};

static const ReplyFormat reasoning[] = {
    {.name = "none"},
    {.name = "think", .marks = {[MARK_THINK] = "<think>", [MARK_THINK_END] = "</think>"}},
    {.name = "mistral", .marks = {[MARK_THINK] = "[THINK]", [MARK_THINK_END] = "[/THINK]"}},
    {.name = "gemma4", .marks = {[MARK_THINK] = "<|channel>thought\n", [MARK_THINK_END] = "<channel|>"}},
    {.name = "seed-oss", .marks = {[MARK_THINK] = "<seed:think>", [MARK_THINK_END] = "</seed:think>"}},
    {.name = "command-r7b", .marks = {[MARK_THINK] = "<|START_THINKING|>", [MARK_THINK_END] = "<|END_THINKING|>"}},
    {.name = "apertus", .marks = {[MARK_THINK] = "<|inner_prefix|>", [MARK_THINK_END] = "<|inner_suffix|>"}},
};

/* In this order, the first whose texts are all in the template. */
static const struct {
    const char *name, *texts[2];
} call_texts[] = {
    {"harmony",       {"<|channel|>", "<|message|>"}},
    {"gemma4",        {"<|tool_call>", "<tool_call|>"}},
    {"functiongemma", {"<start_function_call>"}},
    {"deepseek-v3.2", {"DSML", "function_calls>"}},
    {"deepseek-v4",   {"DSML", "tool_calls>"}},
    {"deepseek-v3",   {"<｜tool▁calls▁begin｜>"}},
    {"kimi-k2",       {"<|tool_calls_section_begin|>"}},
    {"minimax-m2",    {"<minimax:tool_call>"}},
    {"seed-oss",      {"<seed:tool_call>", "<function="}},
    {"glm4",          {"<arg_key>", "<tool_call>"}},
    {"qwen3-coder",   {"<function=", "<parameter="}},
    {"mistral",       {"[TOOL_CALLS]"}},
    {"lfm2",          {"<|tool_call_start|>"}},
    {"phi4",          {"<|tool_call|>", "<|/tool_call|>"}},
    {"granite3",      {"<|tool_call|>"}},
    {"nemotron2",     {"<TOOLCALL>"}},
    {"command-r7b",   {"<|START_ACTION|>"}},
    {"minimax-m1",    {"<tool_calls>"}},
    {"llama3",        {"<|python_tag|>"}},
    {"llama3",        {"<|start_header_id|>", "\"parameters\": dictionary"}},
    {"hermes",        {"<tool_call>"}},
};
/* clang-format on */

enum { N_CALLS = sizeof calls / sizeof calls[0], N_REASONING = sizeof reasoning / sizeof reasoning[0] };

const char *rp_reply_format_calls(size_t i) { return i < N_CALLS ? calls[i].name : NULL; }

const char *rp_reply_format_reasoning(size_t i) { return i < N_REASONING ? reasoning[i].name : NULL; }

static RpStatus by_name(const ReplyFormat *all, size_t n, const char *what, const char *name, const ReplyFormat **out) {
    char   names[512];
    size_t used = 0;
    *out        = &all[0];
    if (name == NULL) return RP_OK;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) == 0) {
            *out = &all[i];
            return RP_OK;
        }
        const int more = snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", all[i].name);
        used += more > 0 && used + (size_t)more < sizeof names ? (size_t)more : 0;
    }
    return rp_fail(RP_E_ARG, "unknown format of %s \"%s\"; one of %s", what, name, names);
}

RpStatus rp_reply_format_of(const char *name, const ReplyFormat **out) {
    return by_name(calls, N_CALLS, "tool calls", name, out);
}

RpStatus rp_reasoning_format_of(const char *name, const ReplyFormat **out) {
    return by_name(reasoning, N_REASONING, "reasoning", name, out);
}

static bool has(const char *source, size_t n, const char *text) {
    return text == NULL || memmem(source, n, text, strlen(text)) != NULL;
}

void rp_reply_format_detect(const char *source, size_t n, RpReplyFormat *out) {
    if (out == NULL) return;
    *out = (RpReplyFormat){"none", "none"};
    if (source == NULL) return;
    for (size_t i = sizeof call_texts / sizeof call_texts[0]; i-- > 0;)
        if (has(source, n, call_texts[i].texts[0]) && has(source, n, call_texts[i].texts[1]))
            out->calls = call_texts[i].name;
    for (size_t i = N_REASONING; i-- > 1;)
        if (has(source, n, reasoning[i].marks[MARK_THINK_END])) out->reasoning = reasoning[i].name;
}

bool rp_reply_format_opens(const RpReplyFormat *format, const char *prompt, size_t n) {
    const ReplyFormat *r;
    if (format == NULL || prompt == NULL || rp_reasoning_format_of(format->reasoning, &r) != RP_OK) return false;
    const char *mark = r->marks[MARK_THINK];
    if (mark == NULL) return false;
    size_t m = strlen(mark);
    while (m > 0 && mark[m - 1] == '\n') m--;
    while (n > 0 && (prompt[n - 1] == '\n' || prompt[n - 1] == ' ')) n--;
    return n >= m && memcmp(prompt + n - m, mark, m) == 0;
}
