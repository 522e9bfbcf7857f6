#include "cli/users/scenario.h"

#include "reprise/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const Scenario *cli_scenario(int i) {
    static const Scenario all[] = {
        {"chat",      "short messages, 3 turns",                                  20,   40,   30,  false, 3, 64},
        {"agent",     "a long system message for all, results of tools, 6 turns", 1200, 60,   120, true,  6, 48},
        {"summarise", "a long text of its own, one short reply",                  20,   1200, 0,   false, 1, 96},
    };
    return i >= 0 && (size_t)i < sizeof all / sizeof all[0] ? &all[i] : NULL;
}

/* n words, the same for the same seed. NULL: out of memory. */
static char *words(uint64_t seed, int n) {
    static const char *const list[] = {
        "the",    "river",   "runs",  "past",    "a",      "small", "house",  "where",  "people", "mend",    "nets",
        "and",    "count",   "boats", "in",      "spring", "light", "over",   "stone",  "walls",  "letters", "arrive",
        "from",   "towns",   "that",  "nobody",  "names",  "while", "trains", "wait",   "at",     "bridges", "children",
        "draw",   "maps",    "of",    "islands", "birds",  "turn",  "south",  "before", "winter", "markets", "open",
        "early",  "with",    "bread", "apples",  "coffee", "salt",  "clocks", "strike", "twelve", "windows", "reflect",
        "clouds", "gardens", "grow",  "beans",   "slowly", "under", "old",    "trees",  "music"};
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);
    if (f == NULL) return NULL;
    for (int i = 0; i < n; i++) {
        const float r = rp_random_uniform(seed, (uint64_t)i);
        fprintf(f, "%s%s", i > 0 ? " " : "", list[(size_t)(r * 64.0f) % 64]);
        if (i % 12 == 11) fputc('.', f);
    }
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

static int add_message(json_t *history, const char *role, uint64_t seed, int n) {
    char     *text = words(seed, n);
    const int bad =
        text == NULL || json_array_append_new(history, json_pack("{s:s, s:s}", "role", role, "content", text));
    free(text);
    return bad;
}

char *cli_scenario_body(const Scenario *s, int user, int turn, const char *model, json_t *history) {
    const uint64_t own = (uint64_t)(user + 1) << 16;
    if (turn == 0 && add_message(history, "system", s->shared ? 1 : own, s->system)) return NULL;
    if (add_message(history, "user", own + 2 + (uint64_t)turn, turn == 0 ? s->first : s->more)) return NULL;
    json_t *body =
        json_pack("{s:O, s:b, s:{s:b}, s:i, s:i, s:i, s:b}", "messages", history, "stream", 1, "stream_options",
                  "include_usage", 1, "max_tokens", s->tokens, "temperature", 0, "seed", user, "ignore_eos", 1);
    if (body != NULL && model != NULL) json_object_set_new(body, "model", json_string(model));
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}
