/* Calls that the model begins by itself, with tool_choice "auto", in every format.
 *
 *     golden    replies as the models write them are not changed
 *     wrong     an unknown tool and an argument of another type become a valid call */
#include "base/text/json_read.h"
#include "tests/support/scripted_chat.h"

TestSuite(chat_calls, .init = setup, .fini = teardown);

/* Slow builds run one variant. */
static bool has_turn(int variant) {
#if defined(RP_TEST_SLOW)
    return variant == AS_CONTROL;
#else
    return (void)variant, true;
#endif
}

static bool satisfies(const char *schema, const char *text) {
    RpGrammar      *g;
    RpMatcher      *m;
    RpGgufString    none = {"", 0};
    RpGrammarVocab *v;
    OK(rp_grammar_json_schema(schema, strlen(schema), RP_GRAMMAR_ANY_ORDER, &g));
    OK(rp_grammar_vocab_of(&none, 1, NULL, 0, &v));
    OK(rp_matcher_new(g, v, &m));
    const bool is = rp_matcher_accept_text(m, text, strlen(text)) == RP_OK && rp_matcher_complete(m);
    rp_matcher_free(m), rp_grammar_vocab_free(v), rp_grammar_free(g);
    return is;
}

/* Replies of golden.jsonl that the grammar changes: arguments in front of the name, objects that are not JSON. */
static bool is_changed(const char *reply) {
    static const char *const texts[] = {"{\"arguments\": ", "filters={", "filters:{"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strstr(reply, texts[i]) != NULL) return true;
    return false;
}

static int n_golden;

static void golden_reply(const char *calls, const char *reasoning, const char *reply, Variant variant) {
    static char tools[1 << 12];
    FILE       *f                               = golden_open("replies/tools.json");
    tools[fread(tools, 1, sizeof tools - 1, f)] = '\0';
    fclose(f);
    open_model(calls, reasoning, variant, 1.0f);
    for (int cut = 0; cut < 4 && !is_changed(reply); cut += cut == 0 ? 1 : 2) {
        Play held        = {.calls = calls, .reasoning = reasoning, .tools = tools, .parts = {reply}, .cut = cut};
        Play freed       = held;
        freed.free_calls = true;
        play(&freed), play(&held);
        cr_expect(!held.diverged && same_tokens(&held, &freed), "%s, variant %d, cut %d: %s\nbecame\n%s", calls,
                  variant, cut, reply, joined(&held.t.all));
        cr_expect_str_eq(joined(&held.t.all), joined(&freed.t.all), "%s", reply);
        cr_expect(held.result.n_held == held.t.n_calls && freed.result.n_held == 0,
                  "%s, variant %d, cut %d: %d of %d "
                  "calls are held",
                  reply, variant, cut, held.result.n_held, held.t.n_calls);
        cr_expect(freed.n_masked == 0 && (held.n_masked > 0) == (held.t.n_calls > 0), "%s: %d tokens have masks", reply,
                  held.n_masked);
        n_golden += held.t.n_calls;
        play_free(&held), play_free(&freed);
    }
    close_model();
}

static char *text_of(const Json *j, const char *key) {
    const JsonNode *node = rp_json_get(j, &j->nodes[0], key);
    if (node == NULL) return NULL;
    const RpGgufString s = rp_json_string(j, node);
    return strndup(s.ptr, s.len);
}

static void golden_replies(Variant variant) {
    FILE  *f    = golden_open("replies/golden.jsonl");
    char  *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, f) > 0) {
        Json j;
        OK(rp_json_read("golden", line, strlen(line), &j));
        char *calls = text_of(&j, "format"), *reasoning = text_of(&j, "reasoning_format"), *text = text_of(&j, "reply");
        if (rp_json_get(&j, &j.nodes[0], "in_reasoning") == NULL &&
            !(variant == AS_TEXT && strcmp(calls, "harmony") == 0))
            golden_reply(calls, reasoning != NULL ? reasoning : "none", text, variant);
        free(calls), free(reasoning), free(text);
        rp_json_free(&j);
    }
    free(line);
    fclose(f);
}

Test(chat_calls, calls_as_models_write_them_are_not_changed) {
    for (int v = 0; v < VARIANTS; v++)
        if (has_turn(v)) golden_replies((Variant)v);
    cr_expect_gt(n_golden, 100);
}

/* `text` with the first `from` behind `behind` replaced; NULL: it has none. */
static char *replaced(const char *text, const char *behind, const char *from, const char *to) {
    const char *at  = strstr(text, behind);
    char       *out = malloc(strlen(text) + strlen(to) + 1);
    at              = at != NULL ? strstr(at + strlen(behind), from) : NULL;
    if (at != NULL) {
        sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        return out;
    }
    free(out);
    return NULL;
}

static bool all_valid(const Play *y) {
    bool valid = y->t.malformed.n == 0 && y->t.n_calls > 0;
    for (int i = 0; i < y->t.n_calls && i < TRANSCRIPT_CALLS; i++) {
        const bool now = strcmp(joined(&y->t.name[i]), "now") == 0;
        valid &= now || strcmp(joined(&y->t.name[i]), "get_weather") == 0;
        valid &= satisfies(now ? NOW : WEATHER, joined(&y->t.arguments[i]));
    }
    return valid;
}

static void wrong_reply(const char *calls, const char *reply, Variant variant) {
    const bool more = strcmp(calls, "harmony") != 0; /* whose mark behind a call ends the reply */
    open_model(calls, "none", variant, 1.0f);
    for (int cut = 0; cut < 4; cut += 3) {
        Play held = {
            .calls     = calls,
            .reasoning = "none",
            .tools     = TOOLS,
            .parts     = {reply, more ? " It is done." : NULL},
            .cut       = cut
        };
        Play freed       = held;
        freed.free_calls = true;
        play(&freed), play(&held);
        cr_expect(!all_valid(&freed), "%s: %s is no wrong call: %s", calls, reply, joined(&freed.t.all));
        cr_expect(all_valid(&held) && held.diverged && held.result.n_held == held.t.n_calls,
                  "%s, variant %d, cut %d: %s\nbecame\n%s", calls, variant, cut, reply, joined(&held.t.all));
        cr_expect(!more || strstr(joined(&held.t.text), "It is done.") != NULL, "%s: %s", calls, joined(&held.t.all));
        play_free(&held), play_free(&freed);
    }
    close_model();
}

static void wrong_replies(const char *calls, const char *reply, Variant variant) {
    const bool bare = reply[0] == '{'; /* may be an answer until the name of a tool is known */
    char      *name = replaced(reply, "", "get_weather", "get_wether");
    char      *type = replaced(reply, "days", "3", "true");
    if (type == NULL) type = replaced(reply, "metric", "true", "7");
    if (type == NULL) type = replaced(reply, "city", "\"Oslo\"", "[1]");
    cr_assert(name != NULL && type != NULL, "%s: %s", calls, reply);
    if (!bare) wrong_reply(calls, name, variant);
    wrong_reply(calls, type, variant);
    free(name), free(type);
}

Test(chat_calls, wrong_calls_become_right_ones) {
    FILE  *f    = golden_open("replies/golden.jsonl");
    char  *line = NULL, last[32] = "";
    size_t size = 0, n = 0;
    while (getline(&line, &size, f) > 0) {
        Json j;
        OK(rp_json_read("golden", line, strlen(line), &j));
        char *calls = text_of(&j, "format"), *reasoning = text_of(&j, "reasoning_format"), *text = text_of(&j, "reply");
        if ((reasoning == NULL || strcmp(calls, reasoning) == 0) && strcmp(calls, last) != 0 &&
            strstr(text, "get_weather") != NULL) {
            for (int v = 0; v < VARIANTS; v++)
                if (has_turn(v) && (v != AS_TEXT || strcmp(calls, "harmony") != 0))
                    wrong_replies(calls, text, (Variant)v);
            snprintf(last, sizeof last, "%s", calls);
            n++;
        }
        free(calls), free(reasoning), free(text);
        rp_json_free(&j);
    }
    cr_expect_eq(n, 21);
    free(line);
    fclose(f);
}
