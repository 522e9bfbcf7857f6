/* Replies taken apart: formats against the parsers of sglang (tests/golden/replies), every cut of a reply, marks that
 * are tokens, and calls that are malformed. */
#include "tests/support/case.h"
#include "tests/support/reply.h"
#include "tests/support/vocabulary.h"

#include "base/text/json_read.h"

/* The files of the folder, read once. */
static char *tools_text(void) {
    static char text[1 << 14];
    FILE       *f                            = golden_open("replies/tools.json");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

typedef struct Reply {
    const char *calls, *reasoning, *text;
    size_t      n;
    bool        in_reasoning, no_tools;
} Reply;

static RpReplyParserOptions options_of(const Reply *r, Transcript *t) {
    RpReplyParserOptions o = {
        .format = {r->calls, r->reasoning},
          .in_reasoning = r->in_reasoning, .on_event = transcript_event, .user = t
    };
    o.tools       = r->no_tools ? NULL : tools_text();
    o.tools_bytes = o.tools != NULL ? strlen(o.tools) : 0;
    return o;
}

/* The reply in pieces of `piece` bytes behind a first one of `first`; 0: all at once. */
static Transcript parse_cut(const Reply *r, size_t first, size_t piece) {
    Transcript                 t = {0};
    const RpReplyParserOptions o = options_of(r, &t);
    RpReplyParser             *p;
    OK(rp_reply_parser_new(&o, &p));
    for (size_t i = 0, n = first > 0 ? first : r->n; i < r->n; i += n, n = piece) {
        if (n == 0 || n > r->n - i) n = r->n - i;
        OK(rp_reply_parser_bytes(p, r->text + i, n, false));
    }
    OK(rp_reply_parser_end(p));
    rp_reply_parser_free(p);
    cr_expect(!t.wrong, "%s: %s", r->calls, r->text);
    return t;
}

static bool same_json(const Json *a, const JsonNode *x, const Json *b, const JsonNode *y) {
    if (x == NULL || y == NULL) return x == y;
    if (x->type != y->type || x->n != y->n) return false;
    const RpGgufString s = rp_json_string(a, x), t = rp_json_string(b, y);
    if (x->type == JSON_NUMBER) return rp_json_number(a, x) == rp_json_number(b, y);
    if (s.len != t.len || memcmp(s.ptr, t.ptr, s.len) != 0) return false;
    const JsonNode *v = rp_json_first(b, y);
    for (const JsonNode *u = rp_json_first(a, x); u != NULL; u = rp_json_next(a, x, u), v = rp_json_next(b, y, v)) {
        const RpGgufString k = rp_json_key(a, u), l = rp_json_key(b, v);
        if (k.len != l.len || memcmp(k.ptr, l.ptr, k.len) != 0 || !same_json(a, u, b, v)) return false;
    }
    return true;
}

/* Without white space at its ends, as sglang's results are compared. */
static bool same_trimmed(const Joined *j, RpGgufString want) {
    const char *p = joined(j);
    size_t      n = j->n;
    while (n > 0 && strchr(" \n", p[n - 1]) != NULL) n--;
    while (n > 0 && strchr(" \n", *p) != NULL) p++, n--;
    return n == want.len && memcmp(p, want.ptr, n) == 0;
}

static void expect_golden(const Json *j, const Transcript *t, const char *line) {
    const JsonNode *root = &j->nodes[0], *calls = rp_json_get(j, root, "calls");
    cr_expect(same_trimmed(&t->text, rp_json_string(j, rp_json_get(j, root, "text"))), "text of %s: %s", line,
              joined(&t->all));
    cr_expect(same_trimmed(&t->reasoning, rp_json_string(j, rp_json_get(j, root, "reasoning"))), "reasoning of %s: %s",
              line, joined(&t->all));
    cr_expect_eq(t->n_calls, (int)calls->n, "calls of %s: %s", line, joined(&t->all));
    int i = 0;
    for (const JsonNode *c = rp_json_first(j, calls); c != NULL && i < t->n_calls; c = rp_json_next(j, calls, c), i++) {
        Json got;
        cr_expect(rp_json_is(j, rp_json_get(j, c, "name"), joined(&t->name[i])), "name of %s: %s", line,
                  joined(&t->all));
        cr_assert_eq(rp_json_read("arguments", joined(&t->arguments[i]), t->arguments[i].n, &got), RP_OK, "%s: %s",
                     line, joined(&t->all));
        cr_expect(same_json(j, rp_json_get(j, c, "arguments"), &got, &got.nodes[0]), "arguments of %s: %s", line,
                  joined(&t->all));
        rp_json_free(&got);
    }
}

static char *text_of(const Json *j, const char *key) {
    const JsonNode *node = rp_json_get(j, &j->nodes[0], key);
    if (node == NULL) return NULL;
    const RpGgufString s = rp_json_string(j, node);
    return strndup(s.ptr, s.len);
}

static void each_golden(void (*use)(const Json *j, const Reply *r, const char *line)) {
    FILE  *f    = golden_open("replies/golden.jsonl");
    char  *line = NULL;
    size_t size = 0, n = 0;
    while (getline(&line, &size, f) > 0) {
        Json j;
        OK(rp_json_read("golden", line, strlen(line), &j));
        char *calls = text_of(&j, "format"), *reasoning = text_of(&j, "reasoning_format"), *text = text_of(&j, "reply");
        const Reply r = {calls, reasoning, text, strlen(text), rp_json_get(&j, &j.nodes[0], "in_reasoning") != NULL,
                         false};
        use(&j, &r, line);
        free(calls), free(reasoning), free(text);
        rp_json_free(&j);
        n++;
    }
    cr_expect_gt(n, 45);
    free(line);
    fclose(f);
}

static void check_golden(const Json *j, const Reply *r, const char *line) {
    Transcript t = parse_cut(r, 0, 0);
    expect_golden(j, &t, line);
    transcript_free(&t);
}

Test(reply, formats_are_read_as_sglang_reads_them) { each_golden(check_golden); }

static void check_cuts(const Json *j, const Reply *r, const char *line) {
    (void)j;
    Transcript whole = parse_cut(r, 0, 0), bytes = parse_cut(r, 1, 1);
    cr_expect_str_eq(joined(&bytes.all), joined(&whole.all), "byte by byte: %s", line);
    transcript_free(&bytes);
    for (size_t at = 1; at < r->n; at++) {
        Transcript two = parse_cut(r, at, 0);
        cr_expect_str_eq(joined(&two.all), joined(&whole.all), "cut at %zu: %s", at, line);
        transcript_free(&two);
    }
    for (size_t first = 1; first < 8; first++) {
        Transcript many = parse_cut(r, first, first + 1);
        cr_expect_str_eq(joined(&many.all), joined(&whole.all), "in pieces of %zu: %s", first, line);
        transcript_free(&many);
    }
    transcript_free(&whole);
}

Test(reply, events_do_not_depend_on_cuts) { each_golden(check_cuts); }

/* A reply that breaks off anywhere: the events of all cuts are the same, and the name comes before the arguments. */
static void check_prefixes(const Json *j, const Reply *r, const char *line) {
    (void)j;
    for (size_t n = 0; n < r->n; n++) {
        Reply part       = *r;
        part.n           = n;
        Transcript whole = parse_cut(&part, 0, 0), bytes = parse_cut(&part, 1, 1);
        cr_expect_str_eq(joined(&bytes.all), joined(&whole.all), "the first %zu bytes of %s", n, line);
        transcript_free(&whole), transcript_free(&bytes);
    }
}

Test(reply, a_reply_may_break_off_anywhere) { each_golden(check_prefixes); }

static void expect_all(const Reply *r, const char *want) {
    Reply reply  = *r;
    reply.n      = strlen(r->text);
    Transcript t = parse_cut(&reply, 1, 1);
    cr_expect_str_eq(joined(&t.all), want, "%s: %s\ngives %s", r->calls, r->text, joined(&t.all));
    transcript_free(&t);
}

Test(reply, malformed_calls_are_not_lost) {
    static const struct {
        const char *calls, *text, *want;
    } cases[] = {
        {"hermes",      "a <tool_call>{\"name\": 5}</tool_call> b",                     "T a\nM <tool_call>{\"name\": 5}</tool_call>\nT b\n. "},
        {"hermes",      "<tool_call>{\"arguments\": {}}</tool_call>",                   "M <tool_call>{\"arguments\": {}}</tool_call>\n. "    },
        {"hermes",      "<tool_call>{\"name\": \"\"}",                                  "M <tool_call>{\"name\": \"\"}\n. "                   },
        {"hermes",      "<tool_call>nothing</tool_call>x",                              "M <tool_call>nothing</tool_call>\nT x\n. "           },
        {"hermes",      "<tool_call>{\"name\": \"now\", \"arguments\": 3}</tool_call>",
         "B0 now call_z7c9VSlw4Fh3ZMwStw\nM0 <tool_call>{\"name\": \"now\", \"arguments\": 3}</tool_call>\n. "                                },
        {"qwen3-coder", "<tool_call>\nf</tool_call>",                                   "M <tool_call>\nf</tool_call>\n. "                    },
        {"mistral",     "[TOOL_CALLS]{}",                                               "M [TOOL_CALLS]{}\n. "                                },
        {"lfm2",        "<|tool_call_start|>[f(1)]<|tool_call_end|>",
         "B0 f call_z7c9VSlw4Fh3ZMwStw\nA0 {\nM0 <|tool_call_start|>[f(1)]<|tool_call_end|>\n. "                                              },
        {"harmony",     "<|channel|>commentary to=functions.f<|message|>[1]<|call|>",
         "B0 f call_z7c9VSlw4Fh3ZMwStw\nM0 <|channel|>commentary to=functions.f<|message|>[1]<|call|>\n. "                                    },
        {"harmony",     "x",                                                            "M x\n. "                                             },
        {"llama3",      "{\"a\": 1} b",                                                 "T {\"a\": 1} b\n. "                                  },
        {"llama3",      " {\"a\"",                                                      "T  {\"a\"\n. "                                       },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_all(&(Reply){.calls = cases[i].calls, .text = cases[i].text}, cases[i].want);
}

/* A backslash in front of a quote escapes it only if it is not escaped itself. */
/* glm4 has no mark behind the last parameter but that of the call. */
Test(reply, the_end_of_a_reply_closes_the_arguments) {
    expect_all(&(Reply){.calls = "glm4", .text = "<tool_call>f\n<arg_key>a</arg_key><arg_value>Oslo</arg_value>\n"},
               "B0 f call_z7c9VSlw4Fh3ZMwStw\nA0 {\"a\": \"Oslo\"}\n"
               "E0 <tool_call>f\n<arg_key>a</arg_key><arg_value>Oslo</arg_value>\n\n. ");
}

Test(reply, line_ends_outside_of_strings_stay) {
    expect_all(
        &(Reply){.calls = "qwen3-coder",
                 .text  = "<tool_call><function=f><parameter=a>[\"C:\\\\\",\n\"\\\"\n\"]</parameter></function>"
                          "</tool_call>"},
        "B0 f call_z7c9VSlw4Fh3ZMwStw\nA0 {\"a\": [\"C:\\\\\",\n\"\\\"\\n\"]}\n"
        "E0 <tool_call><function=f><parameter=a>[\"C:\\\\\",\n\"\\\"\n\"]</parameter></function></tool_call>\n. ");
}

/* ---- marks that are tokens ---- */

/* The tokens of a text, with or without its control tokens. */
static void feed_tokens(RpReplyParser *p, const RpTokenizer *tk, const char *text, unsigned flags) {
    RpTokenList ids = {0};
    OK(rp_tokenize(tk, text, strlen(text), flags, &ids));
    for (size_t i = 0; i < ids.n; i++) OK(rp_reply_parser_token(p, ids.ids[i]));
    rp_token_list_free(&ids);
}

static const Added harmony_marks[] = {
    {"<|start|>",     CONTROL, 0},
    {"<|end|>",       CONTROL, 0},
    {"<|channel|>",   CONTROL, 0},
    {"<|message|>",   CONTROL, 0},
    {"<|call|>",      CONTROL, 0},
    {"<|constrain|>", CONTROL, 0},
    {"<|return|>",    CONTROL, 0},
};

/* The letters of a mark, put together from other tokens, are text. */
Test(reply, a_mark_that_is_a_token_is_not_found_in_text) {
    static const char          call[] = "<|channel|>commentary to=functions.f<|message|>{}<|call|>";
    RpTokenizer               *tk     = vocabulary("gpt-4o", harmony_marks, 7);
    Transcript                 t      = {0};
    RpReplyParser             *p;
    const RpReplyParserOptions o = {
        .format = {"harmony", NULL},
          .tokenizer = tk, .on_event = transcript_event, .user = &t
    };
    OK(rp_reply_parser_new(&o, &p));
    feed_tokens(p, tk, "<|channel|>final<|message|>", RP_TOK_PARSE_SPECIAL);
    feed_tokens(p, tk, call, 0);
    feed_tokens(p, tk, "<|end|><|start|>assistant", RP_TOK_PARSE_SPECIAL);
    feed_tokens(p, tk, call, RP_TOK_PARSE_SPECIAL);
    REFUSED(rp_reply_parser_token(p, -1), RP_E_ARG, "token -1 is outside of the vocabulary of 718");
    OK(rp_reply_parser_end(p));
    cr_expect_str_eq(joined(&t.text), call);
    cr_expect_eq(t.n_calls, 1);
    cr_expect_str_eq(joined(&t.name[0]), "f");
    cr_expect(!t.wrong);
    REFUSED(rp_reply_parser_token(p, 0), RP_E_STATE, "the reply has ended");
    rp_reply_parser_free(p);
    transcript_free(&t);
    rp_tokenizer_free(tk);
}

static void give(RpReplyParser *p, const char *text) { OK(rp_reply_parser_bytes(p, text, strlen(text), false)); }

/* The marks are user-defined tokens, as in the vocabulary of Qwen. The token ends a call inside of a JSON string too,
 * and begins one in the reasoning. The letters do neither. */
Test(reply, a_token_counts_inside_of_strings_and_reasoning) {
    static const Added marks[] = {
        {"<tool_call>",  USER_DEFINED, 0},
        {"</tool_call>", USER_DEFINED, 0},
        {"<think>",      USER_DEFINED, 0},
        {"</think>",     USER_DEFINED, 0},
    };
    RpTokenizer               *tk = vocabulary("qwen2", marks, 4);
    Transcript                 t  = {0};
    RpReplyParser             *p;
    const RpReplyParserOptions o = {
        .format = {"hermes", "think"},
          .tokenizer = tk, .on_event = transcript_event, .user = &t, .in_reasoning = true
    };
    const int32_t open = rp_tokenizer_find(tk, "<tool_call>"), close = rp_tokenizer_find(tk, "</tool_call>");
    OK(rp_reply_parser_new(&o, &p));
    give(p, "no </think>, <tool_call>.");
    OK(rp_reply_parser_token(p, open));
    give(p, "{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}");
    OK(rp_reply_parser_token(p, close));
    OK(rp_reply_parser_token(p, open));
    give(p, "{\"name\": \"f");
    OK(rp_reply_parser_token(p, close));
    OK(rp_reply_parser_end(p));
    cr_expect_str_eq(joined(&t.reasoning), "no </think>, <tool_call>.");
    cr_expect_str_eq(joined(&t.arguments[0]), "{\"a\": \"</tool_call>\"}");
    cr_expect_str_eq(joined(&t.malformed), "<tool_call>{\"name\": \"f</tool_call>");
    cr_expect_eq(t.n_calls, 1);
    rp_reply_parser_free(p);
    transcript_free(&t);
    rp_tokenizer_free(tk);
}

/* ---- refusals ---- */

Test(reply, refuses_bad_options) {
    RpReplyParser *p;
    REFUSED(rp_reply_parser_new(
                &(RpReplyParserOptions){
                    .format = {"pascal", NULL}
    },
                &p),
            RP_E_ARG,
            "unknown format of tool calls \"pascal\"; one of none, harmony, gemma4, functiongemma, deepseek-v3.2, "
            "deepseek-v4, "
            "deepseek-v3, kimi-k2, minimax-m2, seed-oss, glm4, qwen3-coder, mistral, lfm2, gemma3, granite3, phi4, "
            "nemotron2, command-r7b, minimax-m1, llama3, hermes");
    cr_expect_null(p);
    REFUSED(
        rp_reply_parser_new(
            &(RpReplyParserOptions){
                .format = {NULL, "aloud"}
    },
            &p),
        RP_E_ARG,
        "unknown format of reasoning \"aloud\"; one of none, think, mistral, gemma4, seed-oss, command-r7b, apertus");
    REFUSED(rp_reply_parser_new(&(RpReplyParserOptions){.tools = "[", .tools_bytes = 1}, &p), RP_E_FORMAT,
            "tools: JSON: the text ends at byte 1");
    OK(rp_reply_parser_new(NULL, &p));
    REFUSED(rp_reply_parser_token(p, 0), RP_E_ARG, "this parser has no tokenizer: give it bytes");
    rp_reply_parser_free(p);
}

Test(reply, stops_where_the_callback_says_so) {
    Transcript     t = {.stop_at = 2};
    RpReplyParser *p;
    OK(rp_reply_parser_new(
        &(RpReplyParserOptions){
            .format = {"hermes", NULL},
              .on_event = transcript_event, .user = &t
    },
        &p));
    OK(rp_reply_parser_bytes(p, "a", 1, false));
    REFUSED(rp_reply_parser_bytes(p, "b c", 3, false), RP_E_CANCELLED, "the reply was stopped by its callback");
    REFUSED(rp_reply_parser_end(p), RP_E_CANCELLED, "the reply was stopped by its callback");
    cr_expect_str_eq(joined(&t.all), "T ab c");
    rp_reply_parser_free(p);
    transcript_free(&t);
}

/* ---- detection ---- */

Test(reply, formats_are_detected_by_templates) {
    static const struct {
        const char *file, *calls, *reasoning;
    } cases[] = {
        {"Qwen-Qwen2.5-7B-Instruct",                 "hermes",        "none"    },
        {"Qwen-Qwen3-0.6B",                          "hermes",        "think"   },
        {"Qwen3-Coder",                              "qwen3-coder",   "none"    },
        {"Qwen3.5-4B",                               "qwen3-coder",   "think"   },
        {"StepFun3.5-Flash",                         "qwen3-coder",   "think"   },
        {"openai-gpt-oss-120b",                      "harmony",       "none"    },
        {"google-gemma-4-31B-it",                    "gemma4",        "gemma4"  },
        {"GLM-4.6",                                  "glm4",          "think"   },
        {"deepseek-ai-DeepSeek-V3.1",                "deepseek-v3",   "think"   },
        {"deepseek-ai-DeepSeek-V3.2",                "deepseek-v3.2", "think"   },
        {"deepseek-ai-DeepSeek-V4",                  "deepseek-v4",   "think"   },
        {"mistralai-Mistral-Nemo-Instruct-2407",     "mistral",       "none"    },
        {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral",       "mistral" },
        {"Mistral-Small-3.2-24B-Instruct-2506",      "mistral",       "none"    },
        {"ibm-granite-granite-4.1",                  "hermes",        "none"    },
        {"ibm-granite-granite-3.3-2B-Instruct",      "granite3",      "think"   },
        {"MiniMax-M1",                               "minimax-m1",    "none"    },
        {"ByteDance-Seed-OSS",                       "seed-oss",      "seed-oss"},
        {"HuggingFaceTB-SmolLM3-3B",                 "none",          "think"   },
        {"microsoft-Phi-3.5-mini-instruct",          "none",          "none"    },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static char   source[1 << 16];
        char          name[256];
        RpReplyFormat got;
        snprintf(name, sizeof name, "templates/%s.jinja", cases[i].file);
        FILE *f = golden_open(name);
        rp_reply_format_detect(source, fread(source, 1, sizeof source, f), &got);
        fclose(f);
        cr_expect_str_eq(got.calls, cases[i].calls, "%s: %s", cases[i].file, got.calls);
        cr_expect_str_eq(got.reasoning, cases[i].reasoning, "%s: %s", cases[i].file, got.reasoning);
    }
    RpReplyFormat none;
    rp_reply_format_detect(NULL, 0, &none);
    cr_expect_str_eq(none.calls, "none");
}

Test(reply, a_prompt_may_open_the_reasoning) {
    const RpReplyFormat think = {"hermes", "think"}, none = {"hermes", NULL}, gemma = {"gemma4", "gemma4"};
    cr_expect(rp_reply_format_opens(&think, "<|assistant|>\n<think>\n", 22));
    cr_expect(!rp_reply_format_opens(&think, "<|assistant|>\n<think></think>", 29));
    cr_expect(!rp_reply_format_opens(&none, "<think>", 7));
    cr_expect(rp_reply_format_opens(&gemma, "x<|channel>thought\n", 19));
    cr_expect(!rp_reply_format_opens(NULL, "", 0));
}
